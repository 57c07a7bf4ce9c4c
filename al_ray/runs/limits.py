"""limits.json of a run folder: what guards money and time, which may change between sessions of a run.

It holds --max-cost, --cost-per-pair and the --stop options as they were given last. Without them a command that resumes
the run keeps to the limits of the session before; a new value replaces the old one, and `none` removes it.
"""

from dataclasses import replace
from typing import Any

from al_ray.active_learning.stopping import StopConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.config.serialization import as_dict
from al_ray.core.errors import BadFile, BadOption
from al_ray.storage.files import read_json, write_json
from al_ray.storage.uri import StoragePath

LIMITS = "limits.json"
COSTS = ("cost_per_pair", "max_cost")


def in_force(folder: StoragePath, oracle_options: OracleConfig, stop: StopConfig) -> tuple[OracleConfig, StopConfig]:
    """Return the options with the stored limits where they give none; a limit that was lifted is None.

    Raises BadFile for a limits.json that is damaged.
    """
    path = folder / LIMITS
    stored = read_json(path, []) if path.exists() else {}
    given = _limits(oracle_options, stop)
    if not isinstance(stored, dict) or not set(stored) <= set(given):
        raise BadFile(f"{path} holds other fields than {', '.join(given)}; restore it")
    if not all(isinstance(value, int | float) for value in stored.values()):
        raise BadFile(f"{path} holds a limit that is not a number; restore it")
    limits = {name: stored.get(name) if value is None else value for name, value in given.items()}
    limits = {name: None if value == "none" else value for name, value in limits.items()}
    try:
        return (
            replace(oracle_options, **{name: limits[name] for name in COSTS}),
            StopConfig(**{name: value for name, value in limits.items() if name not in COSTS}),
        )
    except BadOption as error:
        raise BadFile(f"{path}: {error}; restore it") from error


def stored_limits(folder: StoragePath) -> dict[str, float]:
    """Return the stored limits by the option that changes them."""
    oracle_options, stop = in_force(folder, OracleConfig(), StopConfig())
    stops = {f"`al-ray run ... --stop.{name.replace('_', '-')}`": value for name, value in as_dict(stop).items()}
    named = {"`al-ray run ... --max-cost`": oracle_options.max_cost, **stops}
    return {option: value for option, value in named.items() if isinstance(value, int | float)}


def write_limits(folder: StoragePath, oracle_options: OracleConfig, stop: StopConfig) -> None:
    """Write the limits in force, unless they are the stored ones."""
    path = folder / LIMITS
    limits = {name: value for name, value in _limits(oracle_options, stop).items() if value is not None}
    if limits != (read_json(path, []) if path.exists() else {}):
        write_json(path, limits)


def _limits(oracle_options: OracleConfig, stop: StopConfig) -> dict[str, Any]:
    return {**{name: getattr(oracle_options, name) for name in COSTS}, **as_dict(stop)}
