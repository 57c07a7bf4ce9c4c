"""A task folder gives back what was written, and says so when it cannot."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from al_ray.core.errors import BadFile, WrongFolder
from al_ray.core.pairs import PairSpace, as_pairs
from al_ray.core.task import SPLITS, Corpus, Fields, FieldType, Split, Task
from al_ray.datasets.splitting import symmetric_task
from al_ray.datasets.task_folder import counts, read_about, read_task, read_texts, sealed, write_task

WORDS = st.text(st.characters(codec="utf-8"), max_size=5)


def two_sided(left: tuple[str, ...] = ("a", "b", "c"), right: tuple[str, ...] = ("x", "y")) -> Task:
    """Questions 0 and 1 in train, 2 in dev, none in test; every right text in all."""
    every = np.arange(len(right))
    splits = {}
    for name, rows in (("train", [0, 1]), ("dev", [2]), ("test", [])):
        space = PairSpace(np.array(rows, dtype=np.int64), every, width=len(right), symmetric=False)
        pairs = as_pairs(rows, [0] * len(rows))
        splits[name] = Split(name, space, pairs[:1], pairs[1:])
    return sealed("two", False, corpus("l", left), corpus("r", right), splits)


def corpus(side: str, texts: tuple[str, ...]) -> Corpus:
    return Corpus(tuple(f"{side}{row}" for row in range(len(texts))), texts)


def one_sided(texts: tuple[str, ...] = ("a", "b", "c", "d", "e")) -> Task:
    """Clusters {0, 1, 3} in train, {2} and {4} in dev."""
    component, split_of = np.array([0, 0, 1, 0, 2]), np.array([0, 0, 1, 0, 1])
    return symmetric_task("one", corpus("t", texts), component, as_pairs([4], [2]), split_of)


def same(one: Task, other: Task) -> bool:
    """Whether two tasks hold the same values, field by field."""
    whole = (one.name, one.symmetric, one.left, one.right, one.digest, list(one.splits))
    if whole != (other.name, other.symmetric, other.left, other.right, other.digest, list(other.splits)):
        return False
    for name, a in one.splits.items():
        b = other.splits[name]
        arrays = [(s.space.left, s.space.right, s.positives, s.stated_negatives) for s in (a, b)]
        if (a.name, a.space.width, a.space.symmetric) != (b.name, b.space.width, b.space.symmetric):
            return False
        if not all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in zip(*arrays, strict=True)):
            return False
    return True


@pytest.mark.parametrize("task", [two_sided(), one_sided()], ids=["two-sided", "symmetric"])
def test_a_task_comes_back_as_it_was_written(tmp_path, task):
    assert write_task(task, tmp_path / "deep" / "task", {"command": "test"})
    assert same(read_task(tmp_path / "deep" / "task"), task)
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["task"], "the folder written aside is gone"


@given(st.lists(WORDS, min_size=3, max_size=3), st.lists(WORDS, min_size=1, max_size=4))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_comes_back(tmp_path_factory, left, right):
    task = two_sided(tuple(left), tuple(right))
    folder = tmp_path_factory.mktemp("any") / "task"
    write_task(task, folder, {})
    assert same(read_task(folder), task)


def test_a_symmetric_task_has_one_corpus_and_one_side_of_rows(tmp_path):
    write_task(one_sided(), tmp_path / "t", {})
    task = read_task(tmp_path / "t")
    assert task.left is task.right
    assert not list((tmp_path / "t").rglob("right.parquet"))


def test_task_json_holds_the_counts_of_the_contract(tmp_path):
    write_task(one_sided(), tmp_path / "t", {"command": "test", "seed": 3})
    about = json.loads((tmp_path / "t" / "task.json").read_text())
    # train: texts 0 1 3, all one cluster: 3 pairs, 3 positives. dev: texts 2 4, no match: the one stated negative.
    assert about["splits"] == {
        "train": {"left": 3, "right": 3, "pairs": 3, "positives": 3, "stated_negatives": 0},
        "dev": {"left": 2, "right": 2, "pairs": 1, "positives": 0, "stated_negatives": 1},
        "test": {"left": 0, "right": 0, "pairs": 0, "positives": 0, "stated_negatives": 0},
    }
    assert about["provenance"] == {"command": "test", "seed": 3}
    assert about["splits"] == {name: counts(split) for name, split in one_sided().splits.items()}
    assert tuple(about["splits"]) == SPLITS


def test_columns_are_those_of_the_contract(tmp_path):
    write_task(two_sided(), tmp_path / "t", {})
    assert pq.read_schema(tmp_path / "t" / "left.parquet").names == ["id", "text"]
    assert pq.read_schema(tmp_path / "t" / "train" / "right.parquet").names == ["row"]
    assert pq.read_schema(tmp_path / "t" / "dev" / "positives.parquet").names == ["left", "right"]


def test_texts_of_a_side_are_read_alone(tmp_path):
    write_task(two_sided(), tmp_path / "two", {})
    write_task(one_sided(), tmp_path / "one", {})
    assert read_texts(tmp_path / "two", "left") == ["a", "b", "c"]
    assert read_texts(tmp_path / "two", "right") == ["x", "y"]
    assert read_texts(tmp_path / "one", "right") == ["a", "b", "c", "d", "e"]


def test_the_digest_tells_lists_apart_that_join_alike():
    assert two_sided(left=("ab", "c", "d")).digest != two_sided(left=("a", "bc", "d")).digest


def test_the_digest_holds_every_part():
    task = one_sided()
    train = task.splits["train"]
    renamed = Corpus(("v", "w", "x", "y", "z"), task.left.texts)
    relabelled = Split("train", train.space, train.positives[1:], train.positives[:1])
    others = [
        sealed("one", False, task.left, task.right, task.splits),
        sealed("one", True, renamed, renamed, task.splits),
        sealed("one", True, task.left, task.right, {}),
        sealed("one", True, task.left, task.right, {"train": task.splits["dev"], "dev": train}),
        sealed("one", True, task.left, task.right, {**task.splits, "train": relabelled}),
    ]
    assert len({task.digest, *(other.digest for other in others)}) == 1 + len(others)


def test_writing_the_same_task_again_changes_nothing(tmp_path):
    folder = tmp_path / "t"
    assert write_task(one_sided(), folder, {"seed": 0})
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert not write_task(one_sided(), folder, {"seed": 0})
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_another_task_or_something_else_in_the_folder_is_refused(tmp_path):
    write_task(one_sided(), tmp_path / "t", {})
    with pytest.raises(WrongFolder, match=r"holds another task \('one'.*choose another `out`"):
        write_task(two_sided(), tmp_path / "t", {})
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    with pytest.raises(WrongFolder, match=r"holds something else; choose another `out`"):
        write_task(two_sided(), tmp_path / "notes", {})
    assert (tmp_path / "notes" / "mine.txt").read_text() == "mine"


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "t").mkdir()
    assert write_task(one_sided(), tmp_path / "t", {})
    assert same(read_task(tmp_path / "t"), one_sided())


def test_a_failed_writing_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("al_ray.datasets.task_folder.json.dumps", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_task(one_sided(), tmp_path / "t", {})
    assert not list(tmp_path.iterdir())


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.datasets.test_task_folder import one_sided, write_task
os.rename = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
write_task(one_sided(), Path(sys.argv[1]), {})
"""


