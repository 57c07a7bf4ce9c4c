"""What a database does for al_ray: rows of a query as Arrow record batches, and tables that are written in one step."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import pyarrow as pa

from al_ray.core.errors import BadOption
from al_ray.storage.databases.address import TableAddress

ROWS_AT_ONCE = 20_000
"""Rows of a table that are Python objects at a time, and that a batch has at most where the driver lets us choose."""
TYPES = {pa.string(): "TEXT", pa.int64(): "BIGINT", pa.float64(): "DOUBLE PRECISION"}
"""Types of columns that are written, in the SQL of all databases."""
INSTALL = "pip install --constraint constraints.txt '.[{}]' in the checkout"


@dataclass(frozen=True)
class WrittenTable:
    """A table that exists: its columns, and the comment on it, "" if it has none."""

    columns: list[str]
    comment: str


class Connection(Protocol):
    """An open connection to a database. What is written takes effect at `commit`, all of it or none."""

    def columns(self, select: str) -> list[str]:
        """Return the names of the columns of a SELECT."""
        ...

    def batches(self, select: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a SELECT, as they arrive."""
        ...

    def tables(self) -> list[str]:
        """Return the names of all tables and views, those of the default schema without it."""
        ...

    def existing(self, table: str) -> WrittenTable | None:
        """Return a table that may be written again; None if there is none of this name."""
        ...

    def create(self, table: str, schema: pa.Schema, comment: str) -> None:
        """Create a table with a comment on it."""
        ...

    def append(self, table: str, rows: pa.RecordBatchReader) -> None:
        """Add rows to a table with these columns."""
        ...

    def execute(self, statement: str) -> None:
        """Execute a statement that returns nothing."""
        ...

    def commit(self) -> None:
        """Let everything that was written take effect."""
        ...

    def close(self) -> None:
        """Close the connection; what was not committed has no effect."""
        ...


@dataclass(frozen=True)
class Kind:
    """A kind of database: what its driver raises, and how to connect to it, to read or to write.

    errors: BadOption if the package of the driver is not installed.
    """

    errors: Callable[[], tuple[type[Exception], ...]]
    connect: Callable[[TableAddress, bool], Connection]


@dataclass(frozen=True)
class TableStream:
    """A table by its columns, and a function of some of them that yields its rows."""

    columns: list[str]
    batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]


def quoted(name: str) -> str:
    """Return a name as SQL has it, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def quoted_table(table: str) -> str:
    """Return the name of a table as SQL has it: NAME, or SCHEMA.NAME."""
    return ".".join(map(quoted, table.split(".")))


def literal(text: str) -> str:
    """Return a text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def column_list(schema: pa.Schema) -> str:
    """Return the columns of a table with their types, as CREATE TABLE has them."""
    return ", ".join(f"{quoted(field.name)} {TYPES[field.type]}" for field in schema)


def driver(module: str, scheme: str, extra: str = "sql") -> Any:
    """Import the driver of a database; BadOption if its package is not installed. extra: that brings it."""
    top = module.partition(".")[0]
    if find_spec(top) is None:
        install = INSTALL.format(extra)
        raise BadOption(f"{scheme}: needs the package {top.replace('_', '-')}, which is not installed; {install}")
    return import_module(module)
