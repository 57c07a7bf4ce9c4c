"""Existing labels: those stated in the task, those of a run, or those in a user's own table."""

from pathlib import Path

import numpy as np

from al_ray.active_learning.strategies import stated
from al_ray.core.errors import BadFile, BadOption, MissingSplit, WrongFolder
from al_ray.core.labels import STATED, UNSURE, Batch, Labelled, make_answers
from al_ray.core.naming import option
from al_ray.core.pairs import Pairs
from al_ray.core.same_texts import rows_in
from al_ray.core.scorer import Labels
from al_ray.core.task import Task
from al_ray.datasets.tables.columns import TableRows
from al_ray.datasets.tables.label_tables import LabelTable, read_task_labels
from al_ray.datasets.tables.reader import TableFormat
from al_ray.datasets.tsv import BadRowLog
from al_ray.runs.config_file import read_config_file
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.files import read_json
from al_ray.storage.uri import StoragePath, storage_path

GIVEN, COLUMNS = "given", ("left_id", "right_id", "label")
FIXED = TableFormat(fixed=True)


def read_existing_labels(
    words: str,
    task: Task,
    columns: tuple[str, ...] = COLUMNS,
    reading: TableFormat = FIXED,
    faults: BadRowLog | None = None,
) -> Labelled:
    """Return the yes and no labels that --labels names, each pair of the training split once.

    Stated pairs are in order of key, those of a run in the order of rounds, those of a table in the order of rows. If
    a run labelled both (a, b) and (b, a), the later label is used. columns, reading, faults: for a table; without
    faults a bad row raises BadFile.
    """
    if words == STATED:
        return _stated(task)
    path = storage_path(words)
    if (path / "config.json").exists():
        return _of_run(path, task)
    if not isinstance(path, Path):
        raise BadOption(
            f"{option('labels', words)} holds no config.json, and tables are read from local paths; copy it to a local "
            "path"
        )
    if not path.exists():
        raise BadFile(
            f"{option('labels', words)} does not exist; give the folder of a run, a table of labels, or {STATED}"
        )
    if path.is_dir():
        raise BadFile(f"{words} holds no config.json; give the folder of a run, a table of labels, or {STATED}")
    table = read_task_labels(path, columns, reading, task, faults or BadRowLog("fail"))
    return _decided(table.pairs, table.labels, words)


def _stated(task: Task) -> Labelled:
    split = task.split("train")
    keys = stated(split)
    if not len(keys):
        raise MissingSplit(f"no pair is stated in the training split of task {task.name!r}; give other `labels`")
    return _decided(split.space.pairs(keys), np.isin(keys, split.positive_keys).astype(np.uint8), STATED)


def _of_run(path: StoragePath, task: Task) -> Labelled:
    about = read_json(path / "config.json")
    if not isinstance(about, dict) or "strategy" not in about:
        raise BadOption(
            f"{option('labels', path)} is not a run; give the folder of one (`al_ray.run`), a table, or {STATED}"
        )
    if read_config_file(path)["task_digest"] != task.digest:
        raise BadOption(f"{option('labels', path)} belongs to another task than `task`; give a run of the same task")
    labelled, space = RunFolder(path, task).state().labelled, task.split("train").space
    if not len(labelled):
        raise BadFile(
            f"{path} has no complete round yet; finish a round of it first (`al_ray.run`), or give other `labels`"
        )
    keys = space.keys(labelled.pairs)
    last = np.sort(len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1])
    return _decided(space.pairs(keys[last]), labelled.labels[last], str(path))


def labels_of_other_run(run: RunFolder, task: Task) -> tuple[LabelTable, dict[str, int]]:
    """Return the labels of a run that are labels of training pairs of a task, the latest of each pair, with counts.

    The task may be another than that of the run: a text is found by its id, and only if it is still the same text. The
    rows of the table are numbered as the pairs of Ledger.labelled.
    """
    before = run.task
    if before.symmetric != task.symmetric:
        kinds = "one set of texts", "two sets of texts"
        there, here = kinds if before.symmetric else kinds[::-1]
        raise BadOption(
            f"{option('labels', run.path)} is a run on {there}, and the task has {here}; give a run on such a task"
        )
    labelled, space = run.ledger.labelled(), task.split("train").space
    pairs, changed = rows_in(task, before, labelled.pairs)
    here = space.holds(pairs)
    keys, labels = space.keys(pairs[here]), labelled.labels[here]
    last = np.sort(len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1])
    sheet = TableRows(Path(str(run.path)), {}, np.flatnonzero(here)[last], None)
    table = LabelTable(
        sheet, space.pairs(keys[last]), labels[last], len(last), 0, int((labels[last] == UNSURE).sum()), 0
    )
    return table, {
        "labels that are not imported, as a text of the pair has changed": int(changed.sum()),
        "labels that are not imported, as the pair is none of train here": int((~here & ~changed).sum()),
    }


def _decided(pairs: Pairs, labels: Labels, words: str) -> Labelled:
    labelled = Labelled().extended(pairs, labels, 1, GIVEN).decided
    if len(labelled) < 2:
        raise BadFile(f"{words} holds {len(labelled)} labels yes or no; give at least two")
    return labelled


def write_first_round(folder: RunFolder, labelled: Labelled) -> None:
    """Write labels as the first round of a run, or check that they are that round; WrongFolder if they are not."""
    ledger, out = folder.ledger, folder.path
    batch = ledger.batch(1)
    if batch is None:
        ledger.add_batch(1, Batch(labelled.pairs, np.full(len(labelled), np.nan), GIVEN))
    elif not np.array_equal(batch.pairs, labelled.pairs):
        raise WrongFolder(f"{out} holds other labels; give another `out`")
    if not ledger.sealed(1):
        ledger.add_answers(1, make_answers(np.arange(len(labelled)), labelled.labels, GIVEN))
        ledger.seal(1)
    if not np.array_equal(ledger.first_labels(1), labelled.labels):
        raise WrongFolder(f"{out} holds the same pairs with other labels; give another `out`")
