"""SQLite files, by the module of the standard library."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.storage.databases.address import TableAddress
from al_ray.storage.databases.port import ROWS_AT_ONCE, Kind, WrittenTable, column_list, literal, quoted_table

Value = str | int | float | bytes | None


class Sqlite:
    """A connection to an SQLite file.

    A cell has its own type in SQLite, whatever its column says, so all are read as texts. There are no comments on
    tables; SQLite keeps the text of CREATE TABLE, which has one.
    """

    def __init__(self, address: TableAddress, write: bool) -> None:
        self._address = address
        uri = f"file:{quote(str(Path(address.place).absolute()))}?mode={'rwc' if write else 'ro'}"
        self._connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        if write:
            # At once the one writer: a table that is looked at stays as it is.
            self.execute("BEGIN IMMEDIATE")

    def columns(self, select: str) -> list[str]:
        """Return the names of the columns of a SELECT."""
        return [column[0] for column in self._connection.execute(select).description]

    def batches(self, select: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a SELECT, as they arrive."""
        cursor = self._connection.execute(select)
        names = [column[0] for column in cursor.description]
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            columns = (self._texts(name, cells) for name, cells in zip(names, zip(*rows, strict=True), strict=True))
            yield pa.record_batch(list(columns), names)

    def _texts(self, column: str, cells: tuple[Value, ...]) -> pa.Array:
        if any(isinstance(cell, bytes) for cell in cells):
            raise BadFile(f"{self._address}: column {column!r} holds bytes; name a column of texts, numbers or ids")
        return pa.array([cell if cell is None else str(cell) for cell in cells], pa.large_string())

    def tables(self) -> list[str]:
        """Return the names of all tables and views."""
        rows = self._connection.execute("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name")
        return [name for (name,) in rows]

    def existing(self, table: str) -> WrittenTable | None:
        """Return a table that may be written again; None if there is none of this name."""
        made = (
            f"SELECT sql FROM sqlite_schema WHERE type IN ('table', 'view') AND lower(name) = lower({literal(table)})"
        )
        rows = self._connection.execute(made).fetchall()
        if not rows:
            return None
        _, begin, rest = rows[0][0].partition("(/* ")
        comment = rest.partition(" */")[0] if begin else ""
        return WrittenTable(self.columns(f"SELECT * FROM {quoted_table(table)} LIMIT 0"), comment)

    def create(self, table: str, schema: pa.Schema, comment: str) -> None:
        """Create a table with a comment in it."""
        self.execute(f"CREATE TABLE {quoted_table(table)} (/* {comment} */ {column_list(schema)})")

    def append(self, table: str, rows: pa.RecordBatchReader) -> None:
        """Add rows to a table with these columns."""
        marks = ", ".join("?" * len(rows.schema))
        for batch in rows:
            for part in (batch.slice(start, ROWS_AT_ONCE) for start in range(0, batch.num_rows, ROWS_AT_ONCE)):
                cells = zip(*(column.to_pylist() for column in part.columns), strict=True)
                self._connection.executemany(f"INSERT INTO {quoted_table(table)} VALUES ({marks})", cells)

    def execute(self, statement: str) -> None:
        """Execute a statement that returns nothing."""
        self._connection.execute(statement)

    def commit(self) -> None:
        """Let everything that was written take effect."""
        self.execute("COMMIT")

    def close(self) -> None:
        """Close the connection; what was not committed has no effect."""
        self._connection.close()


SQLITE = Kind(lambda: (sqlite3.Error,), Sqlite)
"""A file that is written is made if there is none."""
