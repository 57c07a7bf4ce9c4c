"""A comparison: a function of two values of a column, with its formula, range and source."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from al_ray.core.pairs import Rows
from al_ray.core.task import FieldType
from al_ray.matcher.comparisons.frequencies import ColumnCounts

Scores: TypeAlias = npt.NDArray[np.float32]
# What a comparison makes of the values of a column, so that it does so once: arrays of its own choice.
Prepared: TypeAlias = Any
Compared = FieldType | Literal["whole text"]
MISSING = -1.0


@dataclass(frozen=True)
class ColumnValues:
    """The distinct values of a column of one side that are not missing, normalised (records.py), and its counts."""

    values: Sequence[str]
    counts: ColumnCounts


@dataclass(frozen=True)
class Comparison:
    """A number for each pair of values, by which a matcher distinguishes matches from other pairs.

    name: of the number. formula: of values a and b. low, high: its bounds, `missing` apart. source: of the formula.
    of: the types of fields that it compares. missing: what it gives if a value is missing, or cannot be read as the
    type of the field; None if it is computed from missing values too. symmetric: whether a and b can change places.
    prepare: values of a column -> what `compute` needs of them. Comparisons with the same function share its result.
    compute: (left, left rows (n,), right, right rows (n,)) -> (n,) float32, each from its own pair alone. A row is a
    place in the values that were prepared. If missing is None, the row -1 is a missing value.
    """

    name: str
    formula: str
    low: float
    high: float
    source: str
    of: tuple[Compared, ...]
    prepare: Callable[[ColumnValues], Prepared]
    compute: Callable[[Prepared, Rows, Prepared, Rows], Scores]
    missing: float | None = MISSING
    symmetric: bool = True
