"""What a word is, for the encoder that knows words and for the coherence of clusters."""

import re
from collections.abc import Iterable

import numpy as np

from al_ray.core.pairs import Rows

# Of a text in lower case; paper 002 does not say what a word is.
WORD = re.compile(r"\w+|[^\w\s]")


def words_of(text: str) -> list[str]:
    """The words of a text: runs of letters and digits in lower case, and every other sign by itself."""
    return WORD.findall(text.lower())


def same_text(texts: Iterable[str]) -> Rows:
    """(n,) texts -> (n,) a number for each text; texts that differ in case and white space alone have the same."""
    folded = (" ".join(text.casefold().split()) for text in texts)
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in folded], dtype=np.int64)
