"""What people filled in is taken whole or not at all; what is wrong is named with its line, and what to do about it."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from al_ray.core.errors import BadFile, LabelsAwaited
from al_ray.core.labels import OPEN, Batch
from al_ray.core.task import Task
from al_ray.oracles.people import FileOracle
from al_ray.runs.ledger import Ledger

HEADER = "pair,label,left_text,right_text,left_id,right_id"
# What jobs.run has not, and must not be told to give.
NOT_OURS = ("`encoding", "`delimiter", "`quoting", "`bad_rows", "`header", "`format", "another `out`")


@pytest.fixture
def book(tmp_path: Path, make_task: Callable[..., Task]) -> Ledger:
    """A first round of three pairs that waits for people."""
    task = make_task(False)
    book = Ledger(tmp_path, task)
    space = task.split("train").space
    book.add_batch(1, Batch(space.pairs(space.at(np.arange(3) * 31)), np.zeros(3), "near"))
    with pytest.raises(LabelsAwaited, match="3 of 3 pairs wait"):
        label(book)
    return book


def label(book: Ledger) -> None:
    batch = book.batch(1)
    assert batch is not None
    for piece in FileOracle(book).label(1, batch, np.flatnonzero(book.labels(1) == OPEN)):
        book.add_answers(1, piece)


def first_round(book: Ledger) -> Path:
    """Where its files are."""
    return Path(str(book.round(1)))


def refused(book: Ledger) -> str:
    """The message, when nothing was taken and no file touched."""
    before = {path: path.read_bytes() for path in first_round(book).rglob("*") if path.is_file()}
    with pytest.raises(BadFile) as error:
        label(book)
    assert {path: path.read_bytes() for path in first_round(book).rglob("*") if path.is_file()} == before
    message = str(error.value)
    assert message.endswith("(nothing was taken)")
    assert not [option for option in NOT_OURS if option in message]
    return message


def written(lines: list[str]) -> bytes:
    return "\n".join(lines).encode()


# Each changes the lines of batch.csv, the header first, of which the first answer is yes; then what must be said.
SHEETS: dict[str, tuple[Callable[[list[str]], bytes], str]] = {
    "another code": (
        lambda rows: written([*rows, "r001-00004,no,a,b,c,d"]),
        "batch.csv:5: 'r001-00004' is not a pair of this batch (r001-00001 to r001-00003); delete the row",
    ),
    "another round's code": (
        lambda rows: written([row.replace("r001", "r002") for row in rows]),
        "batch.csv:2: 'r002-00001' is not a pair of this batch (r001-00001 to r001-00003); delete the row",
    ),
    "no code": (
        lambda rows: written([*rows[:2], rows[2].removeprefix("r001-00002"), rows[3]]),
        "batch.csv:3: an empty cell is not a pair of this batch",
    ),
    "a row too few": (lambda rows: written(rows[:3]), "batch.csv lacks r001-00003; put the rows back"),
    "rows too few": (lambda rows: written(rows[:2]), "batch.csv lacks r001-00002 and 1 pairs more; put"),
    "a row twice": (
        lambda rows: written([*rows, rows[1]]),
        "batch.csv:5: r001-00001 is also in {0}:2; delete one of the rows",
    ),
    "a label nobody knows": (
        lambda rows: written([*rows[:3], rows[3].replace(",,", ",perhaps,", 1)]),
        "batch.csv:4: its label is 'perhaps', not yes, no or unsure; fix it",
    ),
    "a label of a page": (
        lambda rows: written([*rows[:3], rows[3].replace(",,", f",{'x' * 900},", 1)]),
        f"batch.csv:4: its label is '{'x' * 59}..., not yes",
    ),
    "codes sorted alone": (
        lambda rows: written([rows[0], rows[1], rows[2][:12] + rows[3][12:], rows[3][:12] + rows[2][12:]]),
        "batch.csv:3: r001-00002 has the left_id 't4' instead of 't2'; put each row together again",
    ),
    "an id changed": (
        lambda rows: written([row.replace(",t0,", ",zero,") for row in rows]),
        "batch.csv:2: r001-00001 has the left_id 'zero' instead of 't0'; put each row together again, or, if "
        "only a spreadsheet changed ids, delete both columns of ids",
    ),
    "an id gone": (
        lambda rows: written([row.replace(",t0,", ",,") for row in rows]),
        "batch.csv:2: r001-00001 has the left_id '' instead of 't0'",
    ),
    "a column too few": (
        lambda rows: written([*rows[:3], rows[3].rpartition(",")[0]]),
        "batch.csv:4: it has 5 columns, not 6 as the first row; fix the row",
    ),
    "a column too many": (
        lambda rows: written([rows[0], rows[1] + ",sure", *rows[2:]]),
        "batch.csv:2: it has 7 columns, not 6 as the first row; fix the row",
    ),
    "no column label": (
        lambda rows: written([row.replace("label", "answer") for row in rows]),
        "batch.csv:1 has no column 'label'; it has: 'pair', 'answer', 'left_text', 'right_text', 'left_id', "
        "'right_id'; fix it, or move it away and rerun the command that wrote it, which writes a new batch.csv",
    ),
    "no header": (lambda rows: written(rows[1:]), "batch.csv:1 has no column 'pair'; it has: 'r001-00001', 'yes'"),
    "a header alone": (lambda rows: written(rows[:1]), "batch.csv holds no row; is it the right file, and whole?"),
    "two columns label": (
        lambda rows: written([rows[0] + ",LABEL", *(row + ",no" for row in rows[1:])]),
        "batch.csv has two columns of one name (pair, label, left_text, right_text, left_id, right_id, LABEL); rename",
    ),
    "another delimiter": (
        lambda rows: written([row.replace(",", "|") for row in rows]),
        "batch.csv:1 has no column 'pair'; it has: 'pair|label|left_text|right_text|left_id|right_id'; fix it, or",
    ),
    "an open quote": (
        lambda rows: written([*rows[:2], rows[2].replace(",,", ',,"', 1), rows[3]]),
        "batch.csv:3: a quote opens in this row and is never closed; fix it (",
    ),
    "a wrong quote": (
        lambda rows: written([*rows[:2], rows[2].replace(",,", ',,"so" ', 1), rows[3]]),
        "batch.csv:3: its quotes are wrong (',' expected after '\"'); fix the row (",
    ),
    "nothing": (lambda rows: b"", "batch.csv is empty; give a table with rows; fix it, or move it away and"),
    "blank lines": (lambda rows: b"\n\n", "batch.csv holds no row"),
    "a workbook": (lambda rows: b"PK\x03\x04" + bytes(9), "is a spreadsheet or a zip, not CSV; save it as CSV (UTF-8)"),
    "an old workbook": (lambda rows: b"\xd0\xcf\x11\xe0" + bytes(500), "batch.csv:1 has no column 'pair'; it has: "),
    "Parquet": (lambda rows: b"PAR1" + bytes(99), "batch.csv is Parquet, not CSV; save it as CSV (UTF-8); fix"),
    "junk": (lambda rows: bytes(range(256)) * 999, "batch.csv:1 has no column 'pair'; it has: "),
    "one endless line": (lambda rows: b"x" * 400_000, "batch.csv:1 has no column 'pair'; it has: "),
    "half a letter": (
        lambda rows: written(rows).decode().encode("utf-16")[:-1],
        "batch.csv is not valid UTF-16 text; save it again, as CSV (UTF-8)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", SHEETS)
def test_a_sheet_is_refused_with_its_line(book: Ledger, fault: str):
    path = first_round(book) / "batch.csv"
    header, first, *rest = path.read_text(encoding="utf-8-sig").split("\n")[:4]
    change, message = SHEETS[fault]
    assert header == HEADER
    # As in a new process.
    csv.field_size_limit(131_072)
    path.write_bytes(change([header, first.replace(",,", ",yes,", 1), *rest]))
    assert message.replace("{0}", str(path)) in refused(book)


def test_a_folder_in_place_of_a_file_is_refused(book: Ledger):
    path = first_round(book) / "batch.csv"
    whole = path.read_bytes()
    path.unlink()
    path.mkdir()
    assert "batch.csv cannot be read (Is a directory); put it back" in refused(book)
    path.rmdir()
    path.write_bytes(whole)
    (first_round(book) / "labelled.json").mkdir()
    assert "labelled.json cannot be read" in refused(book)


def choice(*words: Any, **more: Any) -> dict[str, Any]:
    return {"result": [{"from_name": "match", "type": "choices", "value": {"choices": list(words)}}], **more}


Tasks = list[Any]
# Each changes the tasks of batch.json; then what must be said. The first task is answered, so that there is something.
EXPORTS: dict[str, tuple[Callable[[Tasks], Any], str]] = {
    "annotators at odds": (
        lambda tasks: [tasks[0], {**tasks[1], "annotations": [choice("yes"), choice("no")]}],
        "task 2: annotators answer no and yes to r001-00002; keep one answer in Label Studio",
    ),
    "records at odds": (
        lambda tasks: [tasks[0], {**tasks[2]["data"], "match": "no"}, {**tasks[2]["data"], "match": "unsure"}],
        "task 3 says unsure to r001-00003, and {0}: task 2 says no; settle it in one of them",
    ),
    "another word": (
        lambda tasks: [tasks[0], {**tasks[1], "annotations": [choice("Duplicate")]}],
        "task 2: its label is 'Duplicate', not yes, no or unsure; fix it",
    ),
    "a number": (lambda tasks: [{**tasks[0]["data"], "match": 5}], "task 1: its label is 5, not yes"),
    "another code": (
        lambda tasks: [tasks[0], {"data": {**tasks[1]["data"], "pair": "r002-00001"}, "annotations": []}],
        "task 2: 'r002-00001' is not a pair of this batch (r001-00001 to r001-00003); delete the row",
    ),
    "no code": (lambda tasks: [tasks[0], {"data": {"text": "x"}}], "task 2: an empty cell is not a pair of this batch"),
    "a code that is a list": (lambda tasks: [{"data": {"pair": [1]}}], "task 1: [1] is not a pair of this batch"),
    "another pair's ids": (
        lambda tasks: [tasks[0], {"data": {**tasks[1]["data"], "right_id": "t99"}, "annotations": [choice("yes")]}],
        "task 2: r001-00002 has the right_id 't99' instead of",
    ),
    "an id that is none": (
        lambda tasks: [{"data": {**tasks[1]["data"], "right_id": 0}}], "task 1: r001-00002 has the right_id '0'",
    ),
    "one task": (lambda tasks: tasks[0], "labelled.json is not a list of tasks; export it again as JSON or JSON-MIN"),
    "words": (lambda tasks: ["yes", "no"], "task 1 is not as Label Studio exports it"),
    "lists": (lambda tasks: [[tasks[0]]], "task 1 is not as Label Studio exports it"),
    "data that is text": (lambda tasks: [{"data": "x"}], "task 1 is not as Label Studio exports it"),
    "annotations by number": (
        lambda tasks: [tasks[0], {**tasks[1], "annotations": [17]}],
        "task 2 is not as Label Studio exports it (AttributeError(\"'int' object has no attribute 'get'\")); export",
    ),
    "no result": (lambda tasks: [{**tasks[0], "annotations": [{"id": 1}]}], "task 1 is not as Label Studio exports it"),
    "no choices": (
        lambda tasks: [{**tasks[0], "annotations": [{"result": [{"from_name": "match", "value": {"text": "x"}}]}]}],
        "task 1 is not as Label Studio exports it (KeyError('choices')); export it again",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", EXPORTS)
def test_an_export_is_refused_with_its_task(book: Ledger, fault: str):
    first, *rest = json.loads((first_round(book) / "batch.json").read_text())
    path = first_round(book) / "labelled.json"
    change, message = EXPORTS[fault]
    path.write_text(json.dumps(change([{**first, "annotations": [choice("yes")]}, *rest])))
    assert message.replace("{0}", str(path)) in refused(book)


@pytest.mark.parametrize(
    "content", [b"", b"[{", b"pair,label\n1,yes\n", b"\xff\xfe\x00", b"[" * 100_000, b"\x80\x81", b"PK\x03\x04"]
)
def test_what_is_no_json_is_refused(book: Ledger, content: bytes):
    (first_round(book) / "labelled.json").write_bytes(content)
    message = refused(book)
    assert "labelled.json cannot be read (" in message
    assert "export it again as JSON or JSON-MIN from Label Studio" in message


def test_a_good_sheet_is_not_taken_beside_a_bad_export(book: Ledger):
    path = first_round(book) / "batch.csv"
    path.write_text(path.read_text(encoding="utf-8-sig").replace(",,", ",yes,"), encoding="utf-8")
    (first_round(book) / "labelled.json").write_text("[{}]")
    assert "labelled.json: task 1: an empty cell is not a pair" in refused(book)
    (first_round(book) / "labelled.json").unlink()
    label(book)
    assert book.labels(1).tolist() == [1, 1, 1]
