"""Comparisons of numbers."""

import numpy as np
import numpy.typing as npt

from al_ray.core.pairs import Rows
from al_ray.datasets.field_values import parse_number
from al_ray.matcher.comparisons.comparison import MISSING, ColumnValues, Comparison, Scores

Floats = npt.NDArray[np.float64]
HIGHEST = 711.0  # ln of the largest difference of two float64 is 710.5.


def as_numbers(column: ColumnValues) -> Floats:
    """Return the values as numbers; NaN for what is none."""
    numbers = map(parse_number, column.values)
    return np.array([np.nan if number is None else number for number in numbers], dtype=np.float64)


def _relative(left: Floats, left_rows: Rows, right: Floats, right_rows: Rows) -> Scores:
    # Halved, so that the difference of two large numbers is none beyond all numbers.
    a, b = left[left_rows] / 2, right[right_rows] / 2
    largest = np.maximum(np.abs(a), np.abs(b))
    difference = np.divide(np.abs(a - b), largest, out=np.zeros(len(a)), where=largest > 0)
    return _known(difference, a, b)


def _absolute(left: Floats, left_rows: Rows, right: Floats, right_rows: Rows) -> Scores:
    a, b = left[left_rows], right[right_rows]
    with np.errstate(over="ignore"):
        return _known(np.minimum(np.log1p(np.abs(a - b)), HIGHEST), a, b)


def _known(scores: Floats, a: Floats, b: Floats) -> Scores:
    return np.where(np.isnan(a) | np.isnan(b), MISSING, scores).astype(np.float32)


RELATIVE = Comparison(
    name="relative difference",
    formula="|a - b| / max(|a|, |b|), 0 if both are 0",
    low=0,
    high=2,
    source="-",
    of=("number",),
    prepare=as_numbers,
    compute=_relative,
)
ABSOLUTE = Comparison(
    name="log difference",
    formula="ln(1 + |a - b|)",
    low=0,
    high=HIGHEST,
    source="-",
    of=("number",),
    prepare=as_numbers,
    compute=_absolute,
)
