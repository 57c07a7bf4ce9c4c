"""A value of a table has one text, whatever program wrote it into whatever format."""

import datetime as dt
import decimal
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from al_ray.datasets.canonical_cells import canonical_cell, canonical_cells
from al_ray.datasets.tables.reader import TableFormat, read_table
from al_ray.datasets.tsv import BadRowLog


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("True", "true"),
        ("FALSE", "false"),
        ("1984-03-01 00:00:00.000000000", "1984-03-01"),
        ("1984-03-01T00:00", "1984-03-01"),
        ("2024-03-01T05:06", "2024-03-01 05:06:00"),
        ("2024-03-01 05:06:07.500", "2024-03-01 05:06:07.5"),
        # Paris is an hour before London in winter.
        ("2024-03-01 05:06:00+01:00", "2024-03-01 04:06:00+00:00"),
        ("2024-01-01T00:30:00.000+0100", "2023-12-31 23:30:00+00:00"),
        ("2024-03-01T04:06:00Z", "2024-03-01 04:06:00+00:00"),
        # Midnight in a zone is no date.
        ("2024-03-01 00:00:00 UTC", "2024-03-01 00:00:00+00:00"),
        ("05:06:07.500000", "05:06:07.5"),
        *((same, same) for same in ("tRUE", "True story", "012", "10.0", "1e3", "2024-03-01", "2024-13-01 00:00:00")),
        *((same, same) for same in ("on 2024-03-01 00:00:00", "2024-03-01 25:00", "0001-01-01 00:00:00+01:00", "5:06")),
    ],
)
def test_dates_times_and_truth_have_one_spelling_and_nothing_else_changes(text, wanted):
    assert canonical_cell(text) == wanted
    assert canonical_cell(wanted) == wanted
    column = canonical_cells(pa.array([None, text, "x"], pa.large_string()))
    assert column.to_pylist() == [None, wanted, "x"]


MOMENTS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))
DAYS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)).map(lambda day: dt.datetime(*day.timetuple()[:3]))
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy]] = {
    "moment": (pa.timestamp("us"), MOMENTS),
    "midnight": (pa.timestamp("ns"), DAYS),
    "zone": (pa.timestamp("us", "UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=dt.UTC))),
    "date": (pa.date32(), st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1))),
    "time": (pa.time64("us"), st.times()),
    "truth": (pa.bool_(), st.booleans()),
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "decimal": (pa.decimal128(12, 2), st.decimals(-(10**9), 10**9, places=2)),
    "word": (pa.large_string(), st.text("ab01.-: T", max_size=12)),
}


@st.composite
def typed_tables(draw) -> pa.Table:
    rows = draw(st.integers(1, 4))
    columns = {
        name: pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind)
        for name, (kind, values) in COLUMNS.items()
    }
    return pa.table({"key": pa.array(map(str, range(rows))), **columns})


def texts(path: Path, table: pa.Table) -> dict[str, list[str | None]]:
    sheet = read_table(path, table.column_names, TableFormat(), BadRowLog("fail", ""))
    return {name: column.to_pylist() for name, column in sheet.cells.items()}


def as_json(value: object) -> object:
    """A value as JSON has it: decimals and times as text, as pandas and others write them."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


@given(typed_tables())
@settings(max_examples=60, deadline=None)
def test_a_table_has_the_same_texts_in_every_format(table):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        pyarrow.parquet.write_table(table, folder / "t.parquet")
        pyarrow.feather.write_feather(table, folder / "t.feather")
        with pa.ipc.new_stream(str(folder / "t.arrow"), table.schema) as stream:
            stream.write_table(table)
        rows = table.to_pylist()
        lines = (json.dumps({name: as_json(value) for name, value in row.items()}) for row in rows)
        (folder / "t.jsonl").write_text("\n".join(lines))
        # As Python and pandas write values: True, 10.0, 2024-03-01 00:00:00.
        plain = pa.table(
            {name: [None if row[name] is None else str(row[name]) for row in rows] for name in table.column_names}
        )
        pyarrow.csv.write_csv(plain, folder / "t.csv")
        pyarrow.csv.write_csv(plain, folder / "t.tsv", pyarrow.csv.WriteOptions(delimiter="\t"))
        wanted = texts(folder / "t.parquet", table)
        for name in ("t.feather", "t.arrow", "t.jsonl", "t.csv", "t.tsv"):
            assert texts(folder / name, table) == wanted, name
        # Arrow writes times as 05:06:00.000000 and true, and 10.0 as 10, which is documented to be another text.
        pyarrow.csv.write_csv(table.drop(["float"]), folder / "arrow.csv")
        assert texts(folder / "arrow.csv", table.drop(["float"])) == {
            name: column for name, column in wanted.items() if name != "float"
        }


def test_lists_are_their_values_and_what_is_nested_deeper_is_refused(tmp_path):
    tags = pa.array([["a", None, "b c"], [], None, ["  "]], pa.list_(pa.string()))
    days = pa.array([[dt.datetime(2024, 3, 1)], None, [], [dt.datetime(2024, 3, 1, 5)]], pa.list_(pa.timestamp("us")))
    table = pa.table({"tags": tags, "days": days, "cost": [decimal.Decimal("9.50")] * 4})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "t.jsonl").write_text(
        "\n".join(
            json.dumps({"tags": row["tags"], "days": row["days"] and list(map(str, row["days"])), "cost": "9.50"})
            for row in table.to_pylist()
        )
    )
    for name in ("t.parquet", "t.jsonl"):
        assert texts(tmp_path / name, table) == {
            "tags": ["a b c", None, None, None],
            "days": ["2024-03-01", None, None, "2024-03-01 05:00:00"],
            "cost": ["9.50"] * 4,
        }
