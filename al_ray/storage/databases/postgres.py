"""PostgreSQL, by its ADBC driver, which sends and receives Arrow batches and reads passwords as libpq does."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from al_ray.storage.databases.address import TableAddress
from al_ray.storage.databases.port import Kind, WrittenTable, column_list, driver, literal, quoted_table

DRIVER = "adbc_driver_postgresql.dbapi"


class Postgres:
    """A connection to a PostgreSQL server, in one transaction."""

    def __init__(self, address: TableAddress, write: bool) -> None:
        parameters = "&".join(f"{name}={value}" for name, value in address.parameters)
        dbapi = driver(DRIVER, address.scheme)
        self._connection: Any = dbapi.connect(f"{address.database}?{parameters}")
        if not write:
            # Rows of one moment, and a query that would change something is refused.
            self.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def columns(self, select: str) -> list[str]:
        """Return the names of the columns of a SELECT."""
        with self._connection.cursor() as cursor:
            cursor.execute(select)
            return list(cursor.fetch_record_batch().schema.names)

    def batches(self, select: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a SELECT, as they arrive: some megabytes at a time."""
        with self._connection.cursor() as cursor:
            cursor.execute(select)
            yield from cursor.fetch_record_batch()

    def tables(self) -> list[str]:
        """Return the names of all tables and views, those of the default schema without it."""
        return [name for (name,) in self._rows(
            "SELECT CASE WHEN nspname = current_schema() THEN relname ELSE nspname || '.' || relname END "
            "FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE relkind "
            "IN ('r', 'v', 'm', 'f', 'p') AND nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"
        )]  # fmt: skip

    def existing(self, table: str) -> WrittenTable | None:
        """Return a table that may be written again; None if there is none of this name."""
        name = literal(quoted_table(table))
        ((found, comment),) = self._rows(
            f"SELECT to_regclass({name}) IS NOT NULL, coalesce(obj_description(to_regclass({name}), 'pg_class'), '')"
        )
        return WrittenTable(self.columns(f"SELECT * FROM {quoted_table(table)} LIMIT 0"), comment) if found else None

    def create(self, table: str, schema: pa.Schema, comment: str) -> None:
        """Create a table with a comment on it."""
        self.execute(f"CREATE TABLE {quoted_table(table)} ({column_list(schema)})")
        self.execute(f"COMMENT ON TABLE {quoted_table(table)} IS {literal(comment)}")

    def append(self, table: str, rows: pa.RecordBatchReader) -> None:
        """Add rows to a table with these columns."""
        schema, _, name = table.rpartition(".")
        with self._connection.cursor() as cursor:
            cursor.adbc_ingest(name, rows, mode="append", db_schema_name=schema or None)

    def execute(self, statement: str) -> None:
        """Execute a statement that returns nothing."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement)

    def _rows(self, select: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(select)
            return cursor.fetchall()

    def commit(self) -> None:
        """Let everything that was written take effect."""
        self._connection.commit()

    def close(self) -> None:
        """Close the connection; what was not committed has no effect."""
        self._connection.close()


POSTGRES = Kind(lambda: (driver(DRIVER, "postgresql").Error,), Postgres)
