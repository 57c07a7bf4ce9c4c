"""People as the oracle: write a round's batch as a CSV sheet and as Label Studio tasks, and read their answers back.

round-NNN/batch.csv         for a spreadsheet: people fill in the column label
round-NNN/batch.json        the same pairs as Label Studio tasks; label-studio.xml is the labelling interface
round-NNN/labelled.json     the export of Label Studio (JSON or JSON-MIN), which the user saves here, under any name

A pair is identified by its code, rRRR-NNNNN, because spreadsheets change ids such as 007. The ids only serve to detect
that some columns were sorted without the others. Cosines and scores are not shown: they would bias the answer.
"""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from al_ray.core.errors import BadOption, LabelsAwaited
from al_ray.core.labels import OPEN, Answers, Batch, make_answers
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.task import Task
from al_ray.oracles.answer_files import BATCH, EXPORT, IDS, escape_cell, read_answers, unread_tables
from al_ray.oracles.sheet_columns import cells_of, interface, sheet_columns
from al_ray.runs.ledger import Ledger
from al_ray.storage.files import write_json, write_text
from al_ray.storage.uri import StoragePath

INTERFACE = "label-studio.xml"


class FileOracle:
    """Ask people through files in the run folder, and return what they have answered."""

    def __init__(self, ledger: Ledger) -> None:
        """Use the round folders of a ledger; BadOption if they are on an object store."""
        if not isinstance(ledger.path, Path):
            raise BadOption(
                "jobs.run --oracle file needs a run folder on a local disk, where people can open files; "
                f"{ledger.path} is a URI"
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
        fresh = np.flatnonzero((labels != OPEN) & (labels != earlier))
        if len(fresh):
            yield make_answers(fresh, labels[fresh], "file")
        waiting = int(((labels == OPEN) & (earlier == OPEN)).sum())
        if waiting:
            files, unread = folder / BATCH, ", ".join(unread_tables(folder, BATCH))
            hint = f"\n  not read: {unread}; save the sheet as {BATCH}.csv, or export JSON" if unread else ""
            raise LabelsAwaited(
                f"round {number}{', dev' * self.dev}: {waiting:,} of {len(codes):,} pairs wait for an answer\n"
                f"  in a spreadsheet: fill the column label of {files}.csv with yes, no or unsure; leave it empty "
                "for later; save it as CSV (UTF-8)\n"
                f"  or in Label Studio: import {files}.json with the interface of {INTERFACE} beside it, and "
                f"save its JSON export as {folder / EXPORT} or under its own name there{hint}"
            )


def codes_of(number: int, count: int, dev: bool = False) -> list[str]:
    """Return the code of each pair of a batch, by which people refer to it."""
    return [f"{'d' if dev else 'r'}{number:03d}-{row:05d}" for row in range(1, count + 1)]


def write_sheets(folder: Path, stem: str, codes: list[str], pairs: Pairs, task: Task) -> None:
    """Write stem.csv, stem.json and the interface; existing files are never overwritten, for they may hold answers.

    codes: (n,) for the (n, 2) pairs. Each field of a text has a column.
    """
    sheet, tasks = folder / f"{stem}.csv", folder / f"{stem}.json"
    columns = sheet_columns(task)
    if not sheet.exists():
        write_sheet(sheet, codes, pairs, task)
    if not tasks.exists():
        names = ("pair", *(column.variable for column in columns), *IDS)
        lines = _lines(codes, pairs, task)
        data = [dict(zip(names, (code, *cells, *ids), strict=True)) for code, cells, *ids in lines]
        write_json(tasks, [{"data": one} for one in data])
    if not (folder / INTERFACE).exists():
        write_text(folder / INTERFACE, interface(columns))


def write_sheet(sheet: StoragePath, codes: list[str], pairs: Pairs, task: Task) -> None:
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
