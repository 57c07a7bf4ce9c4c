"""Words of a text, equality and differences of texts, and the coherence of clusters of questions."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from al_ray.core.pairs import Rows

# Applied to lower-case text. Paper 002 does not define its words.
WORD = re.compile(r"\w+|[^\w\s]")
COMPARED = 20_000
"""Number of characters of a text in which the words of the other text are looked up."""
PIECE = re.compile(r"\w+|\W+")


@dataclass(frozen=True)
class Part:
    """A part of a text; differs: none of its words is in the other text of the pair."""

    text: str
    differs: bool = False


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


def differences(text: str, other: str, sharing: bool | None = None) -> tuple[Part, ...]:
    """Divide a text into parts that the other text has and parts that it lacks.

    Words are compared without regard to case. If the texts share no word, nothing is marked. sharing: whether they do,
    where `text` is a field of a longer one; None: computed.
    """
    there = set(PIECE.findall(other[:COMPARED].casefold()))
    pieces = PIECE.findall(text)
    is_word = [bool(re.match(r"\w", piece)) for piece in pieces]
    has = [piece.casefold() in there for piece in pieces]
    if not (share_words(text, other) if sharing is None else sharing):
        return (Part(text),)
    return _merged(pieces, [word and not known for word, known in zip(is_word, has, strict=True)])


def share_words(text: str, other: str) -> bool:
    """Return whether two texts have a word in common, without regard to case."""
    words, others = (set(PIECE.findall(one[:COMPARED].casefold())) for one in (text, other))
    return any(re.match(r"\w", piece) for piece in words & others)


def _merged(pieces: Sequence[str], lacks: Sequence[bool]) -> tuple[Part, ...]:
    """Join adjacent pieces of one kind."""
    groups = groupby(zip(pieces, lacks, strict=True), key=lambda one: one[1])
    return tuple(Part("".join(piece for piece, _ in group), differs) for differs, group in groups)
