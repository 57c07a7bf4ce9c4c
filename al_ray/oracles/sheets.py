"""People as the oracle: a round's batch as a sheet and as Label Studio tasks, and their answers read back.

round-NNN/batch.csv         for a spreadsheet: the column label is to be filled in
round-NNN/batch.json        the same pairs as tasks of Label Studio, whose interface is label-studio.xml
round-NNN/labelled.json     what Label Studio exports (JSON or JSON-MIN), put here by the user

A pair is known by its code, rRRR-NNNNN: spreadsheets change ids such as 007. The ids only tell whether somebody sorted
some of the columns and not the others. Neither cosines nor probabilities are shown, for they would sway the answer.
"""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from al_ray.core.errors import BadOption, LabelsAwaited
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.records import OPEN, Answers, Batch, answers
from al_ray.core.task import Task
from al_ray.data.files import write_json, write_text
from al_ray.data.ledger import Ledger
from al_ray.oracles.filled import CHOICE, COLUMNS, EXPORT, SHEET, guarded, read_answers

BATCH, INTERFACE = "batch", "label-studio.xml"
TASKS = f"{BATCH}.json"
VIEW = f"""<View>
  <View style="display: flex; gap: 2em">
    <Text name="left" value="$left_text"/>
    <Text name="right" value="$right_text"/>
  </View>
  <Choices name="{CHOICE}" toName="left" choice="single" showInline="true" required="true">
    <Choice value="yes" hotkey="y"/>
    <Choice value="no" hotkey="n"/>
    <Choice value="unsure" hotkey="u"/>
  </Choices>
</View>
"""


class FileOracle:
    """Asks people by files, and sells what they have answered."""

    def __init__(self, ledger: Ledger) -> None:
        """The ledger whose folders the files lie in; BadOption when they are no local ones."""
        if not isinstance(ledger.path, Path):
            raise BadOption(f"--oracle file wants a run folder in which people find files; {ledger.path} is a URI")
        self.ledger, self.path = ledger, ledger.path

    def sell(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
        """What the files say that the ledger does not hold; LabelsAwaited while there is a pair without an answer.

        An answer that was changed in the files before its round was complete is one more answer: the last holds. One
        that was cleared there is kept.
        """
        if not len(batch.pairs):
            return
        folder, codes = self.path / self.ledger.round(number).name, codes_of(number, len(batch.pairs))
        write_sheets(folder, BATCH, codes, batch.pairs, self.ledger.task)
        said, held = read_answers(folder, codes, batch.pairs, self.ledger.task), self.ledger.labels(number)
        # Not `held`: the file would contradict a correction at every call, and each time be one more answer.
        fresh = np.flatnonzero((said != OPEN) & (said != self.ledger.told(number)))
        if len(fresh):
            yield answers(fresh, said[fresh], "file")
        waiting = int(((said == OPEN) & (held == OPEN)).sum())
        if waiting:
            raise LabelsAwaited(
                f"round {number}: {waiting:,} of {len(codes):,} pairs wait for an answer\n"
                f"  in a spreadsheet: fill the column label of {folder / SHEET} with yes, no or unsure; leave it empty "
                "for later; save it as CSV (UTF-8)\n"
                f"  or in Label Studio: import {folder / TASKS} with the interface of {INTERFACE} beside it, and save "
                f"its JSON export as {folder / EXPORT}"
            )


def codes_of(number: int, count: int) -> list[str]:
    """What a person calls the pairs of a batch."""
    return [f"r{number:03d}-{row:05d}" for row in range(1, count + 1)]


def write_sheets(folder: Path, stem: str, codes: list[str], pairs: Pairs, task: Task) -> None:
    """Write stem.csv, stem.json and the interface, unless they are there: what people filled in is never written over.

    codes: of (n, 2) pairs.
    """
    sheet, tasks = folder / f"{stem}.csv", folder / f"{stem}.json"
    left, right = pairs.T.tolist()
    texts = [task.left.texts[row] for row in left], [task.right.texts[row] for row in right]
    ids = [task.left.ids[row] for row in left], [task.right.ids[row] for row in right]
    if not sheet.exists():
        file = io.StringIO()
        # The mark by which spreadsheets know UTF-8.
        file.write("\ufeff")
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for code, *cells in zip(codes, *texts, *ids, strict=True):
            rows.writerow((code, "", *map(guarded, cells)))
        write_text(sheet, file.getvalue())
    if not tasks.exists():
        names = ("pair", *COLUMNS[2:])
        rows = zip(codes, *texts, *ids, strict=True)
        write_json(tasks, [{"data": dict(zip(names, cells, strict=True))} for cells in rows])
    if not (folder / INTERFACE).exists():
        write_text(folder / INTERFACE, VIEW)
