"""Labels that are there already: stated with the task, bought by a run, or in a user's own table."""

from pathlib import Path

import numpy as np

from al_ray.core.errors import BadFile, BadOption, MissingSplit
from al_ray.core.pairs import Pairs
from al_ray.core.records import UNSURE, YES, Labelled
from al_ray.core.scoring import Labels
from al_ray.core.strategy import stated
from al_ray.core.supervised import STATED
from al_ray.core.task import Task
from al_ray.data.files import read_json
from al_ray.data.labels import read_said
from al_ray.data.run_folder import RunFolder
from al_ray.data.sheet import Faults
from al_ray.data.tablefiles import Reading
from al_ray.storage.places import Place, place

GIVEN = "given"


def given(words: str, task: Task, columns: tuple[str, ...], reading: Reading, faults: Faults) -> Labelled:
    """The labels that --labels names, yes and no alone, each pair of the training split once.

    Stated pairs are in order of key, those of a run and of a table in theirs. Of a pair that a run bought both ways
    round the last answer holds. columns, reading, faults: of a table.
    """
    if words == STATED:
        return _stated(task)
    path = place(words)
    if (path / "config.json").exists():
        return _of_run(path, task)
    if not isinstance(path, Path):
        raise BadOption(f"--labels {words} holds no config.json, and a table is read from a local path; copy it near")
    if not path.exists():
        raise BadFile(f"--labels {words} is not there; give the folder of a run, a table of labels, or {STATED}")
    if path.is_dir():
        raise BadFile(f"{words} holds no config.json; give the folder of a run, a table of labels, or {STATED}")
    said = read_said(path, columns, reading, task, faults)
    return _sure(said.pairs, said.labels, words)


def _stated(task: Task) -> Labelled:
    split = task.split("train")
    keys = stated(split)
    if not len(keys):
        raise MissingSplit(f"no pair is stated in the training split of task {task.name!r}; give other --labels")
    return _sure(split.space.pairs(keys), np.isin(keys, split.positive_keys).astype(np.uint8), STATED)


def _of_run(path: Place, task: Task) -> Labelled:
    about = read_json(path / "config.json", ["task_digest"])
    if about["task_digest"] != task.digest:
        raise BadOption(f"--labels {path} belongs to another task than --task; give a run of the same task")
    if "strategy" not in about:
        raise BadOption(f"--labels {path} is no run; give the folder of one (jobs.run), a table, or {STATED}")
    bought, space = RunFolder(path, task).state().labelled, task.split("train").space
    if not len(bought):
        raise BadFile(f"{path} has no complete round yet; go on with it first, or give other --labels")
    keys = space.keys(bought.pairs)
    last = np.sort(len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1])
    return _sure(space.pairs(keys[last]), bought.labels[last], str(path))


def _sure(pairs: Pairs, labels: Labels, words: str) -> Labelled:
    sure = labels != UNSURE
    if sure.sum() < 2:
        raise BadFile(f"{words} holds {int(sure.sum())} labels that say yes or no; give at least two")
    return Labelled().extended(pairs[sure], (labels[sure] == YES).astype(np.uint8), 1, GIVEN)
