"""Comparisons in plain words: "price: relative difference", 0.02 -> "price: relative difference 0.02"."""

import re
from collections.abc import Callable
from math import expm1

from al_ray.matcher.comparisons.comparison import MISSING

WORDS = {
    "TF-IDF of words": "common words, weighted by rarity",
    "overlap of words": "share of the words of the shorter one that both have",
    "rarest common word": "rarity of the rarest common word",
    "rarest word of one alone": "rarity of the rarest word of only one",
    "rarest words of both alone": "rarity of words on both sides that the other lacks",
    "Jaccard of words with digits": "common words with digits",
    "Jaro-Winkler": "similarity of spelling",
    "token set ratio": "similarity of the words, added ones left out",
    "token sort ratio": "similarity of the words in any order",
    "initials": "common initials",
    "rarity of the equal value": "rarity of the equal value",
    "rarity of the commoner value": "rarity of the more common value",
    "edits of codes": "similarity of the codes",
    "common beginning": "common beginning of the codes",
    "log difference": "difference",
    "equal parts of dates": "share of year, month and day that are equal",
    "edits of dates": "similarity of the dates as digits",
}
"""What a comparison is called for people; one that is not here keeps its name."""
WAYS = {"cosine": "similarity of meaning", "3-grams": "similarity of letters"}
SIDES = {
    "left": "of the left text",
    "right": "of the right text",
    "more of both": "of the text where it stands out more",
    "less of both": "of the text where it stands out less",
}
RANK = re.compile(rf"({'|'.join(WAYS)})(?: less the (best|mean of the (\d+) nearest), ({'|'.join(SIDES)}))?")
"""The names of search/candidate_ranks.py."""


def _yes_or_no(value: float) -> str:
    return "yes" if value >= 0.5 else "no"


def _number(value: float) -> str:
    # Adding 0 makes -0.00 of a small number 0.00.
    return f"{round(value, 2) + 0.0:.2f}" if abs(value) < 100 else f"{value:,.0f}"


def _of_logarithm(value: float) -> str:
    return f"{expm1(min(value, 700.0)):,.4g}"


SHOWN: dict[str, Callable[[float], str]] = {
    **dict.fromkeys(("equal", "equal codes", "day and month exchanged"), _yes_or_no),
    # Stored as ln(1 + x).
    **dict.fromkeys(("log difference", "days apart"), _of_logarithm),
    "missing values": lambda value: f"{value:.0f}",
}
"""How the value of a comparison is shown, if not as a number."""


def name_in_words(name: str) -> str:
    """Return a comparison in plain words: the field and what is compared of it."""
    if rank := RANK.fullmatch(name):
        way, kind, count, side = rank.groups()
        if kind is None:
            return f"{WAYS[way]} ({way})"
        others = "the best" if kind == "best" else f"the mean of the {count} nearest"
        return f"{WAYS[way]}, less {others} {SIDES[side]}"
    field, colon, comparison = name.rpartition(": ")
    return f"{field}{colon}{WORDS.get(comparison, comparison)}"


def is_missing(name: str, value: float) -> bool:
    """Return whether a comparison has no value, as a value of the field is missing or cannot be read."""
    return value == MISSING and not RANK.fullmatch(name)


def value_in_words(name: str, value: float) -> str:
    """Return the value of a comparison as a person reads it."""
    if is_missing(name, value):
        return "missing"
    return SHOWN.get(name.rpartition(": ")[2], _number)(value)
