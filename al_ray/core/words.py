"""What a word is, for the encoder that knows words and for the coherence of clusters."""

import re
from collections.abc import Iterable, Sequence

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


def coherence(questions: Sequence[str]) -> float:
    """How much the questions of a cluster have in common, from 1 / n to 1 (paper 002, Eq. 4-5).

    S is the union of the questions' words T_q; c = mean_q |T_q n S| / |S|, where T_q n S is T_q.
    """
    words = [set(words_of(question)) for question in questions]
    return sum(map(len, words)) / (len(words) * len(set[str]().union(*words)))
