"""Columns of a user's table as text, with the place of every row, and the log of bad rows.

A cell has the same text in every file format: trimmed; dates, times and truth values in one spelling
(datasets/canonical_cells.py); null where it is empty or NaN.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Mask, Rows
from al_ray.datasets.canonical_cells import canonical_cells
from al_ray.datasets.tsv import BadRowLog
from al_ray.storage.databases.table_path import TablePath

Cells: TypeAlias = pa.LargeStringArray
# Arrow creates these functions at import, where type checkers cannot see them.
compute: Any = pyarrow.compute
# Maximum number of columns, and of characters of a cell, in an error line.
SHOWN, WIDEST = 12, 40
# The line of a row of a Parquet file that was read beside files of lines.
NO_LINE = -1
# Maximum number of files that a message names.
NAMED = 3


@dataclass(frozen=True)
class TableRows:
    """Rows of a file, or of several, with some of the columns.

    cells: column -> (n,) texts, null where a cell is empty; or lengths of texts. numbers: (n,) row numbers in the file,
    from 0, bad rows included. lines: (n,) the line on which each row begins, from 1; None for Parquet. If there are
    several files: others are those after the first, file_of (n,) is the number of each row's file, and lines has
    NO_LINE for a row of Parquet.
    """

    path: TablePath
    cells: dict[str, Cells]
    numbers: Rows
    lines: Rows | None
    others: tuple[TablePath, ...] = ()
    file_of: Rows | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def name(self) -> str:
        """Return the files in words, for messages on the whole table."""
        return name_files((self.path, *self.others))

    def place(self, row: int) -> str:
        """Return FILE:LINE of a row; FILE:row NUMBER for Parquet."""
        path = self.path if self.file_of is None else (self.path, *self.others)[self.file_of[row]]
        if self.lines is None or self.lines[row] == NO_LINE:
            return f"{path}:row {self.numbers[row]}"
        return f"{path}:{self.lines[row]}"

    def with_cells(self, **cells: Cells) -> "TableRows":
        """Return the same rows with other columns."""
        return replace(self, cells=cells)

    def filter(self, mask: Mask) -> "TableRows":
        """Return the rows where the mask (n,) is true."""
        if mask.all():
            return self
        cells = {name: column.filter(pa.array(mask)) for name, column in self.cells.items()}
        lines, file_of = (None if rows is None else rows[mask] for rows in (self.lines, self.file_of))
        return TableRows(self.path, cells, self.numbers[mask], lines, self.others, file_of)

    def sorted(self) -> "TableRows":
        """Return the rows in the order of their cells, by the bytes of the first column, then of others but lists."""
        texts = {name: column for name, column in self.cells.items() if not pa.types.is_nested(column.type)}
        rows = compute.sort_indices(pa.table(texts), sort_keys=[(name, "ascending") for name in texts])
        cells = {name: column.take(rows) for name, column in self.cells.items()}
        return replace(self, cells=cells, numbers=self.numbers[rows.to_numpy()])

    def reject(self, bad: Mask, reason: Callable[[int], str], faults: BadRowLog) -> "TableRows":
        """Return the rows that are not `bad`; BadFile if all are. reason: row -> what is wrong with it."""
        for row in np.flatnonzero(bad).tolist():
            faults.add(self.place(row), reason(row))
        if len(bad) and bad.all():
            raise BadFile(f"{self.name}: every row is bad, such as {self.place(0)}: {reason(0)}; fix the rows")
        return self.filter(~bad)

    def join_columns(self, columns: Sequence[str]) -> Cells:
        """Join columns (n,) by a space, without the empty cells; null where all are empty."""
        whole = self.cells[columns[0]]
        for name in columns[1:]:
            # Null where either is null. (Arrow 26.0's join that skips nulls drops the rows where all are null.)
            both = compute.binary_join_element_wise(whole, self.cells[name], pa.scalar(" ", pa.large_string()))
            whole = compute.coalesce(both, whole, self.cells[name])
        return whole


def name_files(paths: Sequence[TablePath]) -> str:
    """Return the names of files, separated by commas; the first one and their number if they are many."""
    if len(paths) > NAMED:
        return f"{paths[0]} and {len(paths) - 1} other files"
    return ", ".join(map(str, paths))


def join_rows(parts: Sequence[TableRows]) -> TableRows:
    """Return the rows of files with the same cells, one file after the other."""
    if len(parts) == 1:
        return parts[0]
    return TableRows(
        parts[0].path,
        {name: pa.concat_arrays([one.cells[name] for one in parts]) for name in parts[0].cells},
        np.concatenate([one.numbers for one in parts]),
        np.concatenate([np.full(len(one), NO_LINE) if one.lines is None else one.lines for one in parts]),
        tuple(one.path for one in parts[1:]),
        np.repeat(np.arange(len(parts)), [len(one) for one in parts]),
    )


def check_columns(place: str, columns: Sequence[str], there: Sequence[str], hint: str = "") -> None:
    """BadFile for a column that is missing or there twice."""
    for name in columns:
        if name not in there:
            listed = ", ".join(map(repr, there[:SHOWN])) + (", ..." if len(there) > SHOWN else "")
            raise BadFile(f"{place} has no column {name!r}; it has: {listed}{hint}")
        if there.count(name) > 1:
            raise BadFile(f"{place} has {there.count(name)} columns {name!r}; rename all but one")


def concatenate(parts: Sequence[Cells]) -> Cells:
    """Concatenate arrays; also none."""
    return pa.concat_arrays(parts) if parts else pa.array([], pa.large_string())


def trim_cells(column: Cells) -> Cells:
    """Strip white space, and spell dates, times and truth values in one way; null where nothing is left."""
    column = canonical_cells(compute.utf8_trim_whitespace(column))
    # A constant of the module would load pandas at import.
    no_cell = pa.scalar(None, pa.large_string())
    return compute.if_else(compute.equal(compute.binary_length(column), 0), no_cell, column)


def trim_text(text: str) -> str:
    """Strip the white space that `trim_cells` strips from a cell."""
    return compute.utf8_trim_whitespace(text).as_py()


def quote_cell(column: Cells, row: int) -> str:
    """Return a cell in quotes for an error line, shortened to WIDEST characters."""
    text = column[row].as_py()
    return repr(text if len(text) <= WIDEST else text[:WIDEST] + "...")


def code_words(column: Cells, codes: Mapping[str, int], unknown: int) -> npt.NDArray[np.int64]:
    """Return the code (n,) of each cell, ignoring case; `unknown` for an empty cell or a word without a code."""
    words = pa.array(list(codes), pa.large_string())
    numbers = compute.index_in(compute.utf8_lower(column), value_set=words).fill_null(-1).to_numpy()
    return np.array([*codes.values(), unknown])[numbers]


def as_mask(mask: pa.BooleanArray) -> Mask:
    """Convert an Arrow mask (n,) to NumPy; null becomes False."""
    return mask.fill_null(False).to_numpy(zero_copy_only=False)
