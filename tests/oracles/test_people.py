"""People label in a spreadsheet or in Label Studio, save as their program will, and every answer is taken once."""

import csv
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from al_ray.core.errors import BadFile, LabelsAwaited
from al_ray.core.labels import NO, OPEN, UNSURE, YES, Batch
from al_ray.core.pairs import as_pairs
from al_ray.core.task import Corpus, Split, Task
from al_ray.oracles.answer_files import same_id
from al_ray.oracles.people import FileOracle
from al_ray.runs.ledger import Ledger

TEXTS = (
    "plain", 'a, comma, and "quotes"', "two\nlines\r\nand\ttab", "emoji 🦔 ünï", "שלום עולם", "=1+1", "+49 30", "-5",
    "@home", "\t=1", "semi;colon", "long " * 9000,
)  # fmt: skip
IDS = ("007", "with space", "ünï-🦔", "=1", "4006381333931", "a,b", '"q"', "-3", "Zoë", "y", "00", "z;z")
ROWS = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11)]


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    """A round with a batch of six pairs to ask about."""
    corpus = Corpus(IDS, TEXTS)
    bare = Task("hard", True, corpus, corpus, {}, "")
    rows, none = np.arange(len(IDS)), np.empty((0, 2), dtype=np.int64)
    train = Split("train", bare.space(rows, rows), none, none)
    book = Ledger(tmp_path / "run", Task("hard", True, corpus, corpus, {"train": train}, ""))
    book.add_batch(1, Batch(as_pairs(*zip(*ROWS, strict=True)), np.zeros(len(ROWS)), "near"))
    return book


def sold(book: Ledger, number: int = 1) -> str:
    """Sell as the loop does; the message while people are waited for."""
    batch = book.batch(number)
    assert batch is not None
    try:
        for piece in FileOracle(book).label(number, batch, np.flatnonzero(book.labels(number) == OPEN)):
            book.add_answers(number, piece)
    except LabelsAwaited as wait:
        return str(wait)
    return ""


