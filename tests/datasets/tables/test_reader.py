"""A format of tables is added by its entry of FORMATS and its reader."""

import pytest

from al_ray.core.errors import BadOption
from al_ray.datasets.tables import reader
from al_ray.datasets.tables.reader import BINARY, FORMATS, LINES, FileFormat, TableFormat, formats_help, read_table
from al_ray.datasets.tsv import BadRowLog


def words(path, column):
    return read_table(path, [column], TableFormat(), BadRowLog("fail")).cells[column].to_pylist()


def test_a_format_is_added_by_its_entry_and_its_reader(monkeypatch, tmp_path):
    assert [*FORMATS] == [*LINES, *BINARY]

    def key_rows(file, path, columns, reading, faults):
        for number, text in enumerate(file):
            cells = dict(part.split(":") for part in text.split())
            yield number, number + 1, [cells.get(name) for name in columns]

    pipes, keys = tmp_path / "a.psv", tmp_path / "a.keys"
    pipes.write_text("id|text\n1|how many cats\n")
    keys.write_text("id:1 text:cats\nid:2 text:dogs\n")
    with pytest.raises(BadOption, match=r"its extension is none of \.csv \.tsv \.tab \.jsonl \.ndjson \.parquet"):
        words(pipes, "text")
    monkeypatch.setitem(FORMATS, "psv", FileFormat((".psv",), "|"))
    monkeypatch.setitem(FORMATS, "keys", FileFormat((".keys",)))
    monkeypatch.setitem(LINES, "psv", reader._delimited_rows)
    monkeypatch.setitem(LINES, "keys", key_rows)
    assert words(pipes, "text") == ["how many cats"]
    assert words(keys, "text") == ["cats", "dogs"]
    assert ".ndjson .psv .keys, also packed" in formats_help()
    with pytest.raises(BadOption, match="give `format`: csv, tsv, jsonl, parquet, arrow, psv or keys"):
        words(tmp_path / "a.txt", "text")
