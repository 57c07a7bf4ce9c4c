"""How tables are read that are matched: as those of the model's task, but for the options that are given."""

from pathlib import Path

import pytest

from al_ray.apps.matching.options import MatchOptions
from al_ray.apps.matching.texts import read_arrived, table_source
from al_ray.core.errors import BadOption

TASK = {
    "left": "ours.csv", "right": "theirs.csv", "text_columns": "title,brand", "id_column": "sku",
    "right_text_columns": "name", "right_id_column": "asin", "delimiter": ";", "encoding": "latin-1", "header": True,
    "quoting": "standard", "format": "auto", "same": "country", "different": None, "bad_rows": "skip",
}  # fmt: skip


def source(left: str = "new.csv", right: str | None = None, **given):
    options = MatchOptions(left=Path(left), right=None if right is None else Path(right), **given)
    return table_source(options, TASK, 64)


def test_without_options_tables_are_read_as_those_of_the_task():
    read = source(right="other.csv")
    assert (read.text_columns, read.id_column) == ("title,brand", "sku")
    assert (read.right_text_columns, read.right_id_column) == ("name", "asin")
    assert (read.delimiter, read.encoding, read.same) == (";", "latin-1", "country")
    assert (read.max_length, read.bad_rows) == (64, "fail")
    read.check()
    # The columns of a right table say nothing about one table alone.
    assert source().right_text_columns is None


def test_an_option_that_is_given_replaces_that_of_the_task_even_where_it_is_the_default():
    read = source(right="other.csv", encoding="utf-8", text_columns="words", id_column="key")
    assert (read.encoding, read.text_columns, read.id_column) == ("utf-8", "words", "key")
    assert (read.right_text_columns, read.right_id_column) == (None, None)
    assert source(right="other.csv", text_columns="words", right_text_columns="text").right_text_columns == "text"


def test_a_file_of_another_kind_is_not_read_by_the_format_of_the_task():
    read = source("new.parquet")
    assert (read.delimiter, read.encoding, read.text_columns) == (None, "utf-8", "title,brand")
    read.check()


def test_a_task_without_tables_of_texts_needs_columns():
    with pytest.raises(BadOption, match="so give the columns of the texts: `text_columns`"):
        table_source(MatchOptions(left=Path("new.csv")), {}, 64)


def test_several_files_are_read_by_the_format_of_the_task_if_all_are_of_its_kind():
    several = MatchOptions(left=(Path("may.csv"), Path("june.csv")))
    assert table_source(several, TASK, 64).left == several.left
    assert table_source(several, TASK, 64).delimiter == ";"
    assert table_source(several, TASK | {"left": ["a.csv", "b.csv"], "right": None}, 64).delimiter == ";"
    mixed = MatchOptions(left=(Path("may.csv"), Path("june.parquet")))
    assert table_source(mixed, TASK, 64).delimiter is None


def test_several_files_that_arrive_are_one_side(tmp_path):
    for name, rows in (("may", "a,one\n"), ("june", "b,two\n")):
        (tmp_path / f"{name}.csv").write_text(f"key,words\n{rows}")
    options = MatchOptions(left=(tmp_path / "may.csv", tmp_path / "june.csv"))
    arrived, _ = read_arrived(options, {"text_columns": "words", "id_column": "key"}, 64, symmetric=True)
    assert (arrived["left"].ids, arrived["left"].texts) == (("a", "b"), ("one", "two"))


def test_a_text_of_100_000_characters_is_read(tmp_path):
    (tmp_path / "new.csv").write_text(f"key,words\na,{'word ' * 20_000}\n")
    options = MatchOptions(left=tmp_path / "new.csv")
    arrived, _ = read_arrived(options, {"text_columns": "words", "id_column": "key"}, 64, symmetric=True)
    # Without the last space.
    assert len(arrived["left"].texts[0]) == 99_999
