"""Write tables into a database in one transaction: all of their rows or none.

A table carries a comment that says who wrote it: where there is one of the same name without that comment, it is
somebody else's, and nothing is written.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from al_ray.core.errors import BadOption
from al_ray.storage.databases.address import TableAddress
from al_ray.storage.databases.port import TYPES, Connection, WrittenTable, quoted_table
from al_ray.storage.databases.reading import KINDS, connected
from al_ray.storage.uri import StoragePath


@dataclass(frozen=True)
class NewTable:
    """A table to write: its address, its columns, and its rows in batches. See `written_schema` for their types."""

    address: TableAddress
    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]


def written_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a table with the types that databases get: texts, whole numbers and floats."""
    kinds = (pa.types.is_integer, pa.int64()), (pa.types.is_floating, pa.float64())
    return pa.schema(
        [(field.name, next((kind for test, kind in kinds if test(field.type)), pa.string())) for field in schema]
    )


def owner_of(what: str, folder: StoragePath) -> str:
    """Return the comment of a table that holds a part of a folder, whose path may have bytes that are not UTF-8."""
    path = os.fsencode(str(folder.resolve())).decode("utf-8", "backslashreplace")
    # SQLite has it as a comment of SQL.
    return f"{what} of {path}, written by al_ray".replace("*/", "* /").replace("\n", " ")


def check_writable(tables: Sequence[tuple[TableAddress, pa.Schema]], owner: str) -> None:
    """Raise an error, before any work, where `write_tables` would; nothing is changed.

    tables: each with its columns. owner: see `owner_of`.

    Raises:
        BadOption: for a query, for tables of two databases or one given twice, or if somebody else wrote such a table.
        BadFile: if the database cannot be written.
    """
    _check_addresses([address for address, _ in tables])
    first = tables[0][0]
    if first.scheme != "postgresql" and not Path(first.place).exists():
        if not Path(first.place).absolute().parent.is_dir():
            raise BadOption(f"{first}: there is no folder {Path(first.place).parent}; make it, or give another file")
        # It would be made, and left without tables.
        KINDS[first.scheme].errors()
        return
    with connected(first, write=True) as connection:
        for address, schema in tables:
            # What is there has rights and columns already.
            if _existing(connection, address, owner) is None:
                connection.create(address.table, schema, owner)


def write_tables(tables: Sequence[NewTable], owner: str) -> None:
    """Write tables of one database in one transaction, in place of those that the same owner wrote before.

    A table keeps its rights and the views on it, unless it gets other columns. owner: see `owner_of`.

    Raises:
        BadOption: see `check_writable`.
        BadFile: if the database cannot be written; nothing has changed there.
    """
    _check_addresses([table.address for table in tables])
    with connected(tables[0].address, write=True) as connection:
        for table in tables:
            _prepare(connection, table.address, table.schema, owner)
            connection.append(table.address.table, pa.RecordBatchReader.from_batches(table.schema, table.batches()))
        connection.commit()


def _prepare(connection: Connection, address: TableAddress, schema: pa.Schema, owner: str) -> None:
    """Make an empty table with these columns, of which others see nothing yet."""
    assert all(kind in TYPES for kind in schema.types)
    existing = _existing(connection, address, owner)
    if existing is not None and existing.columns == schema.names:
        connection.execute(f"DELETE FROM {quoted_table(address.table)}")
        return
    if existing is not None:
        connection.execute(f"DROP TABLE {quoted_table(address.table)}")
    connection.create(address.table, schema, owner)


def _existing(connection: Connection, address: TableAddress, owner: str) -> WrittenTable | None:
    """Return the table that the same owner wrote before, None if there is none; BadOption for one of somebody else."""
    existing = connection.existing(address.table)
    if existing is not None and existing.comment != owner:
        by = f" (its comment: {existing.comment})" if existing.comment else ""
        raise BadOption(
            f"{address} is there already, and not the {owner}{by}; give another name, or drop that table yourself"
        )
    return existing


def _check_addresses(addresses: Sequence[TableAddress]) -> None:
    for number, address in enumerate(addresses):
        if address.scheme not in KINDS:
            raise BadOption(f"{address}: tables of this kind are read alone; give one of {', '.join(KINDS)}")
        if not address.table:
            raise BadOption(f"{address} is a query, and rows are written into a table; give table=NAME")
        if (address.database, address.parameters) != (addresses[0].database, addresses[0].parameters):
            raise BadOption(
                f"{addresses[0]} and {address} are two databases, and all tables are written in one transaction; give "
                "tables of one database"
            )
        if address in addresses[:number]:
            raise BadOption(f"{address} is given twice; give each table a name of its own")
