"""Databases for tests: a PostgreSQL server of its own on a socket, and one table in each kind of database."""

import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi
import duckdb
import pytest

from al_ray.storage.databases.address import parse_address
from al_ray.storage.databases.reading import connected

KINDS = ("duckdb", "sqlite", "postgresql")


def _program(name: str) -> str:
    """The path of a program of PostgreSQL; Debian has them beside the others."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = shutil.which(name) or next((str(one / name) for one in reversed(places) if (one / name).is_file()), None)
    if found is None:
        pytest.skip(f"there is no {name}: install PostgreSQL (Debian: apt-get install postgresql)")
    return found


def _user() -> str | None:
    """The user of the server; None for our own. PostgreSQL refuses to run as root."""
    if os.getuid():
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    pytest.skip("PostgreSQL refuses to run as root, and there is no user postgres or nobody")


@contextmanager
def postgres(password: str | None = None) -> Iterator[str]:
    """Run a server, and yield the address of its database, up to the name of a table.

    password: of the user `shop`, which has none without it.
    """
    initdb, server, user = _program("initdb"), _program("postgres"), _user()
    # Not a folder of pytest, which another user may not enter.
    folder = Path(tempfile.mkdtemp(prefix="al-ray-pg-"))
    as_user: dict[str, Any] = {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid}
    secret = folder / "secret"
    secret.write_text(password or "")
    if user is not None:
        for path in (folder, secret):
            shutil.chown(path, user)
    method = ["--auth=trust"] if password is None else ["--auth=scram-sha-256", f"--pwfile={secret}"]
    subprocess.run(
        [initdb, "-D", folder / "data", "-U", "shop", "-E", "UTF8", "--no-sync", "--no-locale", *method],
        check=True, capture_output=True, cwd="/", **as_user,
    )  # fmt: skip
    options = [f"unix_socket_directories={folder}", "listen_addresses=", "fsync=off", "shared_buffers=16MB"]
    process = subprocess.Popen(
        [server, "-D", folder / "data", *(word for one in options for word in ("-c", one))],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/", **as_user,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "ready to accept connections" in line:
                break
        else:
            raise AssertionError("the server did not start")
        yield f"postgresql:///postgres?host={folder}&user=shop"
    finally:
        # SIGINT: without waiting for those that are connected.
        process.send_signal(2)
        process.communicate()
        shutil.rmtree(folder)


class Databases:
    """A database of each kind, empty at first."""

    def __init__(self, folder: Path, server: str) -> None:
        self.folder, self.server = folder, server

    def address(self, kind: str, given: str) -> str:
        """The address of a table in a database of a kind. given: table=NAME or query=SELECT."""
        if kind == "postgresql":
            return f"{self.server}&{given}"
        return f"{kind}:{self.folder / 'shop'}.{kind}?{given}"

    def execute(self, kind: str, *statements: str) -> None:
        """Execute statements, by the driver alone."""
        if kind == "duckdb":
            with duckdb.connect(f"{self.folder / 'shop'}.duckdb") as connection:
                for one in statements:
                    connection.execute(one)
        elif kind == "sqlite":
            with closing(sqlite3.connect(f"{self.folder / 'shop'}.sqlite")) as connection:
                for one in statements:
                    connection.execute(one)
                connection.commit()
        else:
            with adbc_driver_postgresql.dbapi.connect(self.server) as connection, connection.cursor() as cursor:
                for one in statements:
                    cursor.execute(one)
                connection.commit()

    def insert(self, kind: str, table: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
        """Make a table anew. columns: with their types; rows: numbers, texts and None."""
        values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
        self.execute(
            kind,
            f"DROP TABLE IF EXISTS {table}",
            f"CREATE TABLE {table} ({columns})",
            f"INSERT INTO {table} VALUES {values}",
        )

    def rows(self, kind: str, select: str) -> list[tuple[Any, ...]]:
        """The rows of a SELECT, as Python has them."""
        with connected(parse_address(self.address(kind, f"query={select}"))) as connection:
            return [tuple(row.values()) for batch in connection.batches(select) for row in batch.to_pylist()]


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int | float) else "'" + value.replace("'", "''") + "'"
