"""All comparisons by their names. To add one, write it in a file of kinds/, and name it here."""

from collections.abc import Mapping

from al_ray.matcher.comparisons.comparison import Compared, Comparison
from al_ray.matcher.comparisons.kinds import codes, dates, missing, names, numbers, rarity, strings, words

COMPARISONS: Mapping[str, Comparison] = {
    one.name: one
    for one in (
        *(words.TFIDF, words.OVERLAP, words.RAREST_COMMON, words.RAREST_OF_ONE, words.RAREST_OF_BOTH, words.DIGITS),
        *(strings.EQUALITY, strings.JARO_WINKLER, strings.TOKEN_SET, strings.TOKEN_SORT),
        *(names.INITIALS, rarity.EQUAL, rarity.COMMONER),
        *(codes.EQUAL_CODES, codes.EDITS, codes.PREFIX),
        *(numbers.RELATIVE, numbers.ABSOLUTE),
        *(dates.DAYS_APART, dates.EXCHANGED, dates.PARTS, dates.EDITS),
        missing.MISSING_SIDES,
    )
}


def comparisons_of(kind: Compared) -> tuple[Comparison, ...]:
    """Return the comparisons of a type of field, in the order of the registry."""
    return tuple(one for one in COMPARISONS.values() if kind in one.of)
