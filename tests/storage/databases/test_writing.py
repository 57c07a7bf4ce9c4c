"""Tables of a database are written in one transaction, and only in place of what the same owner wrote."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from al_ray.core.errors import BadFile, BadOption
from al_ray.storage.databases.address import parse_address
from al_ray.storage.databases.writing import NewTable, check_writable, owner_of, write_tables, written_schema
from tests.storage.databases.servers import KINDS, Databases

SCHEMA = pa.schema([("id", pa.string()), ("cluster", pa.int64()), ("score", pa.float64())])
OWNER = "matches of /somewhere, written by al_ray"


@pytest.fixture
def databases(server: str, tmp_path: Path) -> Databases:
    made = Databases(tmp_path, server)
    made.execute(
        "postgresql", "DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "DROP SCHEMA IF EXISTS shop CASCADE"
    )
    return made


def rows_of(*ids: str) -> pa.Table:
    numbers = list(range(len(ids)))
    return pa.table({"id": list(ids), "cluster": numbers, "score": [number / 2 for number in numbers]}, SCHEMA)


def new_table(address: str, *ids: str) -> NewTable:
    return NewTable(parse_address(address), SCHEMA, lambda: iter(rows_of(*ids).to_batches(1)))


@pytest.mark.parametrize("kind", KINDS)
def test_tables_are_written_with_their_rows_and_written_anew_by_the_same_owner(databases: Databases, kind: str):
    first, second = (databases.address(kind, f"table={name}") for name in ("m", 'The "c"'))
    write_tables([new_table(first, "a", "b'; DROP"), new_table(second)], OWNER)
    # SQLite is read as text.
    expected = [("a", 0, 0.0), ("b'; DROP", 1, 0.5)]
    found = databases.rows(kind, "SELECT id, cluster, score FROM m ORDER BY id")
    assert found == ([tuple(map(str, row)) for row in expected] if kind == "sqlite" else expected)
    assert databases.rows(kind, 'SELECT * FROM "The ""c"""') == []
    write_tables([new_table(first, "c"), new_table(second, "d")], OWNER)
    assert [row[0] for row in databases.rows(kind, 'SELECT id FROM m UNION ALL SELECT id FROM "The ""c"""')] == [
        "c",
        "d",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_other_columns_take_the_place_of_the_table(databases: Databases, kind: str):
    address = databases.address(kind, "table=m")
    write_tables([new_table(address, "a")], OWNER)
    schema = pa.schema([("id", pa.string()), ("why", pa.string())])
    table = pa.table({"id": ["x"], "why": [None]}, schema)
    write_tables([NewTable(parse_address(address), schema, lambda: iter(table.to_batches()))], OWNER)
    assert databases.rows(kind, "SELECT * FROM m") == [("x", None)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("made", ["TABLE m (id text)", "VIEW m AS SELECT 'mine' AS id"])
def test_a_table_of_somebody_else_is_left_alone_and_so_are_all_others(databases: Databases, kind: str, made: str):
    databases.execute(kind, f"CREATE {made}")
    mine = databases.rows(kind, "SELECT * FROM m")
    addresses = [databases.address(kind, f"table={name}") for name in ("k", "m")]
    columns = [(parse_address(address), SCHEMA) for address in addresses]
    for attempt in (lambda: check_writable(columns, OWNER), lambda: write_tables([*map(new_table, addresses)], OWNER)):
        with pytest.raises(BadOption) as refused:
            attempt()
        assert str(refused.value).startswith(f"{addresses[1]} is there already, and not the {OWNER}")
        assert "give another name, or drop that table yourself" in str(refused.value)
    assert databases.rows(kind, "SELECT * FROM m") == mine
    with pytest.raises(BadFile, match=r"no such table|does not exist"):
        databases.rows(kind, "SELECT * FROM k")


@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_another_folder_are_left_alone(databases: Databases, kind: str, tmp_path: Path):
    address = databases.address(kind, "table=m")
    write_tables([new_table(address, "a")], owner_of("matches", tmp_path / "*/one"))
    with pytest.raises(BadOption, match=r"its comment: matches of .*one, written by al_ray"):
        write_tables([new_table(address, "b")], owner_of("matches", tmp_path / "two"))
    write_tables([new_table(address, "c")], owner_of("matches", tmp_path / "*/one"))
    assert [row[0] for row in databases.rows(kind, "SELECT id FROM m")] == ["c"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_halfway_leaves_all_tables_as_they_were(databases: Databases, kind: str):
    first, second = (databases.address(kind, f"table={name}") for name in ("m", "c"))
    write_tables([new_table(first, "old")], OWNER)

    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows_of("new").to_batches()
        raise pa.ArrowInvalid("the file is damaged")

    with pytest.raises(BadFile, match=r"cannot be written \(.*\); nothing was changed there") as refused:
        write_tables([new_table(first, "new", "newer"), NewTable(parse_address(second), SCHEMA, broken)], OWNER)
    assert "the file is damaged" in str(refused.value)
    assert [row[0] for row in databases.rows(kind, "SELECT id FROM m")] == ["old"]
    with pytest.raises(BadFile, match=r"no such table|does not exist"):
        databases.rows(kind, "SELECT * FROM c")


KILLED = """
import os, sys
import pyarrow as pa
from al_ray.storage.databases.address import parse_address
from al_ray.storage.databases.writing import NewTable, write_tables

schema = pa.schema([("id", pa.string()), ("cluster", pa.int64()), ("score", pa.float64())])

def batches():
    for number in range(50):
        if number == 40:
            os._exit(9)
        yield pa.record_batch([["new"] * 1000, [1] * 1000, [0.5] * 1000], schema=schema)

write_tables([NewTable(parse_address(sys.argv[1]), schema, batches)], sys.argv[2])
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_is_killed_while_it_writes_leaves_the_rows_of_before(databases: Databases, kind: str):
    address = databases.address(kind, "table=m")
    write_tables([new_table(address, "old")], OWNER)
    assert subprocess.run([sys.executable, "-c", KILLED, address, OWNER]).returncode == 9
    assert [row[0] for row in databases.rows(kind, "SELECT id FROM m")] == ["old"]
    write_tables([new_table(address, "new")], OWNER)
    assert [row[0] for row in databases.rows(kind, "SELECT id FROM m")] == ["new"]


def test_a_table_of_a_schema_keeps_its_rights_and_the_views_on_it(databases: Databases):
    databases.execute("postgresql", "CREATE SCHEMA shop")
    address = databases.address("postgresql", "table=shop.m")
    write_tables([new_table(address, "a")], OWNER)
    databases.execute("postgresql", "CREATE VIEW v AS SELECT id FROM shop.m", "GRANT SELECT ON shop.m TO PUBLIC")
    write_tables([new_table(address, "b")], OWNER)
    assert databases.rows("postgresql", "SELECT id FROM v") == [("b",)]
    rights = (
        "SELECT count(*) AS n FROM information_schema.table_privileges WHERE table_name = 'm' AND grantee = 'PUBLIC'"
    )
    assert databases.rows("postgresql", rights) == [(1,)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_check_before_work_changes_nothing_and_sees_what_cannot_be_written(databases: Databases, kind: str):
    columns = [(parse_address(databases.address(kind, "table=m")), SCHEMA)]
    check_writable(columns, OWNER)
    if kind != "postgresql":
        assert not Path(columns[0][0].place).exists()
    databases.execute(kind, "CREATE TABLE other (id text)")
    check_writable(columns, OWNER)
    with pytest.raises(BadFile, match=r"no such table|does not exist"):
        databases.rows(kind, "SELECT * FROM m")
    absent = parse_address(databases.address(kind, "table=nowhere.m"))
    with pytest.raises(BadFile, match="cannot be written"):
        check_writable([(absent, SCHEMA)], OWNER)


@pytest.mark.parametrize(
    ("addresses", "words"),
    [
        (["delta:lake/m"], "delta:lake/m: tables of this kind are read alone; give one of duckdb, sqlite, postgresql"),
        (["duckdb:a.db?query=SELECT 1"], "is a query, and rows are written into a table; give table=NAME"),
        (["duckdb:a.db?table=m", "duckdb:b.db?table=c"], "are two databases, and all tables are written in one"),
        (["duckdb:a.db?table=m", "duckdb:a.db?table=m"], "is given twice; give each table a name of its own"),
        (["sqlite:/no/such/folder/a.db?table=m"], "there is no folder /no/such/folder; make it, or give another file"),
    ],
)
def test_what_cannot_be_written_is_refused_before_any_work(addresses: list[str], words: str):
    with pytest.raises(BadOption) as refused:
        check_writable([(parse_address(one), SCHEMA) for one in addresses], OWNER)
    assert words in str(refused.value)


def test_columns_get_one_of_three_types():
    given = pa.schema([("a", pa.large_string()), ("b", pa.uint8()), ("c", pa.float32()), ("d", pa.null())])
    assert written_schema(given).types == [pa.string(), pa.int64(), pa.float64(), pa.string()]
