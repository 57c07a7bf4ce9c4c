"""The command that trains a run on the labels that it has."""

import shlex

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.core.config.oracle import oracle_kind
from al_ray.runs.run_folder import bound_config
from al_ray.storage.uri import StoragePath


def resume_command(run: StoragePath, rounds: int, task: StoragePath | None = None) -> str:
    """Return the command that trains a run up to the last of these rounds; task: for a folder without a config.json."""
    out = shlex.quote(str(run))
    if not (run / "config.json").exists():
        return f"python -m jobs.run --task {shlex.quote(str(task))} --out {out}"
    config = bound_config(run)
    if rounds > config.rounds:
        return f"python -m jobs.run --out {out} --config {out} --rounds {rounds}{not_stored(config)}"
    return f"python -m jobs.run --out {out} --config {out}{not_stored(config)}"


def not_stored(config: RunConfig) -> str:
    """Return the options for the end of a command that resumes a run which no folder stores."""
    options = oracle_kind(config.oracle).resumed_with
    return f" {options}" if options else ""


def hint(config: RunConfig) -> str:
    """Return what to say before such a command of the options that end it."""
    group = oracle_kind(config.oracle).resumed_with.partition(".")[0]
    return f" (with all {group} options as before)" if group else ""


def step_after_import(run: StoragePath, rounds: int, task: StoragePath | None, source: StoragePath) -> str:
    """Return the command that trains on imported labels, in words. source: where they came from."""
    if (run / "config.json").exists():
        return f"to train on them{hint(bound_config(run))}: {resume_command(run, rounds)}"
    if not (source / "config.json").exists():
        return f"to train on them (add the options of the run): {resume_command(run, rounds, task)}"
    # A new run with the options of the run that had the labels.
    other = bound_config(source)
    out, texts, config = (shlex.quote(str(path)) for path in (run, task, source))
    command = f"python -m jobs.run --config {config} --task {texts} --out {out}"
    if not STRATEGIES[other.strategy].uses_model:
        # Its strategy would train only on pairs that it chooses.
        command = f"python -m jobs.run --config {config} --task {texts} --out {out} --strategy uncertainty"
    return f"to train on them{hint(other)}: {command}{not_stored(other)}"
