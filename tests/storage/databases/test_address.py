"""Addresses of tables of databases: what they say, and errors that say what to do."""

from pathlib import Path

import pytest

from al_ray.core.errors import BadOption
from al_ray.storage.databases.address import SCHEMES, TableAddress, parse_address
from al_ray.storage.databases.reading import KINDS, OTHERS
from al_ray.storage.databases.table_path import table_path, table_stem, table_suffix
from al_ray.storage.uri import storage_path


def test_every_scheme_has_one_way_to_read_and_an_example_that_parses():
    assert sorted(SCHEMES) == sorted([*KINDS, *OTHERS])
    for name, scheme in SCHEMES.items():
        assert parse_address(scheme.example).scheme == name


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("duckdb:shop.db?table=products", TableAddress("duckdb", "shop.db", table="products")),
        ("sqlite:/a b/shop.db?table=x", TableAddress("sqlite", "/a b/shop.db", table="x")),
        # A query is taken as it is: %, & and = are its own.
        (
            "duckdb:shop.db?query=SELECT a&1 AS b FROM t WHERE c = '50%'",
            TableAddress("duckdb", "shop.db", query="SELECT a&1 AS b FROM t WHERE c = '50%'"),
        ),
        (
            "postgresql://ann@db:5433/shop?sslmode=require&table=sales.products",
            TableAddress("postgresql", "//ann@db:5433/shop", (("sslmode", "require"),), "sales.products"),
        ),
        ("delta:lake/products?version=3", TableAddress("delta", "lake/products", (("version", "3"),))),
    ],
)
def test_an_address_says_where_a_table_is_and_can_be_written_again(text: str, address: TableAddress):
    assert parse_address(text) == address
    assert str(address) == text
    assert table_path(text) == address


def test_a_spelling_of_postgresql_and_the_end_of_a_query():
    assert parse_address("Postgres://h/d?table=t") == parse_address("postgresql://h/d?table=t")
    assert parse_address("sqlite:a?query= SELECT 1; ").query == "SELECT 1"


def test_a_name_for_a_task_and_the_kind_of_table():
    names = {"sqlite:a.db?table=main.products": "products", "sqlite:a.db?query=SELECT 1": "query", "delta:x/y": "y"}
    assert {text: table_stem(table_path(text)) for text in names} == names
    assert [table_suffix(table_path(text)) for text in ("sqlite:a.db?table=t", "a.csv.gz")] == ["sqlite:", ".csv"]


def test_an_absolute_address_means_the_same_everywhere():
    assert parse_address("duckdb:a.db?table=t").absolute().place == str(Path("a.db").absolute())
    for text in ("postgresql://h/d?table=t", "delta:s3://bucket/t"):
        assert parse_address(text).absolute() == parse_address(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("duckdb:shop.db", "names no table; give one such as duckdb:shop.db?table=products, or duckdb:shop.db?query="),
        ("duckdb:shop.db?table=a&query=SELECT 1", "names a table and a query; give one"),
        ("sqlite:?table=a", "sqlite: names no file; give one such as sqlite:shop.db"),
        ("sqlite:a?tabel=a", "has 'tabel', which an address cannot give; give one of table, query, such as"),
        ("postgresql:shop?table=a", "is no address; give one such as postgresql://ann@"),
        ("postgresql://h/d?colour=red&table=a", "has 'colour', which an address cannot give; give one of host, "),
        ("delta:x?table=a", "has 'table', which an address cannot give; give one of version, such as delta:lake"),
        ("delta:x?query=SELECT 1", "takes no query; give one such as delta:lake/products"),
    ],
)
def test_what_is_no_address_is_refused_with_what_to_give(text: str, words: str):
    with pytest.raises(BadOption) as refused:
        parse_address(text)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann:geheim@db/shop?table=t",
        "postgresql://ann:geh@im/geheim@db/shop?table=t",
        "postgresql://ann@db/shop?password=geheim&table=t",
        "postgresql://ann@db/shop?sslpassword=geheim&table=t",
    ],
)
def test_a_password_is_refused_and_not_repeated(text: str):
    with pytest.raises(
        BadOption, match=r"remove it, and set it in the environment \(PGPASSWORD\), or in ~/.pgpass"
    ) as at:
        table_path(text)
    assert "geh" not in str(at.value)


def test_a_place_for_paths_alone_takes_no_table():
    with pytest.raises(
        BadOption, match=r"sqlite:a.db\?table=t is a table of a database, which is not taken here; give"
    ):
        storage_path("sqlite:a.db?table=t")
    # A file may have a name with a colon.
    assert storage_path("notes:a.db") == Path("notes:a.db")
