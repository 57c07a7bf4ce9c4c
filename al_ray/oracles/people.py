"""People as the oracle: write a round's batch as a CSV sheet and as Label Studio tasks, and read their answers back.

round-NNN/batch.csv         for a spreadsheet: people fill in the column label
round-NNN/batch.json        the same pairs as Label Studio tasks; label-studio.xml is the labelling interface
round-NNN/labelled.json     the export of Label Studio (JSON or JSON-MIN), which the user saves here, under any name
round-NNN/batch.page.log    answers that people gave on the page of jobs.annotate (page_log.py)

A pair is identified by its code, rRRR-NNNNN, because spreadsheets change ids such as 007. The ids only serve to detect
that some columns were sorted without the others. Cosines and scores are not shown: they would bias the answer.
"""

import csv
import io
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadFile, BadOption, LabelsAwaited
from al_ray.core.labels import OPEN, TAKEN_BACK, Answers, Batch, make_answers
from al_ray.core.naming import command
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.scorer import Labels
from al_ray.core.task import Task
from al_ray.oracles.answer_files import BATCH, EXPORT, IDS, escape_cell, read_answers, unread_tables
from al_ray.oracles.page_log import PageAnswers, log_path, log_reader, read_page_answers
from al_ray.oracles.sheet_columns import cells_of, interface, sheet_columns
from al_ray.runs.ledger import Ledger
from al_ray.storage.files import write_json, write_text
from al_ray.storage.uri import Stamp, StoragePath, stamp_of

logger = logging.getLogger(__name__)

Names, Flags = npt.NDArray[Any], npt.NDArray[np.bool_]
INTERFACE = "label-studio.xml"
PAUSE = 0.2
"""Seconds between two looks at the answers on the page."""
FILE = "file"
"""Name in the ledger of the people who labelled in sheets and exports."""


