"""Tab-separated tables with quoting OFF, row by row, with a word on each row that is malformed."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from al_ray.core.errors import BadFile

BadRows = Literal["fail", "skip"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SkippedRow:
    """A row left out: FILE:LINE (lines count from 1, the header being one) and why."""

    place: str
    reason: str


@dataclass(frozen=True)
class Report:
    """What a reader left out, and what it had to settle: a sentence -> how many times."""

    skipped: tuple[SkippedRow, ...] = ()
    settled: Mapping[str, int] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """The report as a person reads it; nothing where there is nothing to say."""
        for sentence, count in self.settled.items():
            if count:
                yield f"{sentence}: {count:,}"
        if self.skipped:
            yield f"rows skipped: {len(self.skipped):,}"
        for skip in self.skipped:
            yield f"  {skip.place}: {skip.reason}"


def read_rows(
    path: Path, header: Sequence[str], fault: Callable[[list[str]], str | None], bad_rows: BadRows
) -> tuple[list[list[str]], tuple[SkippedRow, ...]]:
    """The rows of a file that has this header, in file order, and the rows left out.

    fault: what is wrong with a row that has the right number of columns, or None.
    A malformed row raises BadFile with its place under `fail`, and is left out under `skip`. Lines end in LF or CRLF.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise BadFile(f"{path} cannot be read ({error.strerror}); give --source the place of the data") from error
    if not lines[-1]:
        lines.pop()
    first = lines[0].decode("utf-8-sig", errors="replace").rstrip("\r").split("\t") if lines else []
    if first != list(header):
        raise BadFile(f"{path}:1 is not the header {' '.join(header)} (tab-separated); is it the right file?")
    rows: list[list[str]] = []
    skipped: list[SkippedRow] = []
    for number, line in enumerate(lines[1:], start=2):
        row, reason = _parsed(line, len(header), fault)
        if reason is None:
            rows.append(row)
        elif bad_rows == "fail":
            raise BadFile(f"{path}:{number}: {reason}; mend the row, or leave such rows out with --bad-rows skip")
        else:
            skipped.append(SkippedRow(f"{path}:{number}", reason))
    return rows, tuple(skipped)


def _parsed(line: bytes, columns: int, fault: Callable[[list[str]], str | None]) -> tuple[list[str], str | None]:
    """A row and what is wrong with it."""
    try:
        row = line.removesuffix(b"\r").decode("utf-8").split("\t")
    except UnicodeDecodeError:
        return [], "it is not UTF-8"
    if len(row) != columns:
        return row, f"it has {len(row)} columns, not {columns}"
    return row, fault(row)


@dataclass
class TextTable:
    """Texts by id, in the order of first sight: the first text of an id stands."""

    rows: dict[str, int] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    disagreements: int = 0

    def row(self, id: str, text: str) -> int:
        """The row of an id, which is new or has a text already."""
        row = self.rows.setdefault(id, len(self.texts))
        if row == len(self.texts):
            self.texts.append(text)
        self.disagreements += self.texts[row] != text
        return row
