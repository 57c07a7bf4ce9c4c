"""The call that trains a run on the labels that it has."""

from pathlib import Path
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.core.config.oracle import oracle_kind
from al_ray.core.naming import Code, call, config_at, options_of
from al_ray.runs.run_folder import bound_config
from al_ray.storage.databases.table_path import TablePath
from al_ray.storage.uri import StoragePath, Uri


def resume_call(run: StoragePath, rounds: int, task: StoragePath | None = None) -> str:
    """Return the call that trains a run up to the last of these rounds; task: for a folder without a config.json."""
    if not (run / "config.json").exists():
        return call("run", config=options_of("RunConfig", task=task), out=run)
    config = bound_config(run)
    more = rounds if rounds > config.rounds else None
    return call("run", out=run, config=config_at(run, rounds=more), **_not_stored(config))


def hint(config: RunConfig) -> str:
    """Return what to say before such a call of the options that no folder stores."""
    options = oracle_kind(config.oracle).resumed_with
    return f" (with all options of {options[0][0].partition('.')[0]} as before)" if options else ""


def step_after_import(run: StoragePath, rounds: int, task: StoragePath | None, source: TablePath) -> str:
    """Return the call that trains on imported labels, in words. source: where they came from."""
    if (run / "config.json").exists():
        return f"to train on them{hint(bound_config(run))}: {resume_call(run, rounds)}"
    if not isinstance(source, Path | Uri) or not (source / "config.json").exists():
        return f"to train on them (add the options of the run): {resume_call(run, rounds, task)}"
    # A new run with the options of the run that had the labels.
    other = bound_config(source)
    # A strategy without a model would train only on pairs that it chooses.
    strategy = None if STRATEGIES[other.strategy].uses_model else "uncertainty"
    config = config_at(source, task=task, strategy=strategy)
    return f"to train on them{hint(other)}: {call('run', config=config, out=run, **_not_stored(other))}"


def _not_stored(config: RunConfig) -> dict[str, Any]:
    """Return the argument of a call that resumes a run whose options no folder stores, with words for their values."""
    words = {name.partition(".")[2]: word for name, word in oracle_kind(config.oracle).resumed_with}
    options = ", ".join(f"{name}={word}" for name, word in words.items())
    return {"oracle_options": Code(f"OracleConfig(llm=LlmConfig({options}))")} if words else {}
