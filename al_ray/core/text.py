"""Words of a text, equality and differences of texts, and the coherence of clusters of questions."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise

import numpy as np

from al_ray.core.pairs import Rows

# Applied to lower-case text. Paper 002 does not define its words.
WORD = re.compile(r"\w+|[^\w\s]")
UNSEEN = ("Cc", "Cf")
"""Categories of characters that are not shown, which a tokenizer may drop."""
ACCENTS = "\u0300", "\u036f"
"""First and last mark on letters that a tokenizer may drop. Marks of other blocks are vowels, as in Hindi."""
MIDNIGHT = re.compile(r"(?<=\d{4}-\d\d-\d\d)[ T]00:00(:00(\.0+)?)?(?![:.\d])", re.ASCII)
# A whole number alone, with zeros after its point: 12.0, not 1.2.0, nor 3.10, which may be another version than 3.1.
ZEROS = re.compile(r"(?<![\w.,])([+-]?\d+)\.0++(?![\w.,]*\w)", re.ASCII)
COMPARED = 200_000
"""Characters of a text above which its words are not compared with those of another."""
WITHOUT_SPACES = ("CJK ", "HIRAGANA ", "KATAKANA ", "THAI ", "LAO ", "KHMER ", "MYANMAR ")
"""Beginnings of the names of characters whose scripts have no spaces between words."""
# Written within words of Persian and of Indian languages.
JOINERS = "\u200c\u200d"
WORDS, ALONE, MARK, BETWEEN = "word", "alone", "mark", "between"


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


def spelling(text: str) -> str:
    """Return the same for texts that differ only in spelling: what labels of one say holds for the other.

    Case, white space and Unicode form (NFC) do not count, nor the zeros of a whole number (12.0), nor the time of
    midnight after a date, as earlier versions read it from Parquet.
    """
    folded = unicodedata.normalize("NFC", MIDNIGHT.sub("", text)).casefold()
    return " ".join(ZEROS.sub(r"\1", folded).split())


def without_accents(text: str) -> str:
    """Return a text without what a tokenizer may drop: case, accents, white space and characters that are not shown."""
    letters = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return "".join(
        sign for sign in letters
        if not (sign.isspace() or ACCENTS[0] <= sign <= ACCENTS[1] or unicodedata.category(sign) in UNSEEN)
    )  # fmt: skip


def read_alike(one: str, other: str) -> bool:
    """Return whether two texts are equal, or equal `without_accents`; of two different texts something must be left."""
    left = without_accents(one)
    return one == other or (left != "" and left == without_accents(other))


def coherence(questions: Sequence[str]) -> float:
    """Compute the coherence of a cluster of n questions, in [1 / n, 1] (paper 002, Eq. 4-5).

    c = mean over q of |T_q n S| / |S|, where T_q are the words of question q and S is their union; so T_q n S = T_q.
    """
    words = [set(words_of(question)) for question in questions]
    return sum(map(len, words)) / (len(words) * len(set[str]().union(*words)))


def differences(text: str, other: str, sharing: bool | None = None) -> tuple[Part, ...]:
    """Divide a text into parts that the other text has and parts that it lacks.

    Words are compared without regard to case; in scripts without spaces between words, single characters. If the texts
    share no word, or one has more than COMPARED characters, nothing is marked. sharing: whether they share one, where
    `text` is a field of a longer text; None: computed.
    """
    if max(len(text), len(other)) > COMPARED or not (share_words(text, other) if sharing is None else sharing):
        return (Part(text),)
    there = _folded(other)
    pieces = pieces_of(text)
    return _merged(pieces, [_is_word(piece) and piece.casefold() not in there for piece in pieces])


def share_words(text: str, other: str) -> bool:
    """Return whether two texts have a word in common, without regard to case."""
    return any(map(_is_word, _folded(text) & _folded(other)))


def _folded(text: str) -> set[str]:
    # Folded piece by piece: folding a whole text can change where its words end.
    return {piece.casefold() for piece in pieces_of(text[:COMPARED])}


def pieces_of(text: str) -> list[str]:
    """Divide a text into words, single characters of scripts without spaces, and the characters between them."""
    starts, last = list[int](), ""
    for place, kind in enumerate(map(_kind, text)):
        # A mark belongs to the character before it.
        if not place or (kind != MARK and (kind != last or kind == ALONE)):
            starts.append(place)
        last = last if kind == MARK and place else kind
    return [text[start:end] for start, end in pairwise([*starts, len(text)])]


@lru_cache(4096)
def _kind(character: str) -> str:
    """Return whether a character is part of a word, a word by itself, a mark on the one before, or none of these."""
    if unicodedata.category(character).startswith("M") or character in JOINERS:
        return MARK
    if unicodedata.name(character, "").startswith(WITHOUT_SPACES):
        return ALONE
    return WORDS if character.isalnum() or character == "_" else BETWEEN


def _is_word(piece: str) -> bool:
    return _kind(piece[0]) in (WORDS, ALONE)


def _merged(pieces: Sequence[str], lacks: Sequence[bool]) -> tuple[Part, ...]:
    """Join adjacent pieces of one kind."""
    groups = groupby(zip(pieces, lacks, strict=True), key=lambda one: one[1])
    return tuple(Part("".join(piece for piece, _ in group), differs) for differs, group in groups)
