"""Words of a text, equality of texts, and the coherence of clusters of questions."""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from al_ray.core.pairs import Rows

# Applied to lower-case text. Paper 002 does not define its words.
WORD = re.compile(r"\w+|[^\w\s]")


def words_of(text: str) -> list[str]:
    """Split a text into lower-case words: runs of letters and digits, and every other sign by itself."""
    return WORD.findall(text.lower())


def same_text(texts: Iterable[str]) -> Rows:
    """(n,) texts -> (n,) numbers; texts have the same number if they differ only in case and white space."""
    folded = (" ".join(text.casefold().split()) for text in texts)
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in folded], dtype=np.int64)


def coherence(questions: Sequence[str]) -> float:
    """Compute the coherence of a cluster of n questions, in [1 / n, 1] (paper 002, Eq. 4-5).

    c = mean over q of |T_q n S| / |S|, where T_q are the words of question q and S is their union; so T_q n S = T_q.
    """
    words = [set(words_of(question)) for question in questions]
    return sum(map(len, words)) / (len(words) * len(set[str]().union(*words)))
