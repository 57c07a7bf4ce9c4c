"""What people filled in, read back: sheets as spreadsheets save them, and what Label Studio exports.

All of it is taken or nothing: what cannot be read, or does not belong to the batch, is refused with its line.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Pairs
from al_ray.core.records import OPEN, UNSURE
from al_ray.core.scoring import Labels
from al_ray.core.task import Task
from al_ray.data import stated
from al_ray.data.ledger import WORDS
from al_ray.data.sheet import Faults, Sheet
from al_ray.data.tablefiles import Reading, read_sheet

SHEET, EXPORT = "batch.csv", "labelled.json"
COLUMNS = ("pair", "label", "left_text", "right_text", "left_id", "right_id")
IDS = COLUMNS[4:]
CHOICE = "match"
MEANINGS = {**stated.MEANINGS, "?": UNSURE, "skip": UNSURE}
# A cell that begins so is a formula to a spreadsheet, whoever wrote the text.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
# A spreadsheet's cell holds 32,767 units of UTF-16; what is longer it spills over the next rows.
CELL, CUT = 16_000, " [...]"
NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?(E[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)


def guarded(text: str) -> str:
    """A cell that a spreadsheet takes for no formula and can hold."""
    cell = "'" + text if text.startswith(FORMULA) else text
    return cell if len(cell) <= CELL else cell[: CELL - len(CUT)] + CUT


def squeezed(text: str) -> str:
    """Without white space around and in rows, which spreadsheets change."""
    return " ".join(text.split())


def same_id(told: str, asked: str) -> bool:
    """Whether a spreadsheet may have made the one of the other: 7 of 007, 4.00638E+12 of 4006381333931."""
    if squeezed(told) in (squeezed(asked), squeezed(guarded(asked))):
        return True
    if not NUMBER.fullmatch(told) or not NUMBER.fullmatch(asked):
        return False
    one, other = (Decimal(number.replace(",", ".")) for number in (told, asked))
    return abs(one - other) <= (abs(other) / 100_000 if "e" in told.lower() else 0)


@dataclass(frozen=True)
class Asked:
    """The pairs of a batch: code -> row, and (n) ids of both texts."""

    rows: dict[str, int]
    ids: list[tuple[str, str]]

    def row(self, place: str, code: Any, told: Mapping[str, Any], letters: bool = True) -> int:
        """The row of a code; BadFile when it was not asked, or when it stands beside other ids.

        told: ids by their columns, as far as they are there; letters: whether those beyond ASCII can be read.
        """
        if not isinstance(code, str) or code not in self.rows:
            first, last = next(iter(self.rows)), next(reversed(self.rows))
            raise BadFile(f"{place}: {_shown(code)} is no pair of this batch ({first} to {last}); take it out")
        for name, asked in zip(IDS, self.ids[self.rows[code]], strict=True):
            cell = str(told[name]) if told.get(name) is not None else ""
            # What a program cannot write it writes as a question mark.
            legible = asked.isascii() or (letters and "?" not in cell)
            if name in told and legible and not same_id(cell, asked):
                raise BadFile(
                    f"{place}: {code} has the {name} {_shown(cell)}, and was asked with {_shown(asked)}; put each row "
                    "together again, or, if only a spreadsheet changed ids, delete both columns of ids"
                )
        return self.rows[code]


Found = list[tuple[int, int, str]]


def read_answers(folder: Path, codes: list[str], pairs: Pairs, task: Task) -> Labels:
    """(n,) what the files of a round say together of (n, 2) pairs; see `answers_in`."""
    ids = [(task.left.ids[a], task.right.ids[b]) for a, b in pairs.tolist()]
    return answers_in([folder / SHEET, *there(folder / EXPORT)], codes, ids)


def there(path: Path) -> list[Path]:
    """A file, if it is there."""
    return [path] if path.exists() else []


def answers_in(files: Sequence[Path], codes: list[str], ids: list[tuple[str, str]]) -> Labels:
    """(n,) what sheets and exports of Label Studio (.json) say together of n pairs, OPEN where none answers.

    BadFile names the line of what cannot be taken; then nothing is.
    """
    asked = Asked({code: row for row, code in enumerate(codes)}, ids)
    said, where = np.full(len(codes), OPEN, dtype=np.uint8), dict[int, str]()
    try:
        found = [one for path in files for one in _read(path, asked)]
        for row, label, place in found:
            if row in where and said[row] != label:
                words = f"{WORDS[label]} to {codes[row]}, and {where[row]} says {WORDS[int(said[row])]}"
                raise BadFile(f"{place} says {words}; settle it in one of them")
            said[row], where[row] = label, place
    except BadFile as error:
        raise BadFile(f"{error} (nothing was taken)") from error
    return said


def _read(path: Path, asked: Asked) -> Found:
    return _of_export(path, asked) if path.suffix.lower() == ".json" else _of_sheet(path, asked)


def _of_sheet(path: Path, asked: Asked) -> Found:
    """(row, label, place) of each row of the sheet that is filled in; every pair must stand in it once."""
    sheet, letters = _sheet(path)
    cells = {name: column.to_pylist() for name, column in sheet.cells.items()}
    seen, found = dict[str, str](), Found()
    for line in range(len(sheet)):
        told = {name: column[line] for name, column in cells.items()}
        place, code, word = sheet.place(line), told["pair"], told["label"]
        if not any(told.values()):
            # Spreadsheets save empty rows below a table.
            continue
        row = asked.row(place, code, told, letters)
        if code in seen:
            raise BadFile(f"{place}: {code} stands on {seen[code]} too; delete one of the rows")
        seen[code] = place
        if word is not None:
            found.append((row, _meaning(place, word), place))
    missing = [code for code in asked.rows if code not in seen]
    if missing:
        more = f" and {len(missing) - 1:,} pairs more" if missing[1:] else ""
        raise BadFile(f"{path} lacks {missing[0]}{more}; put the rows back, their label may be empty")
    return found


def _sheet(path: Path) -> tuple[Sheet, bool]:
    """The columns that tell, whatever the spreadsheet made of delimiter and encoding; texts are not read back.

    And whether letters beyond ASCII can be read, which they cannot in an encoding that only the spreadsheet knows.
    """
    text, encoding = _decoded(path)
    first = next((line for line in text.splitlines() if line), "")[:10_000]
    headers = {mark: [name.strip() for name in next(csv.reader([first], delimiter=mark), [])] for mark in ",;\t"}
    known = {mark: [name for name in header if name.lower() in COLUMNS] for mark, header in headers.items()}
    delimiter = max(known, key=lambda mark: len(known[mark]))
    names = {name.lower(): name for name in known[delimiter]}
    if len(names) < len(known[delimiter]):
        raise BadFile(f"{path} has two columns of one name ({', '.join(known[delimiter])}); rename or delete one")
    reading = Reading("csv", delimiter, encoding=encoding, fixed=True)
    wanted = {name: names.get(name, name) for name in ("pair", "label")}
    wanted |= {name: names[name] for name in IDS if name in names}
    try:
        sheet = read_sheet(path, list(wanted.values()), reading, Faults("fail", "mend the row"))
    except BadFile as error:
        if {"pair", "label"} <= set(names):
            raise
        cure = f"mend it, or take it away, and the command that wrote it writes a fresh {path.name}"
        raise BadFile(f"{error}; {cure}") from error
    return sheet.holding(**{name: sheet.cells[there] for name, there in wanted.items()}), encoding != "latin-1"


def _decoded(path: Path) -> tuple[str, str]:
    """A sheet's text, and its encoding: codes and answers are the same letters in all that may come for latin-1."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadFile(f"{path} cannot be read ({error.strerror}); put it back") from error
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        return (content.decode("utf-16"), "utf-16") if wide else (content.decode("utf-8-sig"), "utf-8")
    except UnicodeError as error:
        if wide:
            raise BadFile(f"{path} is no whole UTF-16 text; save it again, as CSV (UTF-8)") from error
    return content.decode("latin-1"), "latin-1"