def test_what_a_killed_process_left_is_gone_when_the_task_is_written_again(tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path / "task")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 1
    assert write_task(one_sided(), tmp_path / "task", {})
    assert os.listdir(tmp_path) == ["task"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WrongFolder, match=r"cannot be written.*choose another `out`"):
        write_task(one_sided(), tmp_path / "file" / "t", {})


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def edited(path: Path) -> None:
    pq.write_table(pa.table({"left": [0, 1], "right": [3, 3]}), path)


def other_columns(path: Path) -> None:
    pq.write_table(pa.table({"left": [0.5], "right": [1]}), path)


def with_nulls(path: Path) -> None:
    pq.write_table(pa.table({"left": [0, None], "right": [1, 2]}), path)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (truncated, "positives.parquet cannot be read"),
        (edited, "its tables do not match the digest in task.json"),
        (other_columns, "positives.parquet has no column 'left' of type int64"),
        (with_nulls, "positives.parquet has empty cells in column 'left'"),
        (Path.unlink, "positives.parquet is missing"),
    ],
)
def test_a_damaged_table_is_named_with_its_fix(tmp_path, damage, said):
    write_task(one_sided(), tmp_path / "t", {})
    damage(tmp_path / "t" / "train" / "positives.parquet")
    with pytest.raises(BadFile, match=f"(?s){said}.*make the task again with `al_ray.prepare`"):
        read_task(tmp_path / "t")


