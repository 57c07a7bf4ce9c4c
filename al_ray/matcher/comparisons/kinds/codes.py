"""Comparisons of identifiers, such as model numbers, postcodes and telephone numbers."""

import numpy as np
from rapidfuzz.distance import OSA, Prefix

from al_ray.core.pairs import Rows
from al_ray.matcher.comparisons.comparison import ColumnValues, Comparison, Scores
from al_ray.matcher.comparisons.kinds.strings import Objects, by_rapidfuzz, string_array


def as_codes(column: ColumnValues) -> Objects:
    """Return the letters and digits of the values; of a value that has none, all of it."""
    return string_array("".join(filter(str.isalnum, value)) or value for value in column.values)


def _equal(left: Objects, left_rows: Rows, right: Objects, right_rows: Rows) -> Scores:
    return (left[left_rows] == right[right_rows]).astype(np.float32)


EQUAL_CODES = Comparison(
    name="equal codes",
    formula="1 if a and b have the same letters and digits in the same order, else 0",
    low=0,
    high=1,
    source="-",
    of=("code",),
    prepare=as_codes,
    compute=_equal,
)
EDITS = Comparison(
    name="edits of codes",
    formula="1 - d / max(|a|, |b|) of the letters and digits; d: fewest insertions, deletions, changes and exchanges "
    "of adjacent signs",
    low=0,
    high=1,
    source="Boytsov (2011), Indexing methods for approximate dictionary searching; rapidfuzz.distance.OSA",
    of=("code",),
    prepare=as_codes,
    compute=by_rapidfuzz(OSA.normalized_similarity),
)
PREFIX = Comparison(
    name="common beginning",
    formula="number of first letters and digits that a and b have in common / max(|a|, |b|)",
    low=0,
    high=1,
    source="rapidfuzz.distance.Prefix",
    of=("code",),
    prepare=as_codes,
    compute=by_rapidfuzz(Prefix.normalized_similarity),
)