def rows_of(book: Ledger, number: int = 1) -> list[list[str]]:
    text = (book.round(number) / "batch.csv").read_bytes().decode("utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline="")))


def lines(rows: list[list[str]], delimiter: str = ",", quoting: Any = csv.QUOTE_MINIMAL, end: str = "\r\n") -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(rows)
    return file.getvalue()


def filled(book: Ledger, words: Mapping[int, str] | str) -> list[list[str]]:
    """The rows of the sheet, the header first, with these answers; made first if it is not there."""
    if not (first_round(book) / "batch.csv").exists():
        sold(book)
    rows = rows_of(book)
    for row, word in dict(enumerate(words) if isinstance(words, str) else words).items():
        rows[row + 1][1] = {"y": "yes", "n": "no", "u": "unsure"}.get(word, word)
    return rows


def first_round(book: Ledger) -> Path:
    """Where its files are."""
    return Path(str(book.round(1)))


def fill(book: Ledger, words: Mapping[int, str] | str) -> None:
    (first_round(book) / "batch.csv").write_text(lines(filled(book, words)), encoding="utf-8", newline="")


def test_both_files_hold_what_is_to_be_seen(book: Ledger):
    sold(book)
    header, *rows = rows_of(book)
    assert header == ["pair", "label", "left_text", "right_text", "left_id", "right_id"]
    assert (first_round(book) / "batch.csv").read_bytes().startswith(b"\xef\xbb\xbfpair,"), "or Excel reads no UTF-8"
    tasks = json.loads((first_round(book) / "batch.json").read_text())
    for number, ((left, right), row, task) in enumerate(zip(ROWS, rows, tasks, strict=True), start=1):
        assert row[:2] == [f"r001-{number:05d}", ""]
        whole = [TEXTS[left], TEXTS[right], IDS[left], IDS[right]]
        assert list(task["data"].values()) == [row[0], *whole]
        for cell, text in zip(row[2:], whole, strict=True):
            guarded = "'" + text if text[0] in "=+-@\t" else text
            # A cell of a spreadsheet has an end; what is beyond it would stand in the next rows.
            assert (
                cell == guarded
                if len(text) < 16_000
                else (len(cell), cell[-6:], cell[:9]) == (16_000, " [...]", "long long")
            )
    assert "cosine" not in (first_round(book) / "batch.csv").read_text(encoding="utf-8")
    view = (first_round(book) / "label-studio.xml").read_text()
    assert all(part in view for part in ("$left_text", "$right_text", 'name="match"', '"unsure"'))


def test_people_are_told_how_many_wait_and_where(book: Ledger):
    message = sold(book)
    assert message.startswith("round 1: 6 of 6 pairs wait for an answer\n")
    assert all(str(first_round(book) / name) in message for name in ("batch.csv", "batch.json", "labelled.json"))
    fill(book, {0: "yes", 4: "unsure"})
    assert sold(book).startswith("round 1: 4 of 6 pairs wait")
    assert book.labels(1).tolist() == [YES, OPEN, OPEN, OPEN, UNSURE, OPEN]
    assert sold(book).startswith("round 1: 4 of 6 pairs wait")
    assert len(list(book.answers(1))) == 1, "the same answers are no news"
    fill(book, "ynnyuu")
    assert sold(book) == ""
    assert book.labels(1).tolist() == [YES, NO, NO, YES, UNSURE, UNSURE]
    assert [piece.rows.tolist() for piece in book.answers(1)] == [[0, 4], [1, 2, 3, 5]]
    book.seal(1)


def test_what_a_person_filled_in_is_never_written_over(book: Ledger):
    fill(book, {1: "no"})
    sold(book)
    for name in ("batch.csv", "batch.json", "label-studio.xml"):
        before = {path.name: path.read_bytes() for path in first_round(book).iterdir()}
        (first_round(book) / name).unlink()
        sold(book)
        after = {path.name: path.read_bytes() for path in first_round(book).iterdir()}
        assert set(after) == set(before), f"{name} is made again"
        assert all(after[other] == content for other, content in before.items() if other != name)
    assert book.labels(1)[1] == NO


def test_an_answer_changed_before_the_round_is_complete_is_one_more(book: Ledger):
    fill(book, {0: "yes", 1: "yes"})
    sold(book)
    # The first is changed; the second is cleared: what was said stays said.
    fill(book, {0: "no", 1: ""})
    assert sold(book).startswith("round 1: 4 of 6")
    assert book.labels(1)[:2].tolist() == [NO, YES]
    fill(book, "nynnnn")
    assert sold(book) == ""
    assert [piece.labels.tolist() for piece in book.answers(1)] == [[YES, YES], [NO], [NO] * 4]


def test_a_file_does_not_contradict_a_correction_over_and_over(book: Ledger):
    fill(book, {0: "yes"})
    sold(book)
    book.correct(np.array([ROWS[0]]), np.array([NO], dtype=np.uint8))
    sold(book)
    assert len(list(book.answers(1))) == 1
    assert book.labels(1)[0] == NO


def test_people_are_asked_of_a_pair_whose_reverse_was_corrected(tmp_path: Path, book: Ledger):
    # Both orders of one pair in a batch (--search.ordered_pairs); the first is answered, and corrected meanwhile.
    both = Ledger(tmp_path / "both", book.task)
    both.add_batch(1, Batch(as_pairs([0, 1], [1, 0]), np.zeros(2), "near"))
    fill(both, "y")
    assert "1 of 2 pairs" in sold(both)
    both.correct(as_pairs([0], [1]), np.array([NO], dtype=np.uint8))
    assert "1 of 2 pairs" in sold(both), "the other order has no answer yet"
    fill(both, "yy")
    assert sold(both) == ""
    both.seal(1)
    assert both.labels(1).tolist() == [NO, NO]
    assert [piece.rows.tolist() for piece in both.answers(1)] == [[0], [1]], "no answer twice"


def test_a_batch_of_nothing_asks_nobody(book: Ledger):
    book.add_batch(2, Batch(np.empty((0, 2), dtype=np.int64), np.empty(0), "near"))
    assert sold(book, 2) == ""


SPELLINGS = {
    YES: ["yes", "Yes", " YES ", "y", "1", "1.0", "TRUE", "t", "match", "\u00a0yes"],
    NO: ["no", "No ", "n", "0", "0.0", "False", "f", "non-match"],
    UNSURE: ["unsure", "UNSURE", "?", "skip"],
}


@pytest.mark.parametrize(("label", "word"), [(label, word) for label, words in SPELLINGS.items() for word in words])
def test_an_answer_in_any_spelling(book: Ledger, label: int, word: str):
    fill(book, {2: word})
    sold(book)
    assert book.labels(1)[2] == label


def excel(rows: list[list[str]], delimiter: str) -> str:
    """As spreadsheets write: an id that looks like a number is one, of 6 digits, and the guard may go."""
    changed = {"007": "7", "00": "0", "4006381333931": "4.00638E+12", "'-3": "-3", "'=1": "=1"}
    return lines([[*row[:4], *(changed.get(cell, cell) for cell in row[4:])] for row in rows], delimiter)


def by_header(rows: list[list[str]], change: Callable[[str], str]) -> list[list[str]]:
    return [[change(name) for name in rows[0]], *rows[1:]]


SAVED: dict[str, Callable[[list[list[str]]], bytes]] = {
    "as it was, without the mark": lambda rows: lines(rows).encode(),
    "German Excel": lambda rows: excel(rows, ";").replace("4.0", "4,0").encode("cp1252", errors="replace"),
    "Excel, CSV UTF-8": lambda rows: excel(rows, ",").encode("utf-8-sig"),
    "Excel, Unicode text": lambda rows: lines(rows, "\t").encode("utf-16"),
    "Excel, Cyrillic": lambda rows: lines(rows, ";").encode("cp1251", errors="replace"),
    "Excel on a Mac": lambda rows: excel(rows, ",").encode("mac_roman", errors="replace"),
    "LibreOffice, all quoted": lambda rows: lines(rows, ",", csv.QUOTE_ALL, "\n").encode(),
    "quoted, semicolons": lambda rows: lines(rows, ";", csv.QUOTE_ALL).encode(),
    "old Mac line ends": lambda rows: lines(rows, end="\r").encode(),
    "sorted otherwise": lambda rows: lines([rows[0], *sorted(rows[1:], key=lambda row: row[2])]).encode(),
    "columns of one's own": lambda rows: lines([["note", *row, "who"] for row in rows]).encode(),
    "columns in another order": lambda rows: lines([row[::-1] for row in rows]).encode(),
    "ids reduced to ASCII": lambda rows: lines(rows).encode("ascii", errors="replace"),
    "no texts, no ids": lambda rows: lines([row[:2] for row in rows]).encode(),
    "one column of ids": lambda rows: lines([row[:5] for row in rows]).encode(),
    "header in capitals": lambda rows: lines(by_header(rows, str.upper)).encode(),
    "header with blanks": lambda rows: lines(by_header(rows, lambda name: f" {name.title()} ")).encode(),
    "rows of nothing below": lambda rows: lines([*rows, [""] * 6, [""] * 6]).encode(),
    "blank lines": lambda rows: ("\n\n" + lines(rows).replace("\nr001-00002", "\n\nr001-00002") + "\n").encode(),
}  # fmt: skip


@pytest.mark.parametrize("how", SAVED)
def test_a_sheet_is_read_however_it_was_saved(book: Ledger, how: str):
    (first_round(book) / "batch.csv").write_bytes(SAVED[how](filled(book, "yynuny")))
    assert sold(book) == ""
    assert book.labels(1).tolist() == [YES, YES, NO, UNSURE, NO, YES]


@pytest.mark.parametrize(
    ("told", "asked", "same"),
    [
        ("7", "007", True), ("4.00638E+12", "4006381333931", True), ("4,00638E+12", "4006381333931", True),
        ("a b", "a  b ", True), ("'=1", "=1", True), ("=1", "=1", True), ("", "", True), ("1e5", "1E+05", True),
        ("7", "0071", False), ("4.00638E+12", "4006481333931", False), ("4006381333930", "4006381333931", False),
        ("7", "seven", False), ("", "7", False), ("1E99999999", "7", False), ("x", "X", False), ("1_0", "10", False),
    ],
)  # fmt: skip
def test_an_id_is_the_same_as_far_as_a_spreadsheet_may_change_it(told: str, asked: str, same: bool):
    assert same_id(told, asked) == same


def annotated(*words: str, **more: Any) -> dict[str, Any]:
    value = {"choices": list(words)}
    result = [{"from_name": "match", "to_name": "left", "type": "choices", "id": "x", "value": value}] if words else []
    return {"id": 1, "completed_by": 1, "was_cancelled": False, "lead_time": 2.5, "result": result, **more}


def export(book: Ledger, *tasks: dict[str, Any]) -> Path:
    """labelled.json: the tasks of batch.json, in their order, with what Label Studio adds."""
    sold(book)
    asked = json.loads((first_round(book) / "batch.json").read_text())
    content = [{"id": 100 + row, **asked[row], **task} for row, task in enumerate(tasks)]
    (first_round(book) / "labelled.json").write_text(json.dumps(content), encoding="utf-8")
    return first_round(book) / "labelled.json"


def test_label_studio_json(book: Ledger):
    comment = {"from_name": "comment", "type": "textarea", "value": {"text": ["well"]}}
    export(
        book,
        {"annotations": [annotated("yes")], "drafts": [], "predictions": [], "meta": {}},
        {"annotations": [annotated("no"), annotated("no", completed_by=2)]},
        {"annotations": [annotated("yes", was_cancelled=True), annotated("unsure")]},
        {"annotations": [annotated(), annotated(result=None), annotated(was_cancelled=True)]},
        {"annotations": [], "predictions": [annotated("yes")], "drafts": [annotated("no")]},
        {"annotations": [{**annotated("yes"), "result": [{"type": "relation"}, comment, *annotated("yes")["result"]]}]},
    )
    assert sold(book).startswith("round 1: 2 of 6")
    assert book.labels(1).tolist() == [YES, NO, UNSURE, OPEN, OPEN, YES]


def test_label_studio_json_min_has_a_record_for_each_annotation(book: Ledger):
    sold(book)
    asked = [task["data"] for task in json.loads((first_round(book) / "batch.json").read_text())]
    said: list[Any] = ["yes", {"choices": ["no"]}, ["unsure", "unsure"], {"choices": []}, "yes"]
    content = [{**data, "id": 7, "annotator": 1, "match": word} for data, word in zip(asked, said, strict=False)]
    content += [{**asked[0], "id": 7, "annotator": 2, "match": "Yes"}, {**asked[5], "id": 9, "annotator": 2}]
    (first_round(book) / "labelled.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8-sig")
    assert sold(book).startswith("round 1: 2 of 6")
    assert book.labels(1).tolist() == [YES, NO, UNSURE, OPEN, YES, OPEN]


def test_both_files_may_answer_and_must_agree(book: Ledger):
    export(book, {"annotations": [annotated("yes")]}, {"annotations": [annotated("no")]})
    fill(book, {0: "yes", 2: "no"})
    assert sold(book).startswith("round 1: 3 of 6")
    assert book.labels(1).tolist() == [YES, NO, NO, OPEN, OPEN, OPEN]
    fill(book, {0: "no"})
    place = r"labelled\.json: task 1 says yes to r001-00001, and .*batch\.csv:2 says no; settle it"
    with pytest.raises(BadFile, match=place):
        sold(book)
    assert book.labels(1)[0] == YES


OWN_NAME = "project-7-at-2026-11-22-10-15-1a2b3c4d.json"


@pytest.mark.parametrize("name", [OWN_NAME, "project-7 (1).JSON", "labelled.json"])
def test_an_export_is_read_under_any_name(book: Ledger, name: str):
    export(book, {"annotations": [annotated("yes")]}, {"annotations": [annotated("no")]})
    # Files that al_ray itself writes into the folder of a round are objects, and no exports.
    (first_round(book) / "record.json").write_text('{"labels": 2}')
    (first_round(book) / "labelled.json").rename(first_round(book) / name)
    assert sold(book).startswith("round 1: 4 of 6")
    assert book.labels(1).tolist() == [YES, NO, OPEN, OPEN, OPEN, OPEN]


def test_of_several_exports_none_is_taken_and_all_are_named(book: Ledger):
    path = export(book, {"annotations": [annotated("yes")]})
    (first_round(book) / OWN_NAME).write_bytes(path.read_bytes())
    with pytest.raises(BadFile, match=rf"has 2 exports of Label Studio \(labelled\.json, {OWN_NAME}\); keep the one"):
        sold(book)
    assert (book.labels(1) == OPEN).all()
    path.unlink()
    assert sold(book).startswith("round 1: 5 of 6")


def test_an_export_that_was_cut_off_is_not_passed_over(book: Ledger):
    path = export(book, {"annotations": [annotated("yes")]})
    path.rename(first_round(book) / OWN_NAME).write_bytes(path.with_name(OWN_NAME).read_bytes()[:50])
    with pytest.raises(BadFile, match=f"{OWN_NAME} cannot be read"):
        sold(book)


def test_a_table_that_is_not_read_is_named(book: Ledger):
    assert "not read" not in sold(book)
    for name in ("batch.xlsx", "project-7-at-2026-11-22.csv", ".batch.csv", "notes.txt"):
        (first_round(book) / name).write_bytes(b"PK")
    assert sold(book).endswith(
        "\n  not read: batch.xlsx, project-7-at-2026-11-22.csv; save the sheet as batch.csv, or export JSON"
    )
