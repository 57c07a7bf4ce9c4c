"""Tables of databases and data frames are read as files are, a batch at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import al_ray
from al_ray.core.errors import AlRayError, BadFile, BadOption
from al_ray.datasets.tables import arrow_reader
from al_ray.datasets.tables.extension import extension_of
from al_ray.datasets.tables.options import OwnTexts
from al_ray.datasets.tables.reader import TableFormat, read_table
from al_ray.datasets.tables.to_task import read_own
from al_ray.datasets.tsv import BadRowLog
from al_ray.storage.databases import port
from al_ray.storage.databases.address import TableAddress, parse_address
from al_ray.storage.databases.frames import FrameTable
from al_ray.storage.databases.port import TableStream
from al_ray.storage.databases.reading import connected, open_table
from al_ray.storage.databases.table_path import table_path
from tests.storage.databases.servers import KINDS, Databases, postgres

COLUMNS = "sku varchar(9), title text, price double precision"
ROWS = [
    ("A1", "Trail running shoe", 89.9),
    ("A2", ' Running shoe, "trail"\nsize 42 ', None),
    ("B7", "Regenjacke für Kinder", 12.0),
    ("C3", None, 9.5),
]
FRAME = pd.DataFrame(ROWS, columns=["sku", "title", "price"])
SHARES = (1.0, 0.0, 0.0)


@pytest.fixture
def databases(server: str, tmp_path: Path) -> Databases:
    return Databases(tmp_path, server)


def options(left: Any, **more: Any) -> OwnTexts:
    given: dict[str, Any] = {"text_columns": "title,price", "id_column": "sku"} | more
    return OwnTexts(left=left, **given)


def digest(left: Any, **more: Any) -> str:
    return read_own(options(left, **more), SHARES)[0].digest


def cells(left: Any, *columns: str) -> list[list[str]]:
    sheet = read_table(table_path(left), columns, TableFormat(), BadRowLog("fail"))
    return [sheet.cells[name].to_pylist() for name in columns]


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    FRAME.to_csv(tmp_path / "products.csv", index=False)
    return tmp_path / "products.csv"


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_and_a_query_are_the_same_task_as_a_file_sorted_by_ids(databases: Databases, kind: str, csv: Path):
    # A database may return its rows in any order.
    databases.insert(kind, "products", COLUMNS, ROWS[::-1])
    expected = digest(csv)
    assert digest(databases.address(kind, "table=products")) == expected
    query = "query=SELECT price, title, sku, 7 AS more FROM products WHERE sku IS NOT NULL ORDER BY title DESC;"
    assert digest(databases.address(kind, query)) == expected


def test_a_delta_table_is_read_in_any_of_its_versions(csv: Path, tmp_path: Path):
    place = tmp_path / "delta"
    for rows in (FRAME[2:], FRAME[:2]):
        deltalake.write_deltalake(str(place), pa.Table.from_pandas(rows, preserve_index=False), mode="append")
    assert digest(f"delta:{place}") == digest(csv)
    assert cells(f"delta:{place}?version=0", "sku") == [["B7", "C3"]]
    for given, words in (
        (f"{tmp_path}/none", "cannot be read as a Delta"),
        (f"{place}?version=9", "cannot be read as"),
    ):
        with pytest.raises(BadFile, match=words):
            digest(f"delta:{given}")
    with pytest.raises(BadOption, match="the version 'last' is no number"):
        digest(f"delta:{place}?version=last")


@pytest.mark.parametrize(
    "frame",
    [FRAME, FRAME.astype({"title": "category"}), pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME)],
    ids=["pandas", "categories", "polars", "arrow"],
)
def test_a_data_frame_is_the_same_task_as_a_file(csv: Path, frame: Any):
    assert digest(frame) == digest(csv)


def test_a_duckdb_relation_and_a_stream_of_batches_are_read(csv: Path):
    assert digest(duckdb.from_arrow(pa.Table.from_pandas(FRAME))) == digest(csv)
    table = pa.Table.from_pandas(FRAME)
    assert digest(pa.RecordBatchReader.from_batches(table.schema, table.to_batches(1))) == digest(csv)


def test_rows_of_a_data_frame_have_numbers_and_several_frames_are_read_in_turn(tmp_path: Path):
    task, _ = read_own(options(FRAME[:3], id_column=None), SHARES)
    assert list(task.left.ids) == ["0", "1", "2"]
    both, _ = read_own(options([FRAME[:2], pl.from_pandas(FRAME[2:])]), SHARES)
    assert list(both.left.ids) == ["A1", "A2", "B7", "C3"]
    # A frame equals itself alone, so a side that is given twice is seen, and not by comparing values.
    with pytest.raises(BadOption, match="`right` is the same file as `left`"):
        options(FRAME, right=FRAME).check()
    assert FrameTable(FRAME) != FrameTable(FRAME.copy())


def test_errors_of_data_frames_name_what_to_do():
    mixed = pd.DataFrame({"sku": [1, "x"], "title": ["a", "b"], "price": [1, 2]})
    with pytest.raises(BadFile, match=r"pandas.DataFrame cannot be read as Arrow .* give a data frame whose columns"):
        digest(mixed)
    with pytest.raises(BadFile, match=r"polars.DataFrame has no column 'price'; it has: 'sku', 'title'"):
        digest(pl.from_pandas(FRAME[["sku", "title"]]))
    twice = pd.concat([FRAME, FRAME[:1]])
    with pytest.raises(BadFile, match=r"pandas.DataFrame:row 4: its id is 'A1', as that of pandas.DataFrame:row 0"):
        digest(twice)


def test_the_folder_of_a_task_says_of_which_kind_its_table_was_and_holds_no_password(
    databases: Databases, tmp_path: Path
):
    databases.insert("postgresql", "products", COLUMNS, ROWS)
    address = databases.address("postgresql", "table=products")
    al_ray.prepare(options(address), tmp_path / "task")
    assert f'"left": "{address}"' in (tmp_path / "task" / "task.json").read_text()
    al_ray.prepare(options(FRAME), tmp_path / "other")
    assert '"left": "pandas.DataFrame"' in (tmp_path / "other" / "task.json").read_text()
    # Next month's rows from another kind of database.
    databases.insert("sqlite", "june", COLUMNS, [("D1", "Raincoat", 3.0), ("A1", "Trail shoe", 1.0)])
    june = al_ray.prepare(extension_of(tmp_path / "task", databases.address("sqlite", "table=june")), tmp_path / "june")
    assert list(june.task.left.ids) == ["A1", "A2", "B7", "C3", "D1"]


def test_labels_and_pairs_may_be_tables_too(databases: Databases, csv: Path, tmp_path: Path):
    databases.insert("duckdb", "said", "a text, b text, c text", [("A1", "A2", "yes"), ("B7", "C3", "no")])
    labels = databases.address("duckdb", "table=said")
    frame = pd.DataFrame({"a": ["A1", "B7"], "b": ["A2", "C3"], "c": [True, False]})
    written = tmp_path / "said.csv"
    frame.to_csv(written, index=False)
    found = [digest(csv, labels=one, label_columns="a,b,c") for one in (written, labels, frame)]
    assert len(set(found)) == 1
    pairs = [("one", "two", 1), ("three", "four", 0)]
    databases.insert("sqlite", "pairs", "x text, y text, z int", pairs)
    sheet = pd.DataFrame(sorted(pairs), columns=["x", "y", "z"])
    tasks = [
        read_own(OwnTexts(source=one, text_columns="x,y", label_column="z"), SHARES)[0].digest
        for one in (databases.address("sqlite", "table=pairs"), sheet)
    ]
    assert tasks[0] == tasks[1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("table=product", "there is no table 'product'; the database has: 'products'"),
        ("query=SELECT * FROM nothing", "check the query"),
        ("query=SELECT sku, title FROM products", "has no column 'price'; it has: 'sku', 'title'"),
        ("query=SELECT sku, title, price FROM products WHERE sku = 'none'", "holds no row; is it the right table?"),
        ("query=DROP TABLE products", "cannot be read"),
    ],
)
def test_errors_name_the_table_and_what_to_do(databases: Databases, kind: str, given: str, words: str):
    databases.execute("postgresql", "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    databases.insert(kind, "products", COLUMNS, ROWS)
    address = databases.address(kind, given)
    with pytest.raises(BadFile) as refused:
        digest(address)
    assert str(refused.value).startswith(address)
    assert words in str(refused.value)
    assert len(databases.rows(kind, "SELECT sku FROM products")) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_reads_changes_nothing(databases: Databases, kind: str):
    databases.insert(kind, "products", COLUMNS, ROWS)
    address = parse_address(databases.address(kind, "table=products"))
    with pytest.raises(BadFile, match=r"cannot be read \(.*(read-only|readonly)"), connected(address) as connection:
        connection.execute("DELETE FROM products")


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_row_is_named_by_its_table_and_ids_are_needed(databases: Databases, kind: str):
    databases.insert(kind, "products", COLUMNS, [*ROWS, ("A1", "another", 1.0)])
    address = databases.address(kind, "table=products")
    with pytest.raises(BadFile) as refused:
        digest(address)
    assert f"{address}:row " in str(refused.value)
    assert "its id is 'A1', as that of" in str(refused.value)
    task, report = read_own(options(address, bad_rows="skip"), SHARES)
    assert len(task.left) == 4
    assert len(report.skipped) == 1
    with pytest.raises(BadOption, match="rows of a database have no numbers; give the column of the ids: `id_column`"):
        options(address, id_column=None).check()


def test_a_file_that_is_no_database_and_one_that_is_not_there(tmp_path: Path):
    (tmp_path / "a.db").write_text("sku,title\n" * 200)
    for kind in ("duckdb", "sqlite"):
        with pytest.raises(BadFile, match=rf"^{kind}:.*a.db\?table=t cannot be read \(.*database.*\); check the name"):
            digest(f"{kind}:{tmp_path}/a.db?table=t")
        with pytest.raises(BadFile, match=r"there is no file .*b.db; give the path of the database"):
            digest(f"{kind}:{tmp_path}/b.db?table=t")
    assert not (tmp_path / "b.db").exists()


def test_a_server_that_cannot_be_reached_is_an_error_and_not_a_stack(tmp_path: Path):
    with pytest.raises(BadFile, match=r"cannot be read \(.*connection to server on socket .* failed"):
        digest(f"postgresql:///shop?host={tmp_path}&table=t")


def test_a_driver_that_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(port, "find_spec", lambda name: None)
    for address, package, extra in (
        ("duckdb:x.db?table=t", "duckdb", "sql"),
        ("postgresql://h/d?table=t", "adbc-driver-postgresql", "sql"),
        ("delta:x", "deltalake", "delta"),
    ):
        with pytest.raises(BadOption, match=rf"needs the package {package}, which is not installed; .*\.\[{extra}\]"):
            digest(address)


def test_values_have_the_text_that_files_have(databases: Databases):
    typed = "SELECT 'a' AS id, DATE '1984-03-01' AS day, 12.50::numeric(9,2) AS price, true AS is_new, 7 AS number"
    for kind in ("duckdb", "postgresql"):
        databases.execute(kind, "SELECT 1")
        found = cells(databases.address(kind, f"query={typed}"), "day", "price", "is_new", "number")
        assert found == [["1984-03-01"], ["12.50"], ["true"], ["7"]]
    more = "SELECT ARRAY['x', 'y'] AS l, TIMESTAMPTZ '2024-03-01 06:06:00+01' t, '{\"a\": 1}'::jsonb j, 1.5::numeric n"
    assert cells(databases.address("postgresql", f"query={more}"), "l", "t", "j", "n") == [
        ["x y"], ["2024-03-01 05:06:00+00:00"], ['{"a": 1}'], ["1.5"],
    ]  # fmt: skip
    # A cell of SQLite has its own type.
    databases.execute("sqlite", "CREATE TABLE t (a)", "INSERT INTO t VALUES (1), (2.0), ('x'), (NULL)")
    assert cells(databases.address("sqlite", "table=t"), "a") == [["1", "2.0", "x", None]]
    databases.execute("sqlite", "INSERT INTO t VALUES (x'00ff')")
    with pytest.raises(BadFile, match="column 'a' holds bytes; name a column of texts"):
        cells(databases.address("sqlite", "table=t"), "a")


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_many_rows_is_a_stream_of_small_batches(databases: Databases, kind: str):
    rows = 3 * port.ROWS_AT_ONCE
    series = {
        "sqlite": f"WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {rows}) SELECT i FROM s",
        "duckdb": f"SELECT i FROM range({rows}) s(i)",
        "postgresql": f"SELECT i, repeat('word ', 200) AS t FROM generate_series(1, {rows}) s(i)",
    }[kind]
    # Makes the file.
    databases.insert(kind, "one", "a int", [(1,)])
    with open_table(parse_address(databases.address(kind, f"query={series}"))) as stream:
        sizes = [(batch.num_rows, batch.nbytes) for batch in stream.batches(stream.columns)]
    assert sum(count for count, _ in sizes) == rows
    assert len(sizes) >= 3
    # The driver of PostgreSQL counts bytes, not rows.
    assert max(size if kind == "postgresql" else count for count, size in sizes) <= (
        20_000_000 if kind == "postgresql" else port.ROWS_AT_ONCE + 2048
    )


def test_a_batch_is_let_go_before_the_next_but_one_is_read(monkeypatch: pytest.MonkeyPatch):
    """So that memory holds the texts, and not the rows of the driver beside them."""
    size, allocated = 2**20, list[int]()

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for number in range(8):
            allocated.append(pa.total_allocated_bytes())
            yield pa.record_batch({"a": pa.array([str(number) + " " * size])})

    @contextmanager
    def opened(address: TableAddress) -> Iterator[TableStream]:
        yield TableStream(["a"], batches)

    monkeypatch.setattr(arrow_reader, "open_table", opened)
    assert cells("duckdb:x?table=t", "a") == [list("01234567")]
    # The batch before, and what is left of its cells.
    assert max(allocated) - allocated[0] < 2 * size


def test_a_password_of_the_environment_or_of_a_file_is_used_and_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    secret = "sehr-geheim-7"
    with postgres(secret) as server:
        monkeypatch.setenv("PGPASSWORD", secret)
        databases = Databases(tmp_path, server)
        databases.insert("postgresql", "products", COLUMNS, ROWS)
        address = databases.address("postgresql", "table=products")
        al_ray.prepare(options(address), tmp_path / "task")
        monkeypatch.setenv("PGPASSWORD", f"not-{secret}")
        with pytest.raises(AlRayError, match="password authentication failed") as refused:
            digest(address)
        assert secret not in str(refused.value)
        monkeypatch.delenv("PGPASSWORD")
        passwords = tmp_path / "pgpass"
        passwords.write_text(f"*:*:*:shop:{secret}\n")
        passwords.chmod(0o600)
        monkeypatch.setenv("PGPASSFILE", str(passwords))
        assert digest(address) == digest(FRAME)
        passwords.unlink()
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert [path for path in written if secret.encode() in path.read_bytes()] == []
