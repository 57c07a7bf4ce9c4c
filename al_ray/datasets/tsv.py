"""Read tab-separated tables WITHOUT quoting, and report each malformed row."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from al_ray.core.errors import BadFile

BadRows = Literal["fail", "skip"]

OR_SKIP = "fix the row, or leave such rows out with `bad_rows='skip'`"
"""The fix of a bad row where the command has the option --bad-rows."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SkippedRow:
    """A row that was skipped: FILE:LINE (the header is line 1) and the reason."""

    place: str
    reason: str


@dataclass
class BadRowLog:
    """Bad rows of tables: under `fail` the first raises BadFile, under `skip` all are collected to be listed."""

    bad_rows: BadRows
    fix: str = "fix the row"
    skipped: list[SkippedRow] = field(default_factory=list)

    def add(self, place: str, reason: str) -> None:
        """Raise BadFile for a bad row, or collect it."""
        if self.bad_rows == "fail":
            raise BadFile(f"{place}: {reason}; {self.fix}")
        self.skipped.append(SkippedRow(place, reason))


@dataclass(frozen=True)
class Report:
    """The rows that a reader skipped, counts (a sentence -> number of cases), and lines on the files that it read."""

    skipped: tuple[SkippedRow, ...] = ()
    settled: Mapping[str, int] = field(default_factory=dict)
    read: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report: files, counts above 0, and the skipped rows."""
        yield from self.read
        for sentence, count in self.settled.items():
            if count:
                yield f"{sentence}: {count:,}"
        if self.skipped:
            yield f"rows skipped: {len(self.skipped):,}"
        for skip in self.skipped:
            yield f"  {skip.place}: {skip.reason}"


def read_rows(
    path: Path, header: Sequence[str], fault: Callable[[list[str]], str | None], faults: BadRowLog
) -> list[list[str]]:
    """Return the rows of a file with this header, in the order of the file, without malformed ones.

    fault: returns what is wrong with a row of the right number of columns, or None. Lines end in LF or CRLF.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise BadFile(f"{path} cannot be read ({error.strerror}); give `source` the path of the data") from error
    if not lines[-1]:
        lines.pop()
    first = lines[0].decode("utf-8-sig", errors="replace").rstrip("\r").split("\t") if lines else []
    if first != list(header):
        raise BadFile(f"{path}:1 is not the header {' '.join(header)} (tab-separated); is it the right file?")
    rows: list[list[str]] = []
    for number, line in enumerate(lines[1:], start=2):
        row, reason = _parsed(line, len(header), fault)
        if reason is None:
            rows.append(row)
        else:
            faults.add(f"{path}:{number}", reason)
    return rows


def find_fault(row: list[str], header: Sequence[str], required: Sequence[int]) -> str | None:
    """Return the fault of a row, or None: a required column is empty, or its last column, the label, is not 0 or 1."""
    for column in required:
        if not row[column].strip():
            return f"its {header[column]} is empty"
    return None if row[-1] in ("0", "1") else f"its {header[-1]} is {row[-1]!r}, not 0 or 1"


def _parsed(line: bytes, columns: int, fault: Callable[[list[str]], str | None]) -> tuple[list[str], str | None]:
    """Return the row in a line, and its fault or None."""
    try:
        row = line.removesuffix(b"\r").decode("utf-8").split("\t")
    except UnicodeDecodeError:
        return [], "it is not UTF-8"
    if len(row) != columns:
        return row, f"it has {len(row)} columns, not {columns}"
    return row, fault(row)


@dataclass
class TextTable:
    """Texts by id, in the order of first occurrence; if an id has several texts, the first is used."""

    rows: dict[str, int] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    disagreements: int = 0

    def row(self, id: str, text: str) -> int:
        """Return the row of an id; a new id gets the next row."""
        row = self.rows.setdefault(id, len(self.texts))
        if row == len(self.texts):
            self.texts.append(text)
        self.disagreements += self.texts[row] != text
        return row