def test_a_damaged_task_json_is_named(tmp_path):
    write_task(one_sided(), tmp_path / "t", {})
    path = tmp_path / "t" / "task.json"
    about = json.loads(path.read_text())
    for text, said in (
        ("{", "cannot be read"),
        ("{}", "lacks digest, format, name"),
        (json.dumps({**about, "format": 9}), "format 9"),
    ):
        path.write_text(text)
        with pytest.raises(BadFile, match=rf"task\.json .*{said}|{said}"):
            read_about(tmp_path / "t")


def test_a_folder_that_is_no_task_is_named_with_its_fix(tmp_path):
    with pytest.raises(WrongFolder, match=r"holds no task.json; make a task folder with: `al-ray prepare"):
        read_task(tmp_path)


def with_fields(*names: str) -> Task:
    """Left texts "a b", "c" and "d", of two columns; the second column of "c" and the first of "d" are empty."""
    task = two_sided(left=("a b", "c", "d"))
    fields = Fields(names, np.array([[1, 1], [1, 0], [0, 1]]))
    return replace(task, left=replace(task.left, fields=fields))


def test_fields_come_back_and_are_no_part_of_the_digest(tmp_path):
    assert with_fields("title", "brand").digest == two_sided(left=("a b", "c", "d")).digest
    write_task(with_fields("title", "brand"), tmp_path / "t", {})
    task = read_task(tmp_path / "t")
    assert task.left.fields is not None
    assert task.left.fields.names == ("title", "brand")
    assert task.left.cells(np.arange(3)) == [["a", "b"], ["c", ""], ["", "d"]]
    assert (task.right.fields, task.right.cells(np.array([0]))) == (None, [["x"]])
    assert [path.name for path in (tmp_path / "t").glob("*-fields*")] == ["left-fields.parquet"]


def types_in(folder: Path) -> tuple[FieldType, ...]:
    fields = read_task(folder).left.fields
    assert fields is not None
    return fields.types


def test_types_of_fields_come_back_and_are_no_part_of_the_digest(tmp_path):
    bare = with_fields("title", "brand")
    fields = bare.left.fields
    assert fields is not None
    typed = replace(bare, left=replace(bare.left, fields=replace(fields, types=("text", "name"))))
    write_task(typed, tmp_path / "t", {})
    assert types_in(tmp_path / "t") == ("text", "name")
    other = replace(bare, left=replace(bare.left, fields=replace(fields, types=("text", "code"))))
    assert not write_task(other, tmp_path / "t", {})
    assert types_in(tmp_path / "t") == ("text", "code")
    # An earlier version wrote none.
    write_task(bare, tmp_path / "old", {})
    assert types_in(tmp_path / "old") == ()


@pytest.mark.parametrize("types", [{"title": b"text"}, {"title": b"text", "brand": b"money"}, {"brand": b"\xff"}])
def test_a_type_that_does_not_exist_is_bad(tmp_path, types):
    write_task(with_fields("title", "brand"), tmp_path / "t", {})
    path = tmp_path / "t" / "left-fields.parquet"
    table = pq.read_table(path)
    columns = [field.with_metadata({b"type": types.get(field.name, b"")}) for field in table.schema]
    pq.write_table(table.cast(pa.schema(columns)), path)
    with pytest.raises(BadFile, match=r"left-fields.parquet: the type of '\w+' is .*, which does not exist; move"):
        read_task(tmp_path / "t")


