"""The labels of a run: python -m jobs.labels {status,export,import,correct} --run RUN

status counts them by round, export writes them as pairs of texts, import takes labels bought elsewhere as a round of
the run, and correct says something else of a pair, which the next training heeds. Every option: --help.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from al_ray.cli._shared.entry import PathOrUri, options
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.labels import CODES, NO, OPEN, UNSURE, WORDS, YES, Batch, Labelled, make_answers
from al_ray.core.pairs import Pairs, as_pairs
from al_ray.core.scorer import Labels
from al_ray.core.text_table import format_columns
from al_ray.datasets.tables.columns import BadRowLog
from al_ray.datasets.tables.label_tables import labels_table, read_task_labels, write_labels
from al_ray.datasets.tables.options import column_names
from al_ray.datasets.tables.reader import TableFormat
from al_ray.datasets.task_folder import read_task
from al_ray.datasets.tsv import BadRows, Report
from al_ray.runs.ledger import Ledger
from al_ray.runs.run_folder import RunFolder, bound_config, opened, refuse_inside
from al_ray.storage.uri import StoragePath, storage_path

SOURCE = "imported"


@dataclass(frozen=True, kw_only=True)
class OfRun:
    """A run's labels."""

    run: PathOrUri
    """Run folder."""


@dataclass(frozen=True, kw_only=True)
class Status(OfRun):
    """Count them by round."""


@dataclass(frozen=True, kw_only=True)
class Export(OfRun):
    """Write them as pairs of texts: sentence1, sentence2, label (1 match, 0 none), in the order bought."""

    out: PathOrUri
    """File to write: .parquet, .csv or .jsonl."""
    every_column: bool = False
    """Also ids, answer, round and source, and the pairs of which nobody was sure."""


@dataclass(frozen=True, kw_only=True)
class Table(OfRun):
    """A table of labels."""

    columns: str = "left,right,label"
    """Its columns: the two ids and the label (1/0, yes/no, unsure). Two columns: all are matches."""
    delimiter: str | None = None
    """What parts the columns of a CSV or TSV file; a comma or a tab, by extension, when not given."""
    encoding: str = "utf-8"
    """Of CSV, TSV and JSON lines."""
    bad_rows: BadRows = "fail"
    """What to do with a bad row: fail at its line, or skip, count and list it."""

    @property
    def reading(self) -> TableFormat:
        """How the table is read."""
        return TableFormat(delimiter=self.delimiter, encoding=self.encoding)

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns."""
        names = column_names("--columns", self.columns)
        if len(names) not in (2, 3):
            raise BadOption(f"--columns is {self.columns}; give three, such as left,right,label, or two ids")
        return names


@dataclass(frozen=True, kw_only=True)
class Import(Table):
    """Take labels bought elsewhere as the next round of a run; of a new folder as its seed set."""

    labels: Path
    """Table of labels: Parquet, CSV, TSV or JSON lines."""
    task: PathOrUri | None = None
    """Task folder; the run's own when the run has begun."""


@dataclass(frozen=True, kw_only=True)
class Correct(Table):
    """Say something else of labelled pairs: the history keeps both, the next training takes the last."""

    labels: Path | None = None
    """Table of corrections. Without it, name one pair by --left-id and --right-id."""
    left_id: str | None = None
    """Id of its left text."""
    right_id: str | None = None
    """Id of its right text."""
    label: Literal["yes", "no", "unsure"] | None = None
    """What is right."""


def main() -> None:
    """Do what the command says."""
    asked = options(
        Annotated[Status, tyro.conf.subcommand("status")]
        | Annotated[Export, tyro.conf.subcommand("export")]
        | Annotated[Import, tyro.conf.subcommand("import")]
        | Annotated[Correct, tyro.conf.subcommand("correct")],
        "labels",
        "The labels of a run: counted, exported, imported, corrected.",
    )
    {Status: status, Export: export, Import: take, Correct: correct}[type(asked)](asked)


def status(asked: Status) -> None:
    """A line a round, and what is to be done."""
    folder = ours(asked.run)
    ledger, last = folder.ledger, folder.last
    rows: list[tuple[str, ...]] = [
        ("round", "chosen by", "pairs", "yes", "no", "unsure", "open", "answered by", "cost")
    ]
    for number, (batch, labels) in enumerate(ledger.read_rounds(range(1, ledger.rounds + 1)), start=1):
        pieces = list(ledger.answers(number))
        counted = [f"{int((labels == label).sum()):,}" for label in (YES, NO, UNSURE, OPEN)]
        by = ", ".join(sorted({piece.by for piece in pieces})) or "-"
        cost = sum(piece.cost for piece in pieces)
        rows.append((str(number), batch.source, f"{len(labels):,}", *counted, by, f"{cost:,.2f}"))
    corrected = sum(len(table) for table in ledger.corrections())
    print(format_columns(rows))
    print(f"{corrected:,} corrections; {last} rounds complete")
    if ledger.rounds > last:
        print(f"to go on: python -m jobs.run --out {asked.run} --config {asked.run}")


