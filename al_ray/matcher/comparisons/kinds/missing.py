"""On how many sides a value is missing."""

import numpy as np

from al_ray.core.pairs import Rows
from al_ray.matcher.comparisons.comparison import ColumnValues, Comparison, Scores


def _nothing(column: ColumnValues) -> None:
    return None


def _sides(left: None, left_rows: Rows, right: None, right_rows: Rows) -> Scores:
    return (left_rows < 0).astype(np.float32) + (right_rows < 0).astype(np.float32)


MISSING_SIDES = Comparison(
    name="missing values",
    formula="number of the values a and b that are missing",
    low=0,
    high=2,
    source="-",
    of=("text", "name", "number", "date", "code", "category"),
    prepare=_nothing,
    compute=_sides,
    missing=None,
)
