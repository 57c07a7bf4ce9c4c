"""What a match folder keeps, so that new texts can be matched with known ones.

state.json                    the number of the state, the task of its texts, the model and the rules of matching, and
                              whether candidates have cosines
state-NNNN/candidates.parquet left, right (rows of the task), score, with a matcher or a neighbourhood also cosine: the
                              pairs among which matches were assigned
state-NNNN/labels.parquet     left, right, yes: pairs whose labels overruled the model
state-NNNN/columns.parquet    cells of the columns that the rules read, by node; only if they read any
state-NNNN/clusters.parquet   cluster, the id of each text's cluster, by row; right texts follow left ones

A new state is written beside the old one; state.json is replaced last and in one step. So a command that is stopped
leaves the old state or the new one.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.incremental.about import CLUSTERS as CLUSTER_COUNTS
from al_ray.apps.matching.incremental.about import TEXTS, StateAbout
from al_ray.core.errors import BadOption, WrongFolder
from al_ray.core.pairs import Pairs, Rows, as_pairs
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.task import Task
from al_ray.datasets.strings import Strings, as_array
from al_ray.datasets.task_folder import read_task
from al_ray.storage.files import check_fields, file_in, read_json, read_parquet, write_parquet, write_root
from al_ray.storage.uri import StoragePath

STATE, COLUMNS = "state.json", "columns.parquet"
PAIRS = (("left", pa.int64()), ("right", pa.int64()))
CANDIDATES, LABELS = pa.schema([*PAIRS, ("score", pa.float64())]), pa.schema([*PAIRS, ("yes", pa.bool_())])
COSINE = pa.field("cosine", pa.float64())
CLUSTERS = pa.schema([("cluster", pa.int64())])
# Fields of state.json, of its field about, and of the parts of that, with their types.
FIELDS = {"number": int, "task": str, "next_cluster": int, "about": dict}
ABOUT = {"model": dict, "rules": dict, "table": dict}
PARTS = {
    "model": {"run": str, "round": int | None, "digest": str},
    "rules": {"assign": str, "clusters": str, "cutoff": dict},
}
RULES = {
    "always": list,
    "at_most_one": str | None,
    "split_bridges": float | None,
    "canonical": str,
    "golden": str | None,
}
CUTOFF = {"score": float | None, "source": str, "precision": dict | float | None, "recall": float | None}
INTERVAL = {"value": float, "low": float, "high": float}
FIX = "restore it, or match all texts again with another `out`"


@dataclass(frozen=True)
class MatchState:
    """The result of matching a set of texts.

    number: of the state, from 1. task: name of the folder of its texts. candidates: the pairs that may be matches, with
    rows of that task. yes, no: (n, 2) pairs whose labels overruled the model. clusters: (nodes,) ids of the clusters;
    of two tables the right texts follow the left ones, and earlier versions have none. next_cluster: first id that was
    never used. about: the model, the rules, the columns of the tables, and the counts of changes.
    """

    number: int
    task: str
    candidates: ScoredPairs
    yes: Pairs
    no: Pairs
    clusters: Rows
    next_cluster: int
    about: StateAbout


def task_name(task: Task) -> str:
    """Return the name of the folder of the texts."""
    return f"task-{task.digest[:12]}"


def digest_of_cells(task: Task) -> str:
    """Return a digest of how texts are divided into cells, which a matcher compares; the task's own is of the texts."""
    content = hashlib.sha256()
    for corpus in (task.left, task.right):
        if corpus.fields is not None:
            content.update(json.dumps([corpus.fields.names, corpus.fields.types]).encode())
            content.update(np.ascontiguousarray(corpus.fields.lengths, dtype="<i4").data)
    return content.hexdigest()


def check_not_extended(folder: StoragePath, made_from: str, task: Task) -> int:
    """Return the number of the state of a match folder, 0 without one.

    WrongFolder if it is of other texts or of another model, or if `match_into` has changed the texts: a command that
    matches all texts would throw them away. made_from: digest of the model and the texts of that command.
    """
    if not (folder / STATE).exists():
        return 0
    state = read_json(folder / STATE, FIELDS, FIX)
    if state["about"].get("made_from") != made_from:
        raise WrongFolder(f"{folder} holds matches of another model or of other texts; choose another `out`")
    if state["task"] != task_name(task):
        raise WrongFolder(
            f"{folder} holds more or other texts, which `al_ray.match_into` has added; add texts by that, or "
            "match all of them with another `out`"
        )
    return state["number"]


