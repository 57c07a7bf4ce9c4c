"""Comparisons of dates."""

import datetime
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import OSA

from al_ray.core.pairs import Rows
from al_ray.datasets.field_values import parse_date
from al_ray.matcher.comparisons.comparison import MISSING, ColumnValues, Comparison, Scores

# Days from the first to the last date of the calendar.
DAYS = datetime.date.max.toordinal() - 1


@dataclass(frozen=True)
class Dates:
    """Dates (n,): the days (n, 2) of both readings, equal where there is one; year, month and day (n, 3) of the first.

    A value that is no date has 0 everywhere.
    """

    days: Rows
    parts: Rows


def as_dates(column: ColumnValues) -> Dates:
    """Return the values as dates."""
    days, parts = np.zeros((2, len(column.values)), dtype=np.int64), np.zeros((3, len(column.values)), dtype=np.int64)
    for row, day in enumerate(map(parse_date, column.values)):
        if day is not None:
            days[:, row] = day.date.toordinal(), (day.other or day.date).toordinal()
            parts[:, row] = day.date.year, day.date.month, day.date.day
    return Dates(days.T, parts.T)


def _compute(score: Callable[[Rows, Rows], Scores]) -> Callable[[Dates, Rows, Dates, Rows], Scores]:
    """Return the function that scores the parts (n, 3) of dates."""

    def compute(left: Dates, left_rows: Rows, right: Dates, right_rows: Rows) -> Scores:
        a, b = left.parts[left_rows], right.parts[right_rows]
        return np.where((a[:, 0] > 0) & (b[:, 0] > 0), score(a, b), np.float32(MISSING)).astype(np.float32)

    return compute


def _apart(left: Dates, left_rows: Rows, right: Dates, right_rows: Rows) -> Scores:
    a, b = left.days[left_rows], right.days[right_rows]
    days = np.abs(a[:, :, None] - b[:, None, :]).min(axis=(1, 2))
    return np.where((a[:, 0] > 0) & (b[:, 0] > 0), np.log1p(days), MISSING).astype(np.float32)


def _exchanged(a: Rows, b: Rows) -> Scores:
    return ((a == b[:, [0, 2, 1]]).all(axis=1) & (a[:, 1] != a[:, 2])).astype(np.float32)


def _equal_parts(a: Rows, b: Rows) -> Scores:
    return ((a == b).sum(axis=1) / 3).astype(np.float32)


def _edits(a: Rows, b: Rows) -> Scores:
    written = [[f"{number:08d}" for number in (parts @ np.array([10_000, 100, 1])).tolist()] for parts in (a, b)]
    return process.cpdist(*written, scorer=OSA.normalized_similarity, dtype=np.float32)


DAYS_APART = Comparison(
    name="days apart",
    formula="ln(1 + days from a to b); of a date with two readings, such as 03/04/2001, the nearest one",
    low=0,
    high=float(np.float32(np.log1p(DAYS))),
    source="-",
    of=("date",),
    prepare=as_dates,
    compute=_apart,
)
EXCHANGED = Comparison(
    name="day and month exchanged",
    formula="1 if b is a with day and month exchanged, and these differ, else 0",
    low=0,
    high=1,
    source="-",
    of=("date",),
    prepare=as_dates,
    compute=_compute(_exchanged),
)
PARTS = Comparison(
    name="equal parts of dates",
    formula="(1 for equal years + 1 for equal months + 1 for equal days of the month) / 3",
    low=0,
    high=1,
    source="-",
    of=("date",),
    prepare=as_dates,
    compute=_compute(_equal_parts),
)
EDITS = Comparison(
    name="edits of dates",
    formula="1 - d / 8; d: fewest changes of digits and exchanges of adjacent digits from a to b, written as 20010304",
    low=0,
    high=1,
    source="Boytsov (2011), Indexing methods for approximate dictionary searching; rapidfuzz.distance.OSA",
    of=("date",),
    prepare=as_dates,
    compute=_compute(_edits),
)
