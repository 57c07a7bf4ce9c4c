"""The address of a table of a database: duckdb:shop.db?table=products, or of the rows of a query there."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from al_ray.core.errors import BadOption


@dataclass(frozen=True)
class Scheme:
    """A kind of database: an example of an address, and whether its place is a file or a folder of this machine."""

    example: str
    is_path: bool = True
    parameters: tuple[str, ...] = ()
    """Names of what an address may give before table= or query=."""
    names_table: bool = True
    """Whether an address needs table= or query=."""


SCHEMES: Mapping[str, Scheme] = {
    "duckdb": Scheme("duckdb:shop.db?table=products"),
    "sqlite": Scheme("sqlite:shop.db?table=products"),
    "postgresql": Scheme(
        "postgresql://ann@db.example.com/shop?table=products",
        is_path=False,
        # Of libpq, less those that hold a secret.
        parameters=(
            *("host", "hostaddr", "port", "dbname", "user", "service", "passfile", "connect_timeout", "options"),
            *("application_name", "sslmode", "sslrootcert", "sslcert", "sslkey", "channel_binding", "gssencmode"),
            *("krbsrvname", "keepalives", "target_session_attrs", "client_encoding"),
        ),
    ),
    "delta": Scheme("delta:lake/products", parameters=("version",), names_table=False),
}
"""All kinds of databases, in the order of --help."""
SPELLINGS = {"postgres": "postgresql"}
START = re.compile(rf"({'|'.join([*SCHEMES, *SPELLINGS])}):", re.IGNORECASE)
PASSWORD = "set it in the environment (PGPASSWORD), or in ~/.pgpass"


@dataclass(frozen=True)
class TableAddress:
    """A table of a database, or the rows of a query there. It holds no password.

    scheme: one of SCHEMES. place: what is between the scheme and the first question mark. parameters: of the
    connection, in the order given. table: its name, after a schema and a dot or alone; query: a SELECT. Both are empty
    where the place is a table by itself (delta).
    """

    scheme: str
    place: str
    parameters: tuple[tuple[str, str], ...] = ()
    table: str = ""
    query: str = ""

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in self.parameters]
        parts += [f"{name}={value}" for name, value in (("table", self.table), ("query", self.query)) if value]
        return f"{self.database}?{'&'.join(parts)}" if parts else self.database

    @property
    def database(self) -> str:
        """Return the address of the database itself."""
        return f"{self.scheme}:{self.place}"

    @property
    def stem(self) -> str:
        """Return a short name: that of the table without its schema."""
        if self.query:
            return "query"
        return self.table.rpartition(".")[2] or PurePosixPath(self.place).name

    def absolute(self) -> "TableAddress":
        """Return an address that means the same in every folder."""
        if not SCHEMES[self.scheme].is_path or "://" in self.place:
            return self
        return replace(self, place=str(Path(self.place).absolute()))


def is_address(text: str) -> bool:
    """Return whether a text begins as the address of a table of a database."""
    return START.match(text) is not None


def parse_address(text: str) -> TableAddress:
    """Parse the address of a table; BadOption for one that names no table, or that holds a password.

    Nothing is decoded: the query is all that follows `query=`, up to the end.
    """
    word, _, rest = text.partition(":")
    name = SPELLINGS.get(word.lower(), word.lower())
    scheme = SCHEMES[name]
    place, _, given = rest.partition("?")
    _check_place(name, scheme, place)
    before, mark, query = given.partition("query=") if re.search(r"(^|&)query=", given) else (given, "", "")
    shown = f"{name}:{place}"
    parameters, table = list[tuple[str, str]](), ""
    for part in filter(None, before.split("&")):
        key, _, value = part.partition("=")
        if key == "table" and scheme.names_table and not table:
            table = value
        elif key in scheme.parameters:
            parameters.append((key, value))
        else:
            raise BadOption(f"{shown}?... has {key!r}, which an address cannot give; {_fix(name, scheme, key)}")
    if scheme.names_table and bool(table) == bool(query):
        raise BadOption(
            f"{shown} names {'a table and a query' if table else 'no table'}; give one such as {scheme.example}, or "
            f"{scheme.example.partition('?')[0]}?query=SELECT ..."
        )
    if mark and not scheme.names_table:
        raise BadOption(f"{shown} takes no query; give one such as {scheme.example}")
    return TableAddress(name, place, tuple(parameters), table, query.strip().rstrip(";"))


def _check_place(name: str, scheme: Scheme, place: str) -> None:
    """Raise BadOption for a place that is none, or that holds a password, which the message lacks."""
    if scheme.is_path:
        if not place:
            raise BadOption(f"{name}: names no file; give one such as {scheme.example}")
        return
    if not place.startswith("//"):
        raise BadOption(f"{name}:{place.rpartition('@')[2]} is no address; give one such as {scheme.example}")
    user, at, rest = place.removeprefix("//").rpartition("@")
    # A password may hold an @ or a slash.
    if at and (":" in user or "/" in user):
        raise BadOption(f"{name}://...@{rest} holds a password; remove it, and {PASSWORD}")


def _fix(name: str, scheme: Scheme, key: str) -> str:
    if "passw" in key.lower():
        return f"remove it, and {PASSWORD}"
    known = ", ".join([*scheme.parameters, *(("table", "query") if scheme.names_table else ())])
    return f"give one of {known}, such as {scheme.example}"
