"""Open a table of a database for reading, whichever database it is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.storage.databases.address import SCHEMES, TableAddress
from al_ray.storage.databases.delta import open_delta
from al_ray.storage.databases.duck import DUCKDB
from al_ray.storage.databases.port import Connection, Kind, TableStream, quoted, quoted_table
from al_ray.storage.databases.postgres import POSTGRES
from al_ray.storage.databases.sqlite import SQLITE

KINDS: Mapping[str, Kind] = {"duckdb": DUCKDB, "sqlite": SQLITE, "postgresql": POSTGRES}
"""The kinds of databases that speak SQL. Any other of SCHEMES is in OTHERS."""
OTHERS: Mapping[str, Callable[[TableAddress], AbstractContextManager[TableStream]]] = {"delta": open_delta}
SHOWN = 12
"""Tables that a message names at most."""


@contextmanager
def connected(address: TableAddress, write: bool = False) -> Iterator[Connection]:
    """Connect to the database of an address; what the driver raises becomes BadFile with the address.

    write: in a transaction, which takes effect by `commit` alone.
    """
    kind = KINDS[address.scheme]
    errors = kind.errors()
    if SCHEMES[address.scheme].is_path and not write and not Path(address.place).is_file():
        raise BadFile(f"{address}: there is no file {address.place}; give the path of the database")
    try:
        with closing(kind.connect(address, write)) as connection:
            yield connection
    except (*errors, pa.ArrowException) as error:
        what = "written" if write else "read"
        raise BadFile(f"{address} cannot be {what} ({reason_of(error)}); {_fix(address, write)}") from error


def reason_of(error: Exception) -> str:
    """Return the first line of what a driver says."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _fix(address: TableAddress, write: bool) -> str:
    if write:
        return "nothing was changed there; look at the message, then rerun the command"
    checked = "the query" if address.query else "the name of the table"
    return f"check {checked}, and that the database can be reached and is not locked by another program"


def open_table(address: TableAddress) -> AbstractContextManager[TableStream]:
    """Open a table, or the rows of a query; BadFile if there is none, or if it cannot be read."""
    return OTHERS[address.scheme](address) if address.scheme in OTHERS else _sql_table(address)


@contextmanager
def _sql_table(address: TableAddress) -> Iterator[TableStream]:
    relation = quoted_table(address.table) if address.table else f"({address.query}) AS al_ray_rows"
    with connected(address) as connection:
        _check_exists(address, connection)
        columns = connection.columns(f"SELECT * FROM {relation} LIMIT 0")

        def batches(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
            return connection.batches(f"SELECT {', '.join(map(quoted, names))} FROM {relation}")

        yield TableStream(columns, batches)


def _check_exists(address: TableAddress, connection: Connection) -> None:
    """Raise BadFile for a table that is not there; the message names those that are."""
    if not address.table or connection.existing(address.table) is not None:
        return
    tables = connection.tables()
    listed = ", ".join(map(repr, tables[:SHOWN])) + (", ..." if len(tables) > SHOWN else "")
    raise BadFile(f"{address}: there is no table {address.table!r}; the database has: {listed or 'none'}")
