"""Read answers of people: CSV sheets as spreadsheets save them, exports of Label Studio, logs of jobs.annotate.

Either all answers are read or none: a row that cannot be read, or is not of the batch, raises BadFile with its line.
"""

import csv
import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np

from al_ray.core.errors import BadFile
from al_ray.core.labels import OPEN, UNSURE, WORDS
from al_ray.core.pairs import Pairs
from al_ray.core.scorer import Labels
from al_ray.core.task import Task
from al_ray.datasets.tables import pair_labels as stated
from al_ray.datasets.tables.columns import TableRows
from al_ray.datasets.tables.reader import TableFormat, read_table
from al_ray.datasets.tsv import BadRowLog
from al_ray.oracles.page_log import log_path, read_page_answers
from al_ray.storage.formulas import FORMULA

BATCH, EXPORT = "batch", "labelled.json"
COLUMNS = ("pair", "label", "left_text", "right_text", "left_id", "right_id")
IDS = COLUMNS[4:]
CHOICE = "match"
TABLES = (".csv", ".tsv", ".xlsx", ".xls", ".ods", ".zip")
MEANINGS = {**stated.MEANINGS, "?": UNSURE, "skip": UNSURE}
# A spreadsheet cell holds 32,767 UTF-16 units; longer text overflows into the next rows.
CELL, CUT = 16_000, " [...]"
NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?(E[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)


def escape_cell(text: str) -> str:
    """Return the text as a cell that is not a formula, and is short enough for a spreadsheet."""
    cell = "'" + text if text.startswith(FORMULA) else text
    return cell if len(cell) <= CELL else cell[: CELL - len(CUT)] + CUT


def collapse_spaces(text: str) -> str:
    """Collapse runs of white space to one space and strip the ends: spreadsheets change white space."""
    return " ".join(text.split())


def same_id(cell: str, id_: str) -> bool:
    """Return whether a spreadsheet may have turned an id into this cell: 7 for 007, 4.00638E+12 for 4006381333931."""
    if collapse_spaces(cell) in (collapse_spaces(id_), collapse_spaces(escape_cell(id_))):
        return True
    if not NUMBER.fullmatch(cell) or not NUMBER.fullmatch(id_):
        return False
    one, other = (Decimal(number.replace(",", ".")) for number in (cell, id_))
    # Scientific notation shows about six digits.
    return abs(one - other) <= (abs(other) / 100_000 if "e" in cell.lower() else 0)


@dataclass(frozen=True)
class SheetRows:
    """The pairs of a batch: code -> row, and (n,) the ids of both texts of each row."""

    rows: dict[str, int]
    ids: list[tuple[str, str]]

    def row(self, place: str, code: Any, cells: Mapping[str, Any], non_ascii: bool = True) -> int:
        """Return the row of a code; BadFile if it is not of the batch, or if the ids beside it are not its own.

        cells: column -> id, for the id columns that the file has; non_ascii: whether letters beyond ASCII were decoded.
        """
        if not isinstance(code, str) or code not in self.rows:
            first, last = next(iter(self.rows)), next(reversed(self.rows))
            raise BadFile(f"{place}: {_shown(code)} is not a pair of this batch ({first} to {last}); delete the row")
        for name, id_ in zip(IDS, self.ids[self.rows[code]], strict=True):
            cell = str(cells[name]) if cells.get(name) is not None else ""
            # Programs write a question mark for a letter that their encoding lacks.
            legible = id_.isascii() or (non_ascii and "?" not in cell)
            if name in cells and legible and not same_id(cell, id_):
                raise BadFile(
                    f"{place}: {code} has the {name} {_shown(cell)} instead of {_shown(id_)}; put each row together "
                    "again, or, if only a spreadsheet changed ids, delete both columns of ids"
                )
        return self.rows[code]


AnswerRows = list[tuple[int, int, str]]


def read_answers(folder: Path, codes: list[str], pairs: Pairs, task: Task, *, page: bool = True) -> Labels:
    """Read the labels (n,) of (n, 2) pairs from the files of a round; see `answer_paths` and `read_answer_files`."""
    ids = list(zip(*task.ids_of(pairs), strict=True))
    return read_answer_files(answer_paths(folder, BATCH, page=page), codes, ids)


def answer_paths(folder: Path, stem: str, *, page: bool = True) -> list[Path]:
    """Return the sheet stem.csv of a folder, the export of Label Studio, and, if page, the log of jobs.annotate.

    The last two only if the folder has them. BadFile for several exports.

    An export has any name in .json: Label Studio's own is such as project-7-at-2026-11-22-10-15-1a2b3c4d.json.
    """
    others = [path for path in folder.iterdir() if path.suffix.lower() == ".json" and path.name != f"{stem}.json"]
    exports = sorted(path for path in others if path.name == EXPORT or _may_be_export(path))
    if len(exports) > 1:
        names = ", ".join(path.name for path in exports)
        raise BadFile(
            f"{folder} has {len(exports)} exports of Label Studio ({names}); keep the one that counts, and move the "
            "others out of the folder (nothing was taken)"
        )
    log = log_path(folder, stem)
    return [folder / f"{stem}.csv", *exports, *([log] if page and log.exists() else [])]


def unread_tables(folder: Path, stem: str) -> list[str]:
    """Return the names of other tables in a folder, which may hold answers in a format that is not read."""
    names = (path.name for path in folder.iterdir() if path.suffix.lower() in TABLES)
    return sorted(name for name in names if name != f"{stem}.csv" and not name.startswith("."))


def _may_be_export(path: Path) -> bool:
    """Return whether a JSON file is no object: an export is a list, and al_ray's own files are objects."""
    try:
        with path.open("rb") as file:
            return not path.name.startswith(".") and not file.read(99).removeprefix(BOM_UTF8).lstrip().startswith(b"{")
    except IsADirectoryError:
        return False
    except OSError:
        # `read_answer_files` says why it cannot be read.
        return True


def read_answer_files(files: Sequence[Path], codes: list[str], ids: list[tuple[str, str]]) -> Labels:
    """Read the labels (n,) of n pairs from sheets, exports (.json) and logs (.log); OPEN for pairs without an answer.

    BadFile names the line that cannot be read, or two answers to one pair that differ; then no label is returned.
    """
    batch = SheetRows({code: row for row, code in enumerate(codes)}, ids)
    labels, places = np.full(len(codes), OPEN, dtype=np.uint8), dict[int, str]()
    try:
        rows = [one for path in files for one in _read(path, batch)]
        for row, label, place in rows:
            if row in places and labels[row] != label:
                words = f"{WORDS[label]} to {codes[row]}, and {places[row]} says {WORDS[int(labels[row])]}"
                raise BadFile(f"{place} says {words}; settle it in one of them")
            labels[row], places[row] = label, place
    except BadFile as error:
        raise BadFile(f"{error} (nothing was taken)") from error
    return labels


def _read(path: Path, batch: SheetRows) -> AnswerRows:
    readers = {".json": _of_export, ".log": _of_page}
    return readers.get(path.suffix.lower(), _of_sheet)(path, batch)


def _of_page(path: Path, batch: SheetRows) -> AnswerRows:
    """Return (row, label, place) of each pair that enough people have answered on the page."""
    page = read_page_answers(path)
    labels = {code: OPEN if page.waits(code) else page.label(code) for code in sorted(page.touched)}
    return [
        (batch.row(str(path), code, {}), label, f"{path}, by {page.labellers(code)},")
        for code, label in labels.items()
        if label != OPEN
    ]


def _of_sheet(path: Path, batch: SheetRows) -> AnswerRows:
    """Return (row, label, place) of each row that is filled in; every pair of the batch must be in the sheet once."""
    sheet, non_ascii = _sheet(path)
    cells = {name: column.to_pylist() for name, column in sheet.cells.items()}
    seen, answers = dict[str, str](), AnswerRows()
    for line in range(len(sheet)):
        row_cells = {name: column[line] for name, column in cells.items()}
        place, code, word = sheet.place(line), row_cells["pair"], row_cells["label"]
        if not any(row_cells.values()):
            # Spreadsheets save empty rows below a table.
            continue
        row = batch.row(place, code, row_cells, non_ascii)
        if code in seen:
            raise BadFile(f"{place}: {code} is also in {seen[code]}; delete one of the rows")
        seen[code] = place
        if word is not None:
            answers.append((row, _meaning(place, word), place))
    missing = [code for code in batch.rows if code not in seen]
    if missing:
        more = f" and {len(missing) - 1:,} pairs more" if missing[1:] else ""
        raise BadFile(f"{path} lacks {missing[0]}{more}; put the rows back, their label may be empty")
    return answers


def _sheet(path: Path) -> tuple[TableRows, bool]:
    """Read pair, label and ids of a sheet with any delimiter and encoding; texts are not read back.

    Also return whether letters beyond ASCII were decoded: the encoding may be one that only the spreadsheet knows.
    """
    text, encoding = _decoded(path)
    first = next((line for line in text.splitlines() if line), "")[:10_000]
    headers = {mark: [name.strip() for name in next(csv.reader([first], delimiter=mark), [])] for mark in ",;\t"}
    known = {mark: [name for name in header if name.lower() in COLUMNS] for mark, header in headers.items()}
    delimiter = max(known, key=lambda mark: len(known[mark]))
    names = {name.lower(): name for name in known[delimiter]}
    if len(names) < len(known[delimiter]):
        raise BadFile(f"{path} has two columns of one name ({', '.join(known[delimiter])}); rename or delete one")
    reading = TableFormat("csv", delimiter, encoding=encoding, fixed=True)
    columns = {name: names.get(name, name) for name in ("pair", "label")}
    columns |= {name: names[name] for name in IDS if name in names}
    try:
        sheet = read_table(path, list(columns.values()), reading, BadRowLog("fail"))
    except BadFile as error:
        if {"pair", "label"} <= set(names):
            raise
        fix = f"fix it, or move it away and rerun the command that wrote it, which writes a new {path.name}"
        raise BadFile(f"{error}; {fix}") from error
    return sheet.with_cells(**{name: sheet.cells[column] for name, column in columns.items()}), encoding != "latin-1"


def _decoded(path: Path) -> tuple[str, str]:
    """Return a sheet's text and encoding; unknown ones are read as latin-1, in which codes and answers are the same."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadFile(f"{path} cannot be read ({error.strerror}); put it back") from error
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        return (content.decode("utf-16"), "utf-16") if wide else (content.decode("utf-8-sig"), "utf-8")
    except UnicodeError as error:
        if wide:
            raise BadFile(f"{path} is not valid UTF-16 text; save it again, as CSV (UTF-8)") from error
    return content.decode("latin-1"), "latin-1"


def _of_export(path: Path, batch: SheetRows) -> AnswerRows:
    """Return (row, label, place) of each answer: JSON has a task for each pair, JSON-MIN one for each annotation."""
    fix = "export it again as JSON or JSON-MIN from Label Studio"
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise BadFile(f"{path} cannot be read ({error}); {fix}") from error
    if not isinstance(content, list):
        raise BadFile(f"{path} is not a list of tasks; {fix}")
    answers = AnswerRows()
    for index, task in enumerate(cast(list[Any], content), start=1):
        place = f"{path}: task {index}"
        try:
            fields = cast(Mapping[str, Any], task.get("data", task))
            code, ids = fields.get("pair"), {name: fields[name] for name in IDS if name in fields}
            words = list(_chosen(task))
        except (AttributeError, KeyError, TypeError, RecursionError) as error:
            raise BadFile(f"{place} is not as Label Studio exports it ({error!r}); {fix}") from error
        row, meanings = batch.row(place, code, ids), sorted({_meaning(place, word) for word in words})
        if len(meanings) > 1:
            words = " and ".join(WORDS[meaning] for meaning in meanings)
            raise BadFile(f"{place}: annotators answer {words} to {code}; keep one answer in Label Studio")
        answers += [(row, meaning, place) for meaning in meanings]
    return answers


def _chosen(task: dict[str, Any]) -> Iterator[Any]:
    """Yield what annotators chose; skipped tasks, drafts and predictions are not answers."""
    if "annotations" not in task:
        yield from _words(task.get(CHOICE))
        return
    for annotation in task["annotations"]:
        if not annotation.get("was_cancelled"):
            for result in annotation["result"] or ():
                if result.get("from_name") == CHOICE:
                    yield from _words(result["value"])


def _words(chosen: Any) -> Iterator[Any]:
    """Yield the words of a choice: JSON-MIN writes one word as it is, several as {"choices": words} or as a list."""
    if isinstance(chosen, dict):
        yield from _words(chosen["choices"])
    elif isinstance(chosen, list):
        for one in cast(list[Any], chosen):
            yield from _words(one)
    elif chosen is not None:
        yield chosen


def _meaning(place: str, word: Any) -> int:
    meaning = MEANINGS.get(str(word).strip().lower())
    if meaning is None:
        raise BadFile(f"{place}: its label is {_shown(word)}, not yes, no or unsure; fix it")
    return meaning


def _shown(value: Any) -> str:
    text = "an empty cell" if value is None else repr(value)
    return text if len(text) <= 60 else text[:60] + "..."
