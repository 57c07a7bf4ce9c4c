"""Ids and texts are read from their file by row group, when they are needed, and never others than at first."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from al_ray.core.errors import BadFile
from al_ray.core.task import Corpus, Task
from al_ray.datasets import corpus_file
from al_ray.datasets.corpus_file import (
    TEXTS,
    read_corpus,
    read_rows,
    stored_corpus,
    stored_texts,
    write_corpus,
    write_rows,
)
from al_ray.datasets.splitting import symmetric_task
from al_ray.datasets.strings import Strings
from al_ray.datasets.task_folder import PAIRS, read_task, read_texts, write_task
from al_ray.storage.bounded_parquet import BoundedParquet

WORDS = st.text(st.characters(codec="utf-8"), max_size=5)
ROWS, GROUP = 40, 4
CORPUS = Corpus(tuple(f"i{row}" for row in range(ROWS)), tuple(f"text {row}" for row in range(ROWS)))


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """Row groups of GROUP texts, of which two stay in memory."""
    monkeypatch.setattr(corpus_file, "AT_ONCE", GROUP)
    monkeypatch.setattr(corpus_file, "CACHED", 2 * GROUP)


@pytest.fixture
def reads(monkeypatch) -> list[tuple[int | str, ...]]:
    """The row groups and columns of ids and texts that are read from here on."""
    done, read = list[tuple[int | str, ...]](), BoundedParquet.read

    def noted(file: BoundedParquet, columns: list[str], number: int) -> pa.Table:
        if set(columns) <= set(TEXTS.names):
            done.append((number, *columns))
        return read(file, columns, number)

    monkeypatch.setattr(BoundedParquet, "read", noted)
    return done


def written(folder: Path) -> Task:
    """A task of CORPUS in `folder`, two texts in a cluster."""
    texts = np.arange(ROWS)
    task = symmetric_task("t", CORPUS, texts // 2, np.zeros((0, 2), dtype=np.int64), texts // 2 % 3)
    write_task(task, folder, {})
    return task


@given(st.lists(st.tuples(WORDS, WORDS), max_size=11), st.sampled_from([1, 4, 100]))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_corpus_comes_back_whatever_its_row_groups(tmp_path_factory, rows, group):
    ids, texts = (tuple(row[side] for row in rows) for side in (0, 1))
    path = tmp_path_factory.mktemp("any") / "left.parquet"
    write_corpus(Corpus(ids, texts), path)
    assert stored_corpus(path) == read_corpus(path) == Corpus(ids, texts)
    assert pq.ParquetFile(path).num_row_groups == -(-len(rows) // GROUP)
    # Of an earlier version, or of another program.
    pq.write_table(pa.table([list(ids), list(texts)], schema=TEXTS), path, row_group_size=group)
    assert stored_corpus(path) == read_corpus(path) == Corpus(ids, texts)


def test_a_task_reads_its_texts_for_the_digest_and_holds_two_row_groups(tmp_path, reads):
    written(tmp_path / "t")
    task = read_task(tmp_path / "t")
    assert set(reads) == {(number, name) for number in range(10) for name in ("id", "text")}
    # Lengths, then letters; the two groups read last are there when the next pass begins at the first.
    assert len(reads) == 40
    reads.clear()
    assert task.ids_of(np.array([[38, 1], [2, 39]])) == (["i38", "i2"], ["i1", "i39"])
    assert reads == [(0, "id")], "row group 9 was read last, and each is read once for both sides"
    reads.clear()
    assert task.texts_of(np.array([[38, 1], [2, 39]])) == (["text 38", "text 2"], ["text 1", "text 39"])
    assert reads == [(0, "text")]


def test_texts_of_some_rows_read_their_row_groups_alone(tmp_path, reads):
    written(tmp_path / "t")
    assert read_texts(tmp_path / "t", "left", np.array([30, 5, 31, 5])) == ["text 30", "text 5", "text 31", "text 5"]
    assert reads == [(1, "text"), (7, "text")]


def test_one_large_row_group_stays_in_memory(tmp_path, reads):
    path = tmp_path / "left.parquet"
    pq.write_table(pa.table([list(CORPUS.ids), list(CORPUS.texts)], schema=TEXTS), path)
    texts = stored_corpus(path).texts
    assert [texts[row] for row in (0, 39, 7)] == ["text 0", "text 39", "text 7"]
    assert reads == [(0, "text")]


def test_a_file_that_is_replaced_or_deleted_is_read_as_it_was(tmp_path):
    task = written(tmp_path / "t")
    texts, path = read_task(tmp_path / "t").left.texts, tmp_path / "t" / "left.parquet"
    write_corpus(Corpus(CORPUS.ids, tuple("other" for _ in CORPUS.ids)), tmp_path / "other")
    os.replace(tmp_path / "other", path)
    assert texts == task.left.texts
    path.unlink()
    assert texts == task.left.texts


def test_a_file_that_is_changed_in_place_is_refused(tmp_path):
    path = tmp_path / "left.parquet"

    def write(letter: str) -> None:
        # Uncompressed, so that other letters lie in the same places; longer than the buffer of an open file.
        columns = [list(CORPUS.ids), [letter * 9_999] * ROWS]
        pq.write_table(pa.table(columns, schema=TEXTS), path, GROUP, compression="none", use_dictionary=False)

    write("a")
    texts = stored_texts(path)
    assert texts.take(np.array([0, 39])) == ["a" * 9_999] * 2
    write("b")
    assert [text[0] for text in texts.take(np.array([0, 39]))] == ["a", "a"], "they are still in memory"
    assert texts[20][0] == "b", "never read before: nobody has seen another"
    with pytest.raises(BadFile, match=r"left\.parquet was changed while it was in use; .*al_ray\.prepare"):
        texts.take(np.array([0, 39]))
    path.write_bytes(b"")
    with pytest.raises(BadFile, match=r"left\.parquet cannot be read .*al_ray\.prepare"):
        list(texts)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"id": ["a", "b"]}, "has no column 'text' of type string"),
        ({"id": ["a", "b"], "text": [1, 2]}, "has no column 'text' of type string"),
        ({"id": ["a", "b"], "text": ["x", None]}, "has empty cells in column 'text'"),
        ({"id": ["a", "b"], "text": pa.array([b"x", b"\xff"]).view(pa.string())}, "cannot be read"),
    ],
)
def test_a_damaged_file_is_named_with_its_fix(tmp_path, table, words):
    written(tmp_path / "t")
    pq.write_table(pa.table(table), tmp_path / "t" / "left.parquet")
    with pytest.raises(BadFile, match=rf"left\.parquet {words}.*make the task again with `al_ray\.prepare`"):
        read_task(tmp_path / "t")


@given(st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)), max_size=9), st.integers(1, 4))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_come_back_whatever_their_row_groups(tmp_path_factory, pairs, group):
    path, rows = tmp_path_factory.mktemp("rows") / "pairs.parquet", np.array(pairs, dtype=np.int64).reshape(-1, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_file, "ROWS_IN_GROUP", group)
        write_rows(path, PAIRS, rows)
    file = pq.ParquetFile(path)
    # A table without rows has one row group.
    assert file.num_row_groups == max(1, -(-len(rows) // group))
    assert file.read().to_pylist() == [{"left": left, "right": right} for left, right in pairs]
    assert read_rows(path, PAIRS).tolist() == rows.tolist()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"left": [1, 2]}, "has no column 'right' of type int64"),
        ({"left": [1, 2], "right": ["a", "b"]}, "has no column 'right' of type int64"),
        ({"left": [1, 2], "right": [1, None]}, "has empty cells in column 'right'"),
    ],
)
def test_damaged_pairs_are_named_with_their_fix(tmp_path, table, words):
    written(tmp_path / "t")
    path = tmp_path / "t" / "dev" / "positives.parquet"
    pq.write_table(pa.table(table), path)
    with pytest.raises(BadFile, match=rf"positives\.parquet {words}.*make the task again with `al_ray\.prepare`"):
        read_task(tmp_path / "t")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BadFile, match=r"positives\.parquet cannot be read .*al_ray\.prepare"):
        read_task(tmp_path / "t")


def test_a_task_does_not_hold_python_strings(tmp_path):
    written(tmp_path / "t")
    for corpus in (read_task(tmp_path / "t").left, read_corpus(tmp_path / "t" / "left.parquet")):
        assert isinstance(corpus.ids, Strings)
        assert isinstance(corpus.texts, Strings)
