"""Correct labels of a run, and end its open round with the labels that it has."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from al_ray.active_learning.labelling import label_batch
from al_ray.api.labelling.resume import hint, resume_call
from al_ray.api.labels import TABLE, check_not_open, writing
from al_ray.core.config.oracle import OracleConfig, oracle_kind
from al_ray.core.errors import BadOption, LabelsAwaited
from al_ray.core.labels import NO, OPEN, UNSURE, WORDS, YES
from al_ray.core.naming import option
from al_ray.core.pairs import Pairs, as_pairs
from al_ray.core.progress import no_progress
from al_ray.core.scorer import Labels
from al_ray.core.task import Task
from al_ray.datasets.tables.format_options import TableOptions
from al_ray.datasets.tables.label_tables import read_task_labels
from al_ray.datasets.tables.options import LABEL_COLUMNS, label_column_names, labels_reading
from al_ray.datasets.tsv import OR_SKIP, BadRowLog, Report
from al_ray.oracles.people import FileOracle
from al_ray.oracles.registry import OracleRequest, make_oracle
from al_ray.runs.dev_labels import format_estimate
from al_ray.runs.run_folder import bound_config
from al_ray.storage.uri import StoragePath, storage_path

CODES = {WORDS[code]: code for code in (YES, NO, UNSURE)}


@dataclass(frozen=True)
class LabelCorrection:
    """How many labels were corrected, and how many were correct before. report: rows that were skipped.

    estimates: of labels of dev, the figures of each round under the labels as they are now.
    """

    corrected: int
    correct: int
    report: Report
    estimates: tuple[Mapping[str, Any], ...] | None = None

    def lines(self) -> Iterator[str]:
        """Yield the counts, and the figures of dev, in words."""
        counts = f"{self.corrected:,} corrected, {self.correct:,} correct before"
        if self.estimates is None:
            yield f"labels: {counts}; the next training uses them"
            return
        yield f"labels of dev: {counts}"
        yield from map(format_estimate, self.estimates)


def correct_labels(
    run: str | StoragePath,
    labels: str | Path | Sequence[tuple[str, str, str]],
    *,
    columns: str = LABEL_COLUMNS,
    table: TableOptions = TABLE,
    split: Literal["train", "dev"] = "train",
) -> LabelCorrection:
    """Correct labels of a run: its history keeps the old ones, the next training uses the new ones.

    labels: a table, whose columns and format are `columns` and `table` as in `import_labels`; or (left id, right id,
    label) of each pair, with a label of "yes", "no" and "unsure". split: dev for the drawn pairs by which models were
    measured (dev_labels), whose estimates are computed again.

    Examples:
        >>> pair = al_ray.load_run(folder / "run").labels().to_pylist()[0]
        >>> label = (pair["left_id"], pair["right_id"], pair["answer"])
        >>> correction = al_ray.correct_labels(folder / "run", [label])
        >>> correction.corrected, correction.correct
        (0, 1)

    Raises:
        BadOption: if an id or a label does not exist, or people are labelling one of the pairs.
        BadFile: if the table has a bad row, which the message names, or a pair has no label yet.
        WrongFolder: if `run` is not the folder of a run.
    """
    path = storage_path(str(run))
    config, faults = bound_config(path), BadRowLog(table.bad_rows, OR_SKIP)
    with writing(path, None) as folder:
        if isinstance(labels, str | Path):
            names = label_column_names("`columns`", columns)
            content = read_task_labels(Path(labels), names, labels_reading(table), folder.task, faults, split)
            pairs, codes = content.pairs, content.labels
        else:
            pairs, codes = _labels_of(labels, folder.task)
        check_not_open(folder, pairs, split)
        if split == "dev":
            changed = folder.dev_labels.correct(pairs, codes, folder.model, config.seed)
            estimates = tuple(folder.dev_labels.estimates())
        else:
            changed, estimates = folder.ledger.correct(pairs, codes), None
    return LabelCorrection(changed, len(pairs) - changed, Report(tuple(faults.skipped)), estimates)


def _labels_of(labels: Sequence[tuple[str, str, str]], task: Task) -> tuple[Pairs, Labels]:
    """Return the (k, 2) pairs of ids, and their (k,) labels."""
    if not labels:
        raise BadOption("no label is given; give a table, or the ids and the label of a pair")
    rows: list[list[int]] = []
    sides = (("left", "left_id", task.left.ids), ("right", "right_id", task.right.ids))
    for place, (side, name, ids) in enumerate(sides):
        named = [one[place] for one in labels]
        unknown = next((one for one in named if one not in ids), None)
        if unknown is not None:
            raise BadOption(f"`{name}` {unknown!r} is not an id of the task's {side} texts; see its {side}.parquet")
        rows.append([ids.index(one) for one in named])
    wrong = next((label for *_, label in labels if label not in CODES), None)
    if wrong is not None:
        raise BadOption(f"`label` is {wrong!r}; give {', '.join(CODES)}")
    return as_pairs(*rows), np.array([CODES[label] for *_, label in labels], dtype=np.uint8)


@dataclass(frozen=True)
class ClosedRound:
    """A round that was ended with the labels that it has: how many these are, and how many pairs left it.

    dev: drawn dev pairs for whose labels the run asks before it trains.
    """

    run: StoragePath
    round: int
    labels: int
    left: int
    dev: int

    def lines(self) -> Iterator[str]:
        """Yield the counts, and the call that trains on the labels."""
        yield f"round {self.round} is closed with {self.labels:,} labels; {self.left:,} pairs leave it"
        yield f"to train on them{hint(bound_config(self.run))}: {resume_call(self.run, self.round)}"
        if self.dev:
            without = option("RunConfig.dev_labels", 0)
            yield f"it asks for the labels of {self.dev:,} dev pairs first; with {without} it goes on without them"


def close_round(run: str | StoragePath) -> ClosedRound:
    """End the open round of a run with the labels that it has: a later round may choose its other pairs again.

    What people have answered in the files of the round is read first.

    Examples:
        >>> config = al_ray.RunConfig(
        ...     task=str(folder / "task"), oracle="file", rounds=1, first_batch=4, encoder="random-bert",
        ...     encoder_layers=1, max_length=16,
        ... )
        >>> try:
        ...     al_ray.run(config, folder / "people")
        ... except al_ray.LabelsAwaited:
        ...     pass
        >>> pair = al_ray.label_status(folder / "people").rounds[0]
        >>> sheet = pair.folder / "batch.csv"
        >>> _ = sheet.write_text(sheet.read_text(encoding="utf-8-sig").replace(",,", ",no,", 1))
        >>> closed = al_ray.close_round(folder / "people")
        >>> closed.labels, closed.left
        (1, 3)

    Raises:
        BadOption: if no round waits for labels, or the open one has none.
        BadFile: if an answer cannot be read.
        WrongFolder: if it is not the folder of a run.
    """
    path = storage_path(str(run))
    config = bound_config(path)
    with writing(path, None) as folder:
        ledger, number = folder.ledger, folder.last + 1
        batch = ledger.batch(number)
        if batch is None or ledger.sealed(number):
            raise BadOption(f"{path} has no round that waits for labels; there is nothing to close")
        if oracle_kind(config.oracle).people:
            with suppress(LabelsAwaited):
                label_batch(number, ledger, make_oracle(OracleRequest(config, OracleConfig(), folder, no_progress)))
            if not ledger.sealed(number):
                for answers in FileOracle(ledger).label_without_second(number, batch):
                    ledger.add_answers(number, answers)
        left = 0 if ledger.sealed(number) else ledger.close(number)
        labels, dev, waiting = int((ledger.labels(number) != OPEN).sum()), folder.dev_labels.ledger, 0
        if config.dev_labels and dev.rounds and not dev.sealed(dev.rounds):
            waiting = int((dev.labels(dev.rounds) == OPEN).sum())
    return ClosedRound(path, number, labels, left, waiting)
