"""Labels of suggested pairs reach the texts that people saw, and no others under the same ids."""

import csv
from pathlib import Path

import numpy as np
import pytest

import al_ray
from al_ray.apps.drift.folder import write_suggested
from al_ray.apps.matching.folder import RECORD
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.pairs import as_pairs
from al_ray.core.task import Corpus, Task
from al_ray.datasets.tables.format_options import TableOptions
from al_ray.datasets.task_folder import sealed, write_task
from al_ray.storage.files import write_json

FIRST, SECOND = np.array([0, 2]), np.array([1, 3])


def other(task: Task, row: int) -> Task:
    """The task with another text in a row of its left side."""
    texts = list(task.left.texts)
    texts[row] += " of another kind"
    left = Corpus(task.left.ids, tuple(texts))
    return sealed(task.name, task.symmetric, left, left if task.symmetric else task.right, task.splits)


def answered(folder: Path, task: Task) -> Path:
    """The folder of matches of a task's texts with two suggested pairs, both labelled yes."""
    write_suggested(folder, task, as_pairs(FIRST, SECOND), np.full(2, 0.5), np.zeros((2, 2)))
    write_json(folder / RECORD, {})
    with (folder / "suggested.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = [row | {"label": "yes"} for row in csv.DictReader(file)]
    with (folder / "suggested.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return folder


def test_labels_of_other_texts_under_the_same_ids_are_bad_rows(task: Task, tmp_path: Path):
    split = task.split("train").space
    if not split.holds(as_pairs(FIRST, SECOND)).all():
        pytest.skip("the pairs are not of train")
    write_task(task, tmp_path / "task", {})
    same = answered(tmp_path / "same", task)
    assert al_ray.import_labels(tmp_path / "run", same, task=tmp_path / "task").matches == 2
    with pytest.raises(BadOption, match=r"`columns` goes with a table, and .*same is none"):
        al_ray.import_labels(tmp_path / "refused", same, task=tmp_path / "task", columns="a,b,c")
    # One text is another: its label is left out, the other one is taken.
    one = answered(tmp_path / "one", other(task, 0))
    words = rf"the text of {task.left.ids[0]} is another in {task.name}: first make a task that has the new texts"
    with pytest.raises(BadFile, match=words):
        al_ray.import_labels(tmp_path / "refused", one, task=tmp_path / "task")
    skipping = TableOptions(bad_rows="skip")
    assert al_ray.import_labels(tmp_path / "other", one, task=tmp_path / "task", table=skipping).labels == 1
    # All texts are others, as of a table without ids, whose rows are numbered.
    both = answered(tmp_path / "both", other(other(task, 0), 2))
    with pytest.raises(BadFile, match="every row is bad"):
        al_ray.import_labels(tmp_path / "none", both, task=tmp_path / "task", table=skipping)
