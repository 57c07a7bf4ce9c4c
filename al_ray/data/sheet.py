"""Columns of a user's table as text, with the place of every row, and what becomes of rows that are bad.

A cell is the same text whatever format it came in: trimmed, a number as Python writes it, true or false, null where
it is empty or NaN.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Mask, Rows
from al_ray.data.rows import BadRows, Skip

Cells: TypeAlias = pa.LargeStringArray
# Arrow makes these functions as it is imported, where no type checker sees them.
compute: Any = pyarrow.compute
NO_CELL = pa.scalar(None, pa.large_string())
# How many columns, and letters of a cell, an error line shows.
SHOWN, WIDEST = 12, 40


@dataclass
class Faults:
    """What becomes of bad rows: the first ends the job under `fail`; each is kept to be listed under `skip`."""

    bad_rows: BadRows
    cure: str = "mend the row, or leave such rows out with --bad-rows skip"
    skipped: list[Skip] = field(default_factory=list)

    def add(self, place: str, reason: str) -> None:
        """One bad row."""
        if self.bad_rows == "fail":
            raise BadFile(f"{place}: {reason}; {self.cure}")
        self.skipped.append(Skip(place, reason))


@dataclass(frozen=True)
class Sheet:
    """Some columns of a file.

    cells: column -> (n,) texts, null where a cell is empty. numbers: (n,) places among the file's rows, from 0, bad
    rows counted. lines: (n,) the line on which each row begins, from 1; a Parquet file has none.
    """

    path: Path
    cells: dict[str, Cells]
    numbers: Rows
    lines: Rows | None

    def __len__(self) -> int:
        return len(self.numbers)

    def place(self, row: int) -> str:
        """Where a row stands, for a person."""
        return f"{self.path}:{self.lines[row]}" if self.lines is not None else f"{self.path}:row {self.numbers[row]}"

    def holding(self, **cells: Cells) -> "Sheet":
        """The same rows with other cells."""
        return replace(self, cells=cells)

    def kept(self, mask: Mask) -> "Sheet":
        """The rows that the mask (n,) names."""
        if mask.all():
            return self
        cells = {name: column.filter(pa.array(mask)) for name, column in self.cells.items()}
        return Sheet(self.path, cells, self.numbers[mask], None if self.lines is None else self.lines[mask])

    def sifted(self, bad: Mask, reason: Callable[[int], str], faults: Faults) -> "Sheet":
        """The rows that are not `bad`, one at least; reason: row -> what is wrong with it."""
        for row in np.flatnonzero(bad).tolist():
            faults.add(self.place(row), reason(row))
        if len(bad) and bad.all():
            raise BadFile(f"{self.path}: every row is bad, such as {self.place(0)}: {reason(0)}; mend the rows")
        return self.kept(~bad)

    def joined(self, columns: Sequence[str]) -> Cells:
        """(n,) what stands in these columns, a space between; null where nothing stands."""
        whole = self.cells[columns[0]]
        for name in columns[1:]:
            # Null where either is null. (Arrow's join that skips nulls loses the rows where all are: 26.0.)
            both = compute.binary_join_element_wise(whole, self.cells[name], pa.scalar(" ", pa.large_string()))
            whole = compute.coalesce(both, whole, self.cells[name])
        return whole


def check_columns(place: str, columns: Sequence[str], there: Sequence[str], hint: str = "") -> None:
    """Refuse a column that is not there, or twice."""
    for name in columns:
        if name not in there:
            shown = ", ".join(map(repr, there[:SHOWN])) + (", ..." if len(there) > SHOWN else "")
            raise BadFile(f"{place} has no column {name!r}; it has: {shown}{hint}")
        if there.count(name) > 1:
            raise BadFile(f"{place} has {there.count(name)} columns {name!r}; rename all but one")


def gathered(parts: Sequence[Cells]) -> Cells:
    """Arrays one after the other, as one."""
    return pa.concat_arrays(parts) if parts else pa.array([], pa.large_string())


def trimmed(column: Cells) -> Cells:
    """Without white space around, and null where nothing is left."""
    column = compute.utf8_trim_whitespace(column)
    return compute.if_else(compute.equal(compute.binary_length(column), 0), NO_CELL, column)


def shown(column: Cells, row: int) -> str:
    """A cell in an error line, its beginning at least."""
    text = column[row].as_py()
    return repr(text if len(text) <= WIDEST else text[:WIDEST] + "...")


def whether(mask: pa.BooleanArray) -> Mask:
    """(n,) of Arrow -> (n,) of numpy; null is False."""
    return mask.fill_null(False).to_numpy(zero_copy_only=False)
