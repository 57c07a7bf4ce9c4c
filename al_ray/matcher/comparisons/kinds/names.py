"""Comparisons of names of persons, places and firms."""

import unicodedata

import numpy as np
import numpy.typing as npt

from al_ray.core.pairs import Rows
from al_ray.matcher.comparisons.comparison import MISSING, ColumnValues, Comparison, Scores
from al_ray.matcher.comparisons.frequencies import words_of

Masks = npt.NDArray[np.uint64]
# Bits of a to z and of 0 to 9; all other signs share those above.
BITS = {sign: bit for bit, sign in enumerate("abcdefghijklmnopqrstuvwxyz0123456789")}


def initials(column: ColumnValues) -> Masks:
    """Return the set of the first letters of the words of each value, as bits."""
    masks = [0] * len(column.values)
    for row, value in enumerate(column.values):
        for word in words_of(value):
            masks[row] |= 1 << _bit(word[0])
    return np.array(masks, dtype=np.uint64)


def _bit(sign: str) -> int:
    plain = unicodedata.normalize("NFKD", sign)[0]
    return BITS.get(plain, len(BITS) + ord(plain) % (64 - len(BITS)))


def _jaccard(left: Masks, left_rows: Rows, right: Masks, right_rows: Rows) -> Scores:
    a, b = left[left_rows], right[right_rows]
    both, either = np.bitwise_count(a & b).astype(np.float32), np.bitwise_count(a | b).astype(np.float32)
    return np.divide(both, either, out=np.full(len(a), MISSING, dtype=np.float32), where=either > 0)


INITIALS = Comparison(
    name="initials",
    formula="|A n B| / |A u B|; A, B: the first letters of the words of a, b, without accents; -1 if there are none",
    low=0,
    high=1,
    source="Jaccard (1912); signs other than a-z and 0-9 are told apart by their code modulo 28",
    of=("name",),
    prepare=initials,
    compute=_jaccard,
)