def read_state(folder: StoragePath) -> tuple[MatchState, Task]:
    """Read the state of a match folder and its task; BadOption if it has none, BadFile if it is damaged."""
    if (folder / "config.json").exists() or (folder / "task.json").exists():
        raise BadOption(f"{folder} is a run or a task; give the folder of matches that `al_ray.match` wrote")
    if not (folder / STATE).exists():
        raise BadOption(
            f"{folder} holds no matches of tables to which new texts can be added; match the known ones first, by "
            "`al_ray.match`, without `MatchOptions.search.kind='knn'` and without `MatchOptions.oracle`"
        )
    about = read_json(folder / STATE, FIELDS, FIX)
    for names, part in ((ABOUT, about["about"]), *((names, about["about"].get(name)) for name, names in PARTS.items())):
        check_fields(f"the field about of {folder / STATE}", part, names, FIX)
    for name, names in (("texts", TEXTS), ("clusters", CLUSTER_COUNTS)):
        # Only new texts bring them.
        if name in about["about"]:
            place = f"the field {name} of the field about of {folder / STATE}"
            check_fields(place, about["about"][name], dict.fromkeys(names, int), FIX)
    rules = about["about"]["rules"]
    # Earlier versions kept the clustering alone.
    check_fields(f"the rules in {folder / STATE}", rules, {one: RULES[one] for one in RULES if one in rules}, FIX)
    cutoff = rules["cutoff"]
    check_fields(f"the cutoff in {folder / STATE}", cutoff, CUTOFF, FIX)
    if isinstance(cutoff["precision"], dict):
        check_fields(f"the precision of the cutoff in {folder / STATE}", cutoff["precision"], INTERVAL, FIX)
    inner = folder / _name(about["number"])
    # Earlier versions kept cosines with a matcher alone, and did not say so.
    has_cosines = about.get("cosines", "cells" in about["about"])
    found = read_parquet(inner / "candidates.parquet", CANDIDATES.append(COSINE) if has_cosines else CANDIDATES)
    labels = read_parquet(inner / "labels.parquet", LABELS)
    yes, pairs = labels["yes"].to_numpy(), _pairs(labels)
    clusters = read_parquet(inner / "clusters.parquet", CLUSTERS)["cluster"].to_numpy()
    cosines = found["cosine"].to_numpy() if has_cosines else None
    candidates = ScoredPairs(_pairs(found), found["score"].to_numpy(), cosines)
    state = MatchState(
        about["number"], about["task"], candidates, pairs[yes], pairs[~yes], clusters,
        about["next_cluster"], StateAbout.of_dict(about["about"]),
    )  # fmt: skip
    task = read_task(file_in(folder, about["task"], folder / STATE, FIX))
    columns = state.about.columns
    return state, _with_columns(task, inner / COLUMNS, columns) if columns else task


def _with_columns(task: Task, path: StoragePath, names: Sequence[str]) -> Task:
    """Return a task with the columns of its texts."""
    table = read_parquet(path, pa.schema([(name, pa.large_string()) for name in names]), fix=FIX)
    end = len(task.left)
    left, right = (
        {name: Strings.of([table[name].combine_chunks()[part]]) for name in names}
        for part in (slice(0, end), slice(Nodes(task).first_right, None))
    )
    one = replace(task.left, columns=left)
    return replace(task, left=one, right=one if task.symmetric else replace(task.right, columns=right))


def write_state(folder: StoragePath, state: MatchState, task: Task) -> None:
    """Write a state of a task; it holds from the moment when state.json is replaced."""
    inner = folder / _name(state.number)
    if names := list(task.left.columns):
        sides = (task.left,) if task.symmetric else (task.left, task.right)
        cells = {name: pa.concat_arrays([as_array(side.columns[name]) for side in sides]) for name in names}
        write_parquet(inner / COLUMNS, pa.table(cells))
    found = _table(CANDIDATES, state.candidates.pairs, state.candidates.scores)
    if state.candidates.other is not None:
        found = found.append_column(COSINE, [state.candidates.other])
    write_parquet(inner / "candidates.parquet", found)
    yes = np.arange(len(state.yes) + len(state.no)) < len(state.yes)
    write_parquet(inner / "labels.parquet", _table(LABELS, np.concatenate([state.yes, state.no]), yes))
    write_parquet(inner / "clusters.parquet", pa.table({"cluster": state.clusters}).cast(CLUSTERS))
    write_root(
        folder / STATE,
        {
            "number": state.number, "task": state.task, "next_cluster": state.next_cluster,
            "about": state.about.as_dict(), "cosines": state.candidates.other is not None,
        },
    )  # fmt: skip


def remove_state(folder: StoragePath) -> None:
    """Remove the state of earlier matches, so that no new texts are added to what is now other matches."""
    (folder / STATE).unlink(missing_ok=True)


def remove_older(folder: StoragePath, state: MatchState) -> None:
    """Remove the states before this one, and the tasks and token ids that only they needed.

    All of it was made by this command from what is still there. Objects of an object store stay.
    """
    if not isinstance(folder, Path):
        return
    for path in [*folder.glob("state-*"), *folder.glob("task-*"), *folder.glob("work"), *folder.glob("pool")]:
        if path.is_dir() and path.name not in (_name(state.number), state.task):
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def removed_on_error(folder: StoragePath) -> Iterator[None]:
    """Remove the tasks and token ids that a command writes if it is refused; objects of an object store stay.

    Vectors stay, too: they are found by the digests of model and texts, and take long to make.
    """
    before = _work(folder)
    try:
        yield
    except BadOption:
        for path in _work(folder) - before:
            shutil.rmtree(path, ignore_errors=True)
        raise


def _work(folder: StoragePath) -> set[Path]:
    if not isinstance(folder, Path):
        return set()
    patterns = "task-*", "work", "pool/*", "pool"
    return {path for pattern in patterns for path in folder.glob(pattern) if path.is_dir()}


def _name(number: int) -> str:
    return f"state-{number:04}"


def _table(schema: pa.Schema, pairs: Pairs, values: np.ndarray) -> pa.Table:
    columns = pairs[:, 0], pairs[:, 1], values
    return pa.table(dict(zip(schema.names, columns, strict=True))).cast(schema)


def _pairs(table: pa.Table) -> Pairs:
    return as_pairs(table["left"].to_numpy(), table["right"].to_numpy())