def _of_export(path: Path, asked: Asked) -> Found:
    """(row, label, place) of each answer in it: JSON has a task for a pair, JSON-MIN one for each annotation."""
    cure = "export it again as JSON or JSON-MIN from Label Studio"
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise BadFile(f"{path} cannot be read ({error}); {cure}") from error
    if not isinstance(content, list):
        raise BadFile(f"{path} is no list of tasks; {cure}")
    found = Found()
    for index, task in enumerate(cast(list[Any], content), start=1):
        place = f"{path}: task {index}"
        try:
            told = cast(Mapping[str, Any], task.get("data", task))
            code, ids = told.get("pair"), {name: told[name] for name in IDS if name in told}
            words = list(_chosen(task))
        except (AttributeError, KeyError, TypeError, RecursionError) as error:
            raise BadFile(f"{place} is not as Label Studio exports it ({error!r}); {cure}") from error
        row, meanings = asked.row(place, code, ids), sorted({_meaning(place, word) for word in words})
        if len(meanings) > 1:
            said = " and ".join(WORDS[meaning] for meaning in meanings)
            raise BadFile(f"{place}: annotators say {said} of {code}; settle it in Label Studio")
        found += [(row, meaning, place) for meaning in meanings]
    return found


def _chosen(task: dict[str, Any]) -> Iterator[Any]:
    """What annotators chose; skipped tasks, drafts and predictions are no answers."""
    if "annotations" not in task:
        yield from _words(task.get(CHOICE))
        return
    for annotation in task["annotations"]:
        if not annotation.get("was_cancelled"):
            for result in annotation["result"] or ():
                if result.get("from_name") == CHOICE:
                    yield from _words(result["value"])


def _words(chosen: Any) -> Iterator[Any]:
    """The words in a choice: JSON-MIN writes one as it is, and more or none as {"choices": words} or a list of all."""
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
        raise BadFile(f"{place}: its label is {_shown(word)}, not yes, no or unsure; mend it")
    return meaning


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:60] + "..."