def test_a_folder_of_an_earlier_version_gets_the_fields_and_keeps_all_else(tmp_path):
    write_task(two_sided(left=("a b", "c", "d")), tmp_path / "t", {"seed": 0})
    before = {path: path.read_bytes() for path in (tmp_path / "t").rglob("*.*")}
    assert not write_task(with_fields("title", "brand"), tmp_path / "t", {"seed": 0})
    assert read_task(tmp_path / "t").left.cells(np.array([0])) == [["a", "b"]]
    assert not write_task(with_fields("name", "brand"), tmp_path / "t", {"seed": 0})
    assert not write_task(two_sided(left=("a b", "c", "d")), tmp_path / "t", {"seed": 0})
    fields = read_task(tmp_path / "t").left.fields
    assert fields is not None
    assert fields.names == ("name", "brand")
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    "columns",
    [
        *({"title": [1, 1, 1]}, {"title": [3, 1]}, {"a": [-1, 1, 1]}, {"a": ["x", "y", "z"]}, {"a": [3, 1, None]}),
        # Found by fuzzing: nulls of a dictionary without words.
        {"a": pa.nulls(3, pa.string()).dictionary_encode()},
    ],
)
def test_fields_that_do_not_fit_the_texts_are_refused(tmp_path, columns):
    write_task(two_sided(left=("a b", "c", "d")), tmp_path / "t", {})
    pq.write_table(pa.table(columns), tmp_path / "t" / "left-fields.parquet")
    with pytest.raises(BadFile, match=r"left-fields\.parquet .*make the task again"):
        read_task(tmp_path / "t")


@pytest.mark.parametrize(
    ("about", "stated"),
    [
        ({}, "complete"),
        ({"provenance": {"command": "prepare wikiqa"}}, "complete"),
        ({"provenance": {"command": "prepare pairs"}}, "partial"),
        ({"provenance": {"command": "prepare logs"}}, "partial"),
        ({"provenance": {"command": "prepare pairs"}, "labels_are": "complete"}, "complete"),
    ],
)
def test_a_task_from_before_labels_were_stated_has_those_of_its_source(tmp_path, about, stated):
    write_task(one_sided(), tmp_path / "t", {})
    path = tmp_path / "t" / "task.json"
    content = json.loads(path.read_text())
    del content["labels_are"]
    path.write_text(json.dumps({**content, **about}))
    assert read_task(tmp_path / "t").labels_are == stated


def test_the_same_task_with_other_labels_or_options_changes_these_words_alone(tmp_path):
    task = one_sided()
    write_task(replace(task, labels_are="partial"), tmp_path / "t", {"command": "test"})
    before = {path: path.read_bytes() for path in (tmp_path / "t").rglob("*") if path.is_file()}
    assert read_task(tmp_path / "t").labels_are == "partial"
    assert not write_task(task, tmp_path / "t", {"command": "another"})
    assert read_task(tmp_path / "t").labels_are == "complete"
    path = tmp_path / "t" / "task.json"
    changed = before.pop(path).replace(b'"labels_are": "partial"', b'"labels_are": "complete"')
    assert path.read_bytes() == changed.replace(b'"command": "test"', b'"command": "another"')
    assert all(path.read_bytes() == content for path, content in before.items())
    # The same once more writes nothing: others may be reading.
    stamp = path.stat()
    assert not write_task(task, tmp_path / "t", {"command": "another"})
    assert path.stat() == stamp


def test_other_words_for_labels_are_refused(tmp_path):
    write_task(one_sided(), tmp_path / "t", {})
    path = tmp_path / "t" / "task.json"
    path.write_text(path.read_text().replace('"complete"', '"most"'))
    with pytest.raises(BadFile, match="labels_are is 'most', not complete or partial"):
        read_task(tmp_path / "t")
