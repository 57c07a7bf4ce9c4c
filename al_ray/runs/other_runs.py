"""Runs that an option of another command names: checked before any work."""

import re
from pathlib import Path

from al_ray.active_learning.config import RunConfig
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.naming import Code, command, option
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task
from al_ray.runs.run_folder import RunFolder, complete_rounds
from al_ray.runs.run_state import at_its_end, bound_config
from al_ray.storage.files import read_json
from al_ray.storage.uri import StoragePath, storage_path


def bound_task(path: StoragePath) -> Task:
    """Return the task of a run; WrongFolder if its folder holds another one now, whose texts the labels are not of.

    WrongFolder, too, if there is no task: it was moved, or its path is relative to another folder than the current one.
    """
    home = storage_path(bound_config(path).task)
    if _is_missing(home):
        resume = command("run", config=path, out=path, task=Code("TASK"))
        relative = isinstance(home, Path) and not home.is_absolute()
        fix = " here; go to the folder in which the run was started, or" if relative else ";"
        raise WrongFolder(
            f"{path} is a run of the task {home}, which does not exist{fix} restore it, or resume the run with its "
            f"new path: {resume}"
        )
    task, digest = read_task(home), read_json(path / "config.json", ["task_digest"])["task_digest"]
    if digest != task.digest and RunFolder(path, task).ledger.rounds:
        raise WrongFolder(f"{home} is not the task of {path} any more, but another one; restore it")
    return task


def _is_missing(home: StoragePath) -> bool:
    try:
        return not home.exists()
    except OSError:
        # A folder above that may not be read: read_task says so.
        return False


def run_of_model(folder: StoragePath) -> tuple[StoragePath, int] | None:
    """Return the run and the round in which a model folder lies, RUN/round-NNN/model; None of a copied one."""
    run, name = folder.parent.parent, re.fullmatch(r"round-(\d{3,})", folder.parent.name)
    return (run, int(name[1])) if name and folder.name == "model" and (run / "state.json").exists() else None


def trained(path: StoragePath, task: Task, name: str) -> tuple[RunConfig, RunFolder]:
    """Return config and folder of the run that an option names; an error unless it is of this task and has a model."""
    config = bound_config(path)
    if read_json(path / "config.json", ["task_digest"])["task_digest"] != task.digest:
        raise BadOption(f"{option(name, path)} is a run of another task; give one of the same task")
    folder = RunFolder(path, task)
    if not folder.last:
        raise BadFile(f"{option(name, path)} has no complete round, and so no model; run it first (`al_ray.run`)")
    folder.check_weights_exist(folder.last)
    return config, folder


def count_classes(path: StoragePath) -> tuple[int, int]:
    """Return how many positives and negatives a finished run has, without pairs labelled unsure; else BadOption."""
    config = bound_config(path)
    lines = complete_rounds(path)
    if not lines or not at_its_end(path, config):
        raise BadOption(f"{path} has {len(lines)} of {len(config.batches)} rounds; run it to its end first")
    unsure = sum(line.get("batch_unsure") or 0 for line in lines)
    return int(lines[-1]["positives"]), int(lines[-1]["labels"] - lines[-1]["positives"]) - unsure