def export(asked: Export) -> None:
    """Every label that a run has, those of a round under way included."""
    folder = ours(asked.run)
    labelled = Labelled()
    numbers = range(1, folder.ledger.rounds + 1)
    for number, (batch, labels) in zip(numbers, folder.ledger.read_rounds(numbers), strict=True):
        said = labels != OPEN
        labelled = labelled.extended(batch.pairs[said], labels[said], number, batch.source)
    if not len(labelled):
        raise BadFile(f"{asked.run} has no label yet; label a batch first (python -m jobs.labels status)")
    table = labels_table(labelled, folder.task, asked.every_column)
    write_labels(asked.out, table)
    unsure = "" if asked.every_column else f", without {len(labelled) - len(table):,} of which nobody was sure"
    print(f"wrote {len(table):,} labelled pairs ({labelled.positives:,} matches{unsure}) to {asked.out}")


def take(asked: Import) -> None:
    """A round of labels that were bought elsewhere."""
    with writing(asked.run, asked.task) as folder:
        ledger, faults = folder.ledger, BadRowLog(asked.bad_rows)
        said = read_task_labels(asked.labels, asked.names, asked.reading, folder.task, faults)
        held = ledger.labels_of(said.pairs)
        other = (held != OPEN) & (held != said.labels)
        said.sheet.reject(
            other, lambda row: f"the run says {WORDS[held[row]]} of this pair (python -m jobs.labels correct)", faults
        )
        fresh = held == OPEN
        if not fresh.any():
            raise BadFile(f"{asked.labels} holds no label that {asked.run} has not; there is nothing to import")
        number = round_of(said.pairs[fresh], asked.run, ledger)
        piece = make_answers(np.arange(int(fresh.sum())), said.labels[fresh], name_of(asked.labels))
        ledger.add_answers(number, piece)
        ledger.seal(number)
        matches, known = int((piece.labels == YES).sum()), int((held == said.labels).sum())
        print(f"round {number}: {len(piece.rows):,} labels, {matches:,} of them matches; {known:,} known before")
        for line in Report(tuple(faults.skipped), said.settled).lines():
            print(line)


def name_of(path: Path) -> str:
    """A path in letters, whatever bytes are in it."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def round_of(pairs: Pairs, run: StoragePath, ledger: Ledger) -> int:
    """The round that these imported pairs make: a new one, or the same one where an earlier import was broken off."""
    number = ledger.rounds
    if not number or ledger.sealed(number):
        ledger.add_batch(number + 1, Batch(pairs, np.full(len(pairs), np.nan), SOURCE))
        return number + 1
    batch = ledger.batch(number)
    assert batch is not None
    if batch.source != SOURCE:
        raise WrongFolder(f"round {number} of {run} waits for answers; answer it first, then import")
    if not np.array_equal(batch.pairs, pairs):
        raise WrongFolder(f"round {number} of {run} is an import that was broken off; import the same table again")
    return number


def correct(asked: Correct) -> None:
    """Corrections of one pair, or of those in a table."""
    with writing(asked.run, None) as folder:
        pairs, labels = wanted(asked, folder)
        strange = np.flatnonzero(folder.ledger.labels_of(pairs) == OPEN)
        if len(strange):
            left, right = pairs[strange[0]].tolist()
            raise BadFile(
                f"{folder.task.left.ids[left]} with {folder.task.right.ids[right]} has no label in a complete round of "
                + str(asked.run)
                + (f", nor have {len(strange) - 1:,} more of these pairs" if strange[1:].size else "")
                + "; nothing was corrected (an open round is corrected in its batch.csv)"
            )
        changed = folder.ledger.correct(pairs, labels)
        print(f"corrected {changed:,} labels, {len(pairs) - changed:,} were so already; the next training takes them")


def wanted(asked: Correct, folder: RunFolder) -> tuple[Pairs, Labels]:
    """(k, 2) pairs and what is to be said of them."""
    left, right, label = asked.left_id, asked.right_id, asked.label
    if asked.labels is not None and (left, right, label) == (None, None, None):
        said = read_task_labels(asked.labels, asked.names, asked.reading, folder.task, BadRowLog(asked.bad_rows))
        return said.pairs, said.labels
    if asked.labels is not None or left is None or right is None or label is None:
        raise BadOption("give --labels FILE, or one pair by --left-id, --right-id and --label")
    rows: list[int] = []
    for side, corpus, name in (("left", folder.task.left, left), ("right", folder.task.right, right)):
        if name not in corpus.ids:
            raise BadOption(f"--{side}-id {name!r} is no id of the task's {side} texts; see its {side}.parquet")
        rows.append(corpus.ids.index(name))
    return as_pairs(*([row] for row in rows)), np.array([CODES[label]], dtype=np.uint8)


def ours(path: StoragePath) -> RunFolder:
    """A run folder, for reading."""
    return RunFolder(path, read_task(task_of(path, None)))


@contextmanager
def writing(path: StoragePath, task: StoragePath | None) -> Iterator[RunFolder]:
    """A run folder, for writing, while no run does."""
    texts = task_of(path, task)
    refuse_inside(path, texts)
    with opened(path, read_task(texts)) as folder:
        yield folder


def task_of(path: StoragePath, task: StoragePath | None) -> StoragePath:
    """The task folder of a run: the one that it is bound to, or, before it has begun, the one named."""
    if (path / "config.json").exists():
        bound = storage_path(bound_config(path).task)
        if task is not None and task.resolve() != bound.resolve():
            raise BadOption(f"--task {task}: {path} is a run of {bound}; leave --task out, or give another --run")
        return bound
    if task is None:
        raise BadOption(f"{path} holds no config.json: give a run folder, or for a new one the --task to import into")
    return task
