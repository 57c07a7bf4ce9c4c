"""All comparisons by their names. To add one, write it in a file of its kind, or in its own, and name it here."""

from collections.abc import Mapping

from al_ray.matcher.comparisons.comparison import Compared, Comparison
from al_ray.matcher.comparisons.strings import STRINGS

COMPARISONS: Mapping[str, Comparison] = {one.name: one for one in STRINGS}


def comparisons_of(kind: Compared) -> tuple[Comparison, ...]:
    """Return the comparisons of a type of field, in the order of the registry."""
    return tuple(one for one in COMPARISONS.values() if kind in one.of)
