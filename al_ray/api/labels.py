"""Take the labels of a run along, and add labels from elsewhere."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from al_ray.active_learning.strategies import STRATEGIES
from al_ray.api.labelling.resume import step_after_import
from al_ray.api.run_reading import Run
from al_ray.apps.drift.folder import read_suggested_labels
from al_ray.apps.matching.folder import RECORD
from al_ray.core.config.oracle import oracle_kind
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.labels import IMPORTED, OPEN, UNSURE, WORDS, YES, Batch, Labelled, make_answers
from al_ray.core.naming import option
from al_ray.core.pairs import Mask, Pairs
from al_ray.core.scorer import Labels
from al_ray.core.task import Task
from al_ray.datasets.tables.format_options import TableOptions
from al_ray.datasets.tables.label_tables import LabelTable, labels_table, read_task_labels, write_labels
from al_ray.datasets.tables.options import LABEL_COLUMNS, label_column_names, labels_reading
from al_ray.datasets.task_folder import read_task
from al_ray.datasets.tsv import OR_SKIP, BadRowLog, Report
from al_ray.oracles.llm.oracle import PREFIX
from al_ray.oracles.people import Names, labellers_of
from al_ray.runs.existing_labels import labels_of_other_run
from al_ray.runs.ledger import Ledger
from al_ray.runs.other_runs import bound_task
from al_ray.runs.place import check_outside_task
from al_ray.runs.run_folder import RunFolder, bound_config, opened
from al_ray.storage.uri import StoragePath, storage_path

TABLE = TableOptions()
NOTHING_NEW = "nothing is new, so nothing was changed"


@dataclass(frozen=True)
class _Labels:
    """Labels (n,) of (n, 2) pairs, and who gave them (n,)."""

    pairs: Pairs
    labels: Labels
    by: Names

    def filter(self, mask: Mask) -> "_Labels":
        """Return those where the mask (n,) is true."""
        return _Labels(self.pairs[mask], self.labels[mask], self.by[mask])


@dataclass(frozen=True)
class LabelImport:
    """Imported labels: their round, how many there are, how many of them match, and how many the run had before.

    If all were known, as after a second import of the same labels, the round is the last one of the run.
    corrected: pairs that were unsure before. report: rows that were skipped or settled. next_step: the command that
    trains on the labels, in words.
    """

    round: int
    labels: int
    matches: int
    known: int
    corrected: int
    report: Report
    next_step: str


def export_labels(
    run: Run,
    out: str | StoragePath,
    *,
    every_column: bool = False,
    split: Literal["train", "dev"] = "train",
    escape_formulas: bool = False,
) -> Labelled:
    """Write the labelled pairs of a run to a file, in the order of labelling; return all labels, as `Run.labelled`.

    out: .parquet, .csv or .jsonl, with the columns sentence1, sentence2 and label (1 match, 0 no match), without unsure
    pairs. every_column: also left_id, right_id, answer, round and source, and the unsure pairs, whose label is null.
    split: dev for the drawn pairs by which models were measured (dev_labels). escape_formulas: put a quote before cells
    of a CSV file that a spreadsheet would run; `import_labels` does not know such an id.

    Examples:
        >>> len(al_ray.export_labels(al_ray.load_run(folder / "run"), folder / "labels.csv", every_column=True))
        40

    Raises:
        BadFile: if the run has no label yet.
        BadOption: if `out` has another extension.
    """
    labelled = (run.folder.ledger if split == "train" else run.folder.dev_labels.ledger).labelled()
    if not len(labelled):
        raise BadFile(f"{run.path} has no label of {split} yet; label a batch first (`al-ray labels status`)")
    write_labels(storage_path(str(out)), labels_table(labelled, run.folder.task, every_column), escape_formulas)
    return labelled


def import_labels(
    run: str | StoragePath,
    labels: str | StoragePath,
    *,
    task: str | StoragePath | None = None,
    columns: str = LABEL_COLUMNS,
    table: TableOptions = TABLE,
) -> LabelImport:
    """Add the labels of a table, of another run or of suggested pairs that a run lacks as its next round.

    `al_ray.run` with as many rounds trains on them. run: a run folder, or a new folder, which needs the task.
    labels: a table; or a run folder, also of another task: its labels of pairs whose texts have the same ids and are
    the same here; or a folder of matches: the answers to its suggested pairs. columns: of a table, two ids and the
    label (1/0, yes/no, unsure), or two ids of matches. table: the format of the table, and what to do with bad rows. A
    label that contradicts the run's is a bad row; a yes or no for a pair that was unsure is a correction.

    Examples:
        >>> labels, columns = folder / "labels.csv", "left_id,right_id,answer"
        >>> al_ray.import_labels(folder / "moved", labels, task=folder / "task", columns=columns).labels
        40

    Raises:
        BadOption: if the strategy of the run trains only on pairs that it chooses, or a new folder has no task.
        BadFile: if the table has a bad row, which the message names, or no label at all.
        WrongFolder: if a round of the run waits for answers.
    """
    path, source = storage_path(str(run)), storage_path(str(labels))
    texts = None if task is None else storage_path(str(task))
    with writing(path, texts) as folder:
        _check_trains_on_labels(path)
        ledger, faults = _finished(folder.ledger), BadRowLog(table.bad_rows, OR_SKIP)
        content, left_out, by = _read_labels(source, columns, table, folder.task, faults)
        known, decided = ledger.labels_of(content.pairs), content.labels != UNSURE
        content.sheet.reject(
            decided & (known != OPEN) & (known != UNSURE) & (known != content.labels),
            lambda row: f"the run has the label {WORDS[known[row]]} for this pair (`al-ray labels correct`)",
            faults,
        )
        fresh, settled = known == OPEN, decided & (known == UNSURE)
        _require_labels(source, content)
        number = _add_round(ledger, _Labels(content.pairs, content.labels, by).filter(fresh), path)
        if settled.any():
            check_not_open(folder, content.pairs[settled])
            ledger.correct(content.pairs[settled], content.labels[settled])
    # An unsure pair that the run knows contradicts nothing, and changes nothing.
    same = int(((known == content.labels) | (~decided & (known != OPEN))).sum())
    matches, corrected = int((content.labels[fresh] == YES).sum()), int(settled.sum())
    counts = {**content.settled, **left_out, "labels of pairs that were unsure before": corrected}
    step = step_after_import(path, number, texts, source) if fresh.any() or corrected else NOTHING_NEW
    return LabelImport(number, int(fresh.sum()), matches, same, corrected, Report(tuple(faults.skipped), counts), step)


def _require_labels(source: StoragePath, content: LabelTable) -> None:
    if not len(content.labels):
        raise BadFile(f"{source} holds no label; there is nothing to import")


def _read_labels(
    source: StoragePath, columns: str, table: TableOptions, task: Task, faults: BadRowLog
) -> tuple[LabelTable, dict[str, int], Names]:
    """Return the labels of a run, of suggested pairs or of a table, counts of those that are left out, and labellers.

    The labeller (n,) of each is the language model that gave it, for its labels are not shown to it as examples; or the
    source.
    """
    names = label_column_names("`columns`", columns)
    of_run, of_matches = (source / "config.json").exists(), (source / RECORD).exists()
    if (of_run or of_matches) and names != label_column_names("`columns`", LABEL_COLUMNS):
        raise BadOption(f"`columns` goes with a table, and {source} is none, but a folder of al_ray; leave it out")
    # A path may hold bytes that are not UTF-8.
    name = os.fsencode(str(source)).decode("utf-8", "backslashreplace")
    if of_run:
        other = RunFolder(source, bound_task(source))
        content, left_out = labels_of_other_run(other, task)
        by = _labellers(other.ledger)[content.sheet.numbers].tolist()
        models = [one if one.startswith(PREFIX) else name for one in by]
        return content, left_out, np.array(models, dtype=object)
    if of_matches and isinstance(source, Path):
        content = read_suggested_labels(source, task, faults)
        return content, {}, np.full(len(content.labels), name, dtype=object)
    if not isinstance(source, Path):
        raise BadOption(
            f"{option('labels', source)} holds no run, and tables are read from local paths; copy it to one"
        )
    content = read_task_labels(source, names, labels_reading(table), task, faults)
    return content, {}, np.full(len(content.labels), name, dtype=object)


def _labellers(ledger: Ledger) -> Names:
    """Return who gave the label (n,) of each labelled pair, in the order of Ledger.labelled."""
    names = [np.empty(0, dtype=object)]
    for number in range(1, ledger.rounds + 1):
        names.append(labellers_of(ledger, number)[ledger.first_labels(number) != OPEN])
    return np.concatenate(names)


@contextmanager
def writing(path: StoragePath, task: StoragePath | None) -> Iterator[RunFolder]:
    """Open a run folder for writing, with no other writer at the same time; task: of a new folder."""
    texts = task_of(path, task)
    check_outside_task(path, texts)
    with opened(path, bound_task(path) if (path / "config.json").exists() else read_task(texts)) as folder:
        yield folder


def task_of(path: StoragePath, task: StoragePath | None) -> StoragePath:
    """Return the task folder of a run folder: the one in its config.json, or for a new folder the one given."""
    if (path / "config.json").exists():
        bound = storage_path(bound_config(path).task)
        if task is not None and task.resolve() != bound.resolve():
            raise BadOption(
                f"{option('task', task)}: {path} is a run of {bound}; leave `task` out, or give another `run`"
            )
        return bound
    if task is None:
        raise BadOption(f"{path} holds no config.json: give a run folder, or for a new one the `task` to import into")
    return task


def check_not_open(run: RunFolder, pairs: Pairs, split: str = "train") -> None:
    """Raise BadOption if people are labelling one of these pairs (k, 2), whose later answers would not count."""
    ledger = run.ledger if split == "train" else run.dev_labels.ledger
    number, bound = ledger.rounds, (run.path / "config.json").exists()
    batch = None if not number or ledger.sealed(number) else ledger.batch(number)
    if batch is None or batch.source == IMPORTED or not bound or not oracle_kind(bound_config(run.path).oracle).people:
        return
    count = int(np.isin(ledger.space.keys(pairs), ledger.space.keys(batch.pairs)).sum())
    if count:
        raise BadOption(
            f"round {number}{', dev' * (split != 'train')}: people are still labelling {count:,} of these pairs; "
            f"change the answer where it was given, in {ledger.round(number)} or on the page (nothing was corrected)"
        )


def _check_trains_on_labels(run: StoragePath) -> None:
    """Raise BadOption for a run whose strategy chooses all of its pairs without a model: it trains on no other."""
    if (run / "config.json").exists():
        strategy = bound_config(run).strategy
        if not STRATEGIES[strategy].uses_model:
            raise BadOption(
                f"{run} is a run of the strategy {strategy}, which trains on the pairs that it chooses alone; import "
                "the labels into another run (`run`)"
            )


def _add_round(ledger: Ledger, labels: _Labels, run: StoragePath) -> int:
    """Add labels that a run lacks as a round, after the rest of an interrupted import, and return the last round."""
    number = ledger.rounds
    if not len(labels.pairs):
        return number
    waiting = None if not number or ledger.sealed(number) else ledger.batch(number)
    if waiting is not None:
        if waiting.source != IMPORTED:
            raise WrongFolder(f"round {number} of {run} waits for answers; answer it first, then import")
        _add_answers(ledger, labels, run)
        labels = labels.filter(~np.isin(ledger.space.keys(labels.pairs), ledger.space.keys(waiting.pairs)))
    if len(labels.pairs):
        ledger.add_batch(ledger.rounds + 1, Batch(labels.pairs, np.full(len(labels.pairs), np.nan), IMPORTED))
        _add_answers(ledger, labels, run)
    return ledger.rounds


def _add_answers(ledger: Ledger, labels: _Labels, run: StoragePath) -> None:
    """Write the labels that the last round lacks, a file for each labeller; WrongFolder if one is not there."""
    number, keys = ledger.rounds, ledger.space.keys(labels.pairs)
    batch, order = ledger.batch(number), np.argsort(keys)
    assert batch is not None
    # An interrupted import may have written those of some labellers.
    rows = np.flatnonzero(ledger.first_labels(number) == OPEN)
    wanted = ledger.space.keys(batch.pairs[rows])
    places = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    lacking = keys[places] != wanted
    if lacking.any():
        (left,), (right,) = ledger.task.ids_of(batch.pairs[rows[lacking]][:1])
        raise WrongFolder(
            f"round {number} of {run} is an import that was interrupted, and {int(lacking.sum()):,} of its pairs have "
            f"no label here, such as {left}, {right}; import the same labels again, or others that have all its pairs"
        )
    for by in sorted(set(labels.by[places].tolist())):
        own = labels.by[places] == by
        ledger.add_answers(number, make_answers(rows[own], labels.labels[places[own]], by))
    ledger.seal(number)


def _finished(ledger: Ledger) -> Ledger:
    """Complete an import that was interrupted after its labels were written, and return the ledger."""
    batch = ledger.batch(ledger.rounds) if ledger.rounds else None
    if batch is not None and batch.source == IMPORTED and OPEN not in ledger.first_labels(ledger.rounds):
        ledger.seal(ledger.rounds)
    return ledger
