"""DuckDB files."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from al_ray.storage.databases.address import TableAddress
from al_ray.storage.databases.port import (
    ROWS_AT_ONCE,
    Kind,
    WrittenTable,
    column_list,
    driver,
    literal,
    quoted_table,
)

BATCHES = "al_ray_batches"


class DuckDb:
    """A connection to a DuckDB file."""

    def __init__(self, address: TableAddress, write: bool) -> None:
        self._connection: Any = driver("duckdb", address.scheme).connect(address.place, read_only=not write)
        if write:
            self._connection.begin()

    def columns(self, select: str) -> list[str]:
        """Return the names of the columns of a SELECT."""
        return list(self._connection.sql(select).columns)

    def batches(self, select: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a SELECT, as they arrive."""
        yield from self._connection.sql(select).to_arrow_reader(ROWS_AT_ONCE)

    def tables(self) -> list[str]:
        """Return the names of all tables and views, those of the default schema without it."""
        rows = self._connection.execute(
            "SELECT CASE WHEN table_schema = current_schema() THEN table_name ELSE table_schema || '.' || table_name "
            "END FROM information_schema.tables ORDER BY 1"
        ).fetchall()
        return [name for (name,) in rows]

    def existing(self, table: str) -> WrittenTable | None:
        """Return a table that may be written again; None if there is none of this name."""
        schema, _, name = table.rpartition(".")
        rows = self._connection.execute(
            "SELECT comment FROM (SELECT schema_name, table_name, comment FROM duckdb_tables() UNION ALL "
            "SELECT schema_name, view_name, 'a view' FROM duckdb_views()) "
            "WHERE lower(table_name) = lower(?) AND schema_name = coalesce(nullif(?, ''), current_schema())",
            [name, schema],
        ).fetchall()
        return WrittenTable(self.columns(f"FROM {quoted_table(table)}"), rows[0][0] or "") if rows else None

    def create(self, table: str, schema: pa.Schema, comment: str) -> None:
        """Create a table with a comment on it."""
        self.execute(f"CREATE TABLE {quoted_table(table)} ({column_list(schema)})")
        self.execute(f"COMMENT ON TABLE {quoted_table(table)} IS {literal(comment)}")

    def append(self, table: str, rows: pa.RecordBatchReader) -> None:
        """Add rows to a table with these columns."""
        self._connection.register(BATCHES, rows)
        self.execute(f"INSERT INTO {quoted_table(table)} SELECT * FROM {BATCHES}")
        self._connection.unregister(BATCHES)

    def execute(self, statement: str) -> None:
        """Execute a statement that returns nothing."""
        self._connection.execute(statement)

    def commit(self) -> None:
        """Let everything that was written take effect."""
        self._connection.commit()

    def close(self) -> None:
        """Close the connection; what was not committed has no effect."""
        self._connection.close()


DUCKDB = Kind(lambda: (driver("duckdb", "duckdb").Error,), DuckDb)
"""A file that is written is made if there is none."""
