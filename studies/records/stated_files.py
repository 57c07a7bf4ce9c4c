"""The pairs of a benchmark's own label file, as places of a task."""

import csv
from pathlib import Path

import numpy as np

from al_ray.core.errors import BadFile, BadOption
from al_ray.core.pairs import Pairs, as_pairs
from al_ray.core.task import Corpus, Task
from studies.records.pair_figures import Labels


def read_stated(path: Path, columns: str, task: Task) -> tuple[Pairs, Labels]:
    """Read a CSV file of pairs -> (n, 2) rows of the task, and whether they match.

    columns: names of the columns of left id, right id, and label (1 for a match), with commas between them. BadFile for
    an id that the task does not have, or a column that the file does not have.
    """
    names = columns.split(",")
    if len(names) != 3:
        raise BadOption(f"--pair-columns is {columns}; give three names, such as ltable_id,rtable_id,label")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if rows and not set(names) <= set(rows[0]):
        raise BadFile(f"{path} has no columns {columns}; give --pair-columns")
    pairs = pairs_of_ids(path, task, [row[names[0]] for row in rows], [row[names[1]] for row in rows])
    return pairs, np.array([row[names[2]] == "1" for row in rows], dtype=np.bool_)


def pairs_of_ids(path: Path, task: Task, left: list[str], right: list[str]) -> Pairs:
    """(n,) ids of both sides, from a file -> (n, 2) rows of the task; BadFile for an id that the task does not have."""
    return as_pairs(_rows(path, task.left, left), _rows(path, task.right, right))


def _rows(path: Path, corpus: Corpus, ids: list[str]) -> list[int]:
    row = {name: number for number, name in enumerate(corpus.ids)}
    unknown = next((name for name in ids if name not in row), None)
    if unknown is not None:
        raise BadFile(f"{path} has the id {unknown}, which the task does not have; give the file of these tables")
    return [row[name] for name in ids]
