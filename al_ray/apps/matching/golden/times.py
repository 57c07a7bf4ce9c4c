"""Columns of dates or of numbers, of which the highest or the lowest decides."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from math import isfinite
from typing import Literal

import numpy as np

from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.scorer import Floats
from al_ray.datasets.field_values import parse_date

Kind = Literal["number", "date"]


@dataclass(frozen=True)
class TimeColumns:
    """How the cells of columns are read, by column: as numbers, or as dates."""

    kinds: Mapping[str, Kind]

    @classmethod
    def of(cls, nodes: Nodes, columns: Mapping[str, str]) -> "TimeColumns":
        """Return how these columns are read; BadOption for one with cells that are neither.

        All cells of a column that are not empty are numbers, or all are dates. columns: each with a rule that reads it.
        """
        return cls({name: _kind(nodes, name, rule) for name, rule in columns.items()})

    def read(self, column: str, cells: Sequence[str], empty: float) -> Floats:
        """Return a number for each cell (n,), the higher the later. empty: of an empty cell."""
        parse = _number if self.kinds[column] == "number" else _seconds
        values = [parse(cell) if cell else empty for cell in cells]
        return np.array([empty if value is None else value for value in values], dtype=np.float64)


def _kind(nodes: Nodes, name: str, rule: str) -> Kind:
    if all(_number(cell) is not None for cell in nodes.cells(name) if cell):
        return "number"
    wrong = _first_wrong(nodes.cells(name))
    if wrong is None:
        return "date"
    node, cell = wrong
    where = f"{cell[:100]!r} of id {nodes.ids(np.array([node]))[0]!r}"
    twofold = ", which can be read as two dates" if parse_date(cell) is not None else ""
    raise BadOption(
        f"{option('golden', rule)}: the cells of {name!r} must be dates, such as 2026-11-27, or all of them numbers, "
        f"and there is {where}{twofold}; correct such cells or empty them"
    )


def _first_wrong(cells: Iterable[str]) -> tuple[int, str] | None:
    return next(((node, cell) for node, cell in enumerate(cells) if cell and _seconds(cell) is None), None)


def _number(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _seconds(cell: str) -> float | None:
    """Return the seconds from 1970 of a date with or without a time; None for no date, and for one of two readings.

    A time without a zone is UTC, and a date without a time is its beginning.
    """
    try:
        found = datetime.fromisoformat(cell)
    except ValueError:
        day = parse_date(cell)
        if day is None or day.other is not None:
            return None
        found = datetime.combine(day.date, time())
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