class FileOracle:
    """Ask people through files in the run folder, and return what they have answered."""

    def __init__(self, ledger: Ledger) -> None:
        """Use the round folders of a ledger; BadOption if they are on an object store."""
        if not isinstance(ledger.path, Path):
            raise BadOption(
                f"people label in files of the run folder, which must be on a local disk (`out`); {ledger.path} is a "
                "URI"
            )
        self.ledger, self.path = ledger, ledger.path

    @property
    def dev(self) -> bool:
        """Return whether these are drawn pairs of dev, by whose labels a model is measured."""
        return self.ledger.split != "train"

    def label(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
        """Yield the answers in the files that the ledger lacks; LabelsAwaited while a pair has no answer.

        If an answer is changed in the files before the round is complete, the new one is added, and the last counts.
        If it is deleted there, the earlier answer stays.
        """
        if not len(batch.pairs):
            return
        folder, codes = self.path / self.ledger.round(number).name, codes_of(number, len(batch.pairs), self.dev)
        write_sheets(folder, BATCH, codes, batch.pairs, self.ledger.task)
        labels, earlier = read_answers(folder, codes, batch.pairs, self.ledger.task), self.ledger.first_labels(number)
        # Compared with answers, not with corrected labels: otherwise an answer that was corrected would be added again
        # at every call.
        page = read_page_answers(log_path(folder, BATCH))
        # A pair that waits for a second answer, or again for the first, has no label: a round that has all is complete.
        # But the label of a sheet or an export needs no second one, and counts where the page waits.
        page_waits = np.array([page.waits(code) for code in codes])
        waits, filled = page_waits & (labels == OPEN), page_waits & (labels != OPEN)
        by = np.array([FILE if filled[row] else page.labellers(code) or FILE for row, code in enumerate(codes)])
        # A label that the page gave earlier, and took back, is no longer its own.
        changed = (labels != earlier) | (filled & (labellers_of(self.ledger, number) != FILE))
        fresh = np.flatnonzero(np.where(waits, earlier != OPEN, (labels != OPEN) & changed))
        yield from _answers_by_person(by, fresh, np.where(waits, np.uint8(TAKEN_BACK), labels))
        waiting = int((waits | ((labels == OPEN) & (earlier == OPEN))).sum())
        if waiting:
            files, unread = folder / BATCH, ", ".join(unread_tables(folder, BATCH))
            hint = f"\n  not read: {unread}; save the sheet as {BATCH}.csv, or export JSON" if unread else ""
            raise LabelsAwaited(
                f"round {number}{', dev' * self.dev}: {waiting:,} of {len(codes):,} pairs wait for an answer\n"
                f"  on a page: {command('annotate', run=self.path.parent if self.dev else self.path)}\n"
                f"  or in a spreadsheet: fill the column label of {files}.csv with yes, no or unsure; leave it empty "
                "for later; save it as CSV (UTF-8)\n"
                f"  or in Label Studio: import {files}.json with the interface of {INTERFACE} beside it, and "
                f"save its JSON export as {folder / EXPORT} or under its own name there{hint}"
            )

    def label_without_second(self, number: int, batch: Batch) -> Iterator[Answers]:
        """Yield the answers of the pairs that wait for a second one, for a round that ends without it."""
        folder, codes = self.path / self.ledger.round(number).name, codes_of(number, len(batch.pairs), self.dev)
        page = read_page_answers(log_path(folder, BATCH))
        labels = np.array([page.label(code) for code in codes], dtype=np.uint8)
        fresh = np.flatnonzero((labels != OPEN) & (self.ledger.first_labels(number) == OPEN))
        yield from _answers_by_person(np.array([page.labellers(code) for code in codes]), fresh, labels)


def labellers_of(ledger: Ledger, number: int) -> Names:
    """Return who gave the last label (n,) of each pair of a round; "" for pairs without one."""
    batch = ledger.batch(number)
    assert batch is not None
    names = np.full(len(batch.pairs), "", dtype=object)
    for piece in ledger.answers(number):
        names[piece.rows[(piece.labels != OPEN) & (piece.labels != TAKEN_BACK)]] = piece.by
    return names


def _answers_by_person(by: Names, rows: Rows, labels: Labels) -> Iterator[Answers]:
    """Yield the labels (n,) of some rows, one value for each group of people who gave them. by: (n,)."""
    for name in sorted(set(by[rows].tolist())):
        own = rows[by[rows] == name]
        yield make_answers(own, labels[own], name)


class PageOracle:
    """Wait until people have answered all pairs of a batch on the page that the same command serves."""

    def __init__(self, files: FileOracle) -> None:
        """files: which reads the answers of the page."""
        self.files = files

    def label(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
        """Yield the answers once all pairs have as many as they need, there or in the files; see FileOracle.label."""
        codes = codes_of(number, len(batch.pairs), self.files.dev)
        folder, task = self.files.path / self.files.ledger.round(number).name, self.files.ledger.task
        write_sheets(folder, BATCH, codes, batch.pairs, task)
        known = self.files.ledger.first_labels(number) != OPEN
        # The sheet and the page may disagree already.
        read_answers(folder, codes, batch.pairs, task)
        sheet = _WatchedSheet(folder, lambda: read_answers(folder, codes, batch.pairs, task, page=False) != OPEN)
        log, page, reader = log_path(folder, BATCH), PageAnswers(), log_reader(log_path(folder, BATCH))
        while True:
            if log.exists():
                page.apply(reader.read_new())
            done = (page.complete(code) or (known[row] and not page.waits(code)) for row, code in enumerate(codes))
            if all(sheet.filled() | np.fromiter(done, bool)):
                # An answer may be taken back before it is read.
                with suppress(LabelsAwaited):
                    yield from self.files.label(number, batch, missing)
                    return
            sleep(PAUSE)


class _WatchedSheet:
    """Which pairs have a label in the sheet or an export of a round, while people may save these."""

    def __init__(self, folder: Path, read: Callable[[], Flags]) -> None:
        """read: which pairs (n,) have a label now; BadFile at once if a file is not as it should be."""
        self.folder, self.read = folder, read
        self.stamps, self.rows = self._stamps(), read()

    def filled(self) -> Flags:
        """Return which pairs (n,) have a label; files that cannot be read change nothing, and are logged once."""
        stamps = self._stamps()
        if stamps != self.stamps:
            self.stamps = stamps
            try:
                self.rows = self.read()
            except BadFile as error:
                # A program may be writing the file just now; then it changes again.
                logger.warning("%s", error)
        return self.rows

    def _stamps(self) -> dict[str, Stamp | None]:
        return {path.name: stamp_of(path) for path in self.folder.iterdir() if path.suffix.lower() in (".csv", ".json")}


def codes_of(number: int, count: int, dev: bool = False) -> list[str]:
    """Return the code of each pair of a batch, by which people refer to it."""
    return [f"{'d' if dev else 'r'}{number:03d}-{row:05d}" for row in range(1, count + 1)]


def write_sheets(folder: StoragePath, stem: str, codes: list[str], pairs: Pairs, task: Task) -> None:
    """Write stem.json, the interface, and stem.csv last; existing files are not overwritten, for they may hold answers.

    codes: (n,) for the (n, 2) pairs. Each field of a text has a column.
    """
    sheet, tasks = folder / f"{stem}.csv", folder / f"{stem}.json"
    columns = sheet_columns(task)
    if not tasks.exists():
        names = ("pair", *(column.variable for column in columns), *IDS)
        lines = _lines(codes, pairs, task)
        data = [dict(zip(names, (code, *cells, *ids), strict=True)) for code, cells, *ids in lines]
        write_json(tasks, [{"data": one} for one in data])
    if not (folder / INTERFACE).exists():
        write_text(folder / INTERFACE, interface(columns))
    if not sheet.exists():
        _write_sheet(sheet, codes, pairs, task)


def _write_sheet(sheet: StoragePath, codes: list[str], pairs: Pairs, task: Task) -> None:
    """Write a sheet in which people fill the column label. codes: (n,) for the (n, 2) pairs."""
    file = io.StringIO()
    # The byte-order mark tells spreadsheets that the file is UTF-8.
    file.write("\ufeff")
    rows = csv.writer(file)
    rows.writerow(("pair", "label", *(column.heading for column in sheet_columns(task)), *IDS))
    for code, cells, *ids in _lines(codes, pairs, task):
        rows.writerow((code, "", *map(escape_cell, [*cells, *ids])))
    write_text(sheet, file.getvalue())


def _lines(codes: list[str], pairs: Pairs, task: Task) -> Iterator[tuple[str, list[str], str, str]]:
    """Yield the code, the cells and the two ids of each pair."""
    return zip(codes, cells_of(task, pairs, sheet_columns(task)), *task.ids_of(pairs), strict=True)
