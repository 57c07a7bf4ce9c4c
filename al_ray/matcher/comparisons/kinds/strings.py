"""Comparisons of strings by RapidFuzz, and their equality."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from rapidfuzz import fuzz, process
from rapidfuzz.distance import Indel, JaroWinkler

from al_ray.core.pairs import Rows
from al_ray.matcher.comparisons.comparison import ColumnValues, Comparison, Scores
from al_ray.matcher.comparisons.frequencies import keys_of

Objects = npt.NDArray[np.object_]
LONGEST = 1000  # Characters of a value that RapidFuzz sees: its time grows with their square.


def string_array(strings: Iterable[str]) -> Objects:
    """Return (n,) strings as an array of Python objects, of which many rows are taken at once, cut to LONGEST."""
    short = [string[:LONGEST] for string in strings]
    array = np.empty(len(short), dtype=object)
    array[:] = short
    return array


def as_strings(column: ColumnValues) -> Objects:
    """Return the values."""
    return string_array(column.values)


def sorted_words(column: ColumnValues) -> Objects:
    """Return the values with their words in alphabetical order."""
    return string_array(" ".join(sorted(value[:LONGEST].split())) for value in column.values)


def value_keys(column: ColumnValues) -> Rows:
    """Return the keys of the values: equal for equal values."""
    return keys_of(column.values)


def by_rapidfuzz(scorer: Callable[..., Any], highest: float = 1.0) -> Callable[[Objects, Rows, Objects, Rows], Scores]:
    """Return the function that computes a score of RapidFuzz, of at most `highest`, as a number in [0, 1]."""

    def compute(left: Objects, left_rows: Rows, right: Objects, right_rows: Rows) -> Scores:
        pairs = left[left_rows].tolist(), right[right_rows].tolist()
        scores: Scores = process.cpdist(*pairs, scorer=scorer, dtype=np.float32)
        return scores / np.float32(highest)

    return compute


def _equal(left: Rows, left_rows: Rows, right: Rows, right_rows: Rows) -> Scores:
    return (left[left_rows] == right[right_rows]).astype(np.float32)


EQUALITY = Comparison(
    name="equal",
    formula="1 if a = b, else 0",
    low=0,
    high=1,
    source="-",
    of=("text", "name", "date", "category"),
    prepare=value_keys,
    compute=_equal,
)
JARO_WINKLER = Comparison(
    name="Jaro-Winkler",
    formula="J + 0.1 l (1 - J) if J > 0.7, else J; J: Jaro similarity, l: common first characters, at most 4",
    low=0,
    high=1,
    source="Winkler (1990), String comparator metrics; rapidfuzz.distance.JaroWinkler",
    of=("text", "name", "category"),
    prepare=as_strings,
    compute=by_rapidfuzz(JaroWinkler.similarity),
)
TOKEN_SET = Comparison(
    name="token set ratio",
    formula="the highest of r(i, i + x), r(i, i + y), r(i + x, i + y); i: common words, x, y: the other words of a, b",
    low=0,
    high=1,
    source="rapidfuzz.fuzz.token_set_ratio / 100",
    of=("whole text", "text", "name", "category"),
    prepare=as_strings,
    compute=by_rapidfuzz(fuzz.token_set_ratio, 100),
)
TOKEN_SORT = Comparison(
    name="token sort ratio",
    formula="r(a, b) = 1 - d / (|a| + |b|), words in order of the alphabet; d: fewest insertions and deletions",
    low=0,
    high=1,
    source="rapidfuzz.fuzz.token_sort_ratio / 100",
    of=("whole text", "text", "name"),
    prepare=sorted_words,
    compute=by_rapidfuzz(Indel.normalized_similarity),
)
