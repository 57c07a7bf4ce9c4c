"""Comparisons by how rare a value is: two Zaleskis are one person more often than two Smiths."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from al_ray.core.pairs import Rows
from al_ray.matcher.comparisons.comparison import ColumnValues, Comparison, Scores
from al_ray.matcher.comparisons.frequencies import keys_of

SPLINK = "term frequency adjustment of Splink; Fellegi and Sunter (1969), Method I"
RAREST = 63.0
FREQUENCY = "f: the share of the value among all that are not missing, of both sides"


@dataclass(frozen=True)
class Rarities:
    """Values (n,) by their keys, and -log2 of their frequencies (n,); one that was not counted occurs once."""

    keys: Rows
    bits: npt.NDArray[np.float32]


def rarities(column: ColumnValues) -> Rarities:
    """Return how rare the values are."""
    keys, counted = keys_of(column.values), column.counts.values
    counts = np.maximum(counted.of(keys), 1)
    bits = np.log2(np.maximum(counted.total, counts) / counts)
    return Rarities(keys, np.clip(bits, 0, RAREST).astype(np.float32))


def _equal(left: Rarities, left_rows: Rows, right: Rarities, right_rows: Rows) -> Scores:
    equal = left.keys[left_rows] == right.keys[right_rows]
    return np.where(equal, left.bits[left_rows], np.float32(0))


def _commoner(left: Rarities, left_rows: Rows, right: Rarities, right_rows: Rows) -> Scores:
    return np.minimum(left.bits[left_rows], right.bits[right_rows])


EQUAL = Comparison(
    name="rarity of the equal value",
    formula=f"-log2 f(a) if a = b, else 0; {FREQUENCY}",
    low=0,
    high=RAREST,
    source=SPLINK,
    of=("name", "code", "category"),
    prepare=rarities,
    compute=_equal,
)
COMMONER = Comparison(
    name="rarity of the commoner value",
    formula=f"-log2 max(f(a), f(b)); {FREQUENCY}",
    low=0,
    high=RAREST,
    source=SPLINK,
    of=("name", "category"),
    prepare=rarities,
    compute=_commoner,
)
