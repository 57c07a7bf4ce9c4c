"""Weights & Biases through a callback of Tune: one tracked run for each cell, grouped by configuration.

MLflow: runs/trackers/mlflow.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ray import tune
from ray.air.integrations.wandb import WandbLoggerCallback
from ray.tune.result import TIMESTEPS_TOTAL

from al_ray.apps.grid.spec import Cell, GridConfig
from al_ray.runs.trackers.mlflow import refuse_missing, tracking

FIELDS = "fields"
"""Key of a result: the names of the metrics that a trial reports; Tune adds its own, such as `pid` and `done`."""


def round_metrics(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a round in a result of Tune, without those that Tune adds."""
    return {name: result[name] for name in result[FIELDS]}


def tracked(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a tracker gets of a result: the metrics of a round, and the step by which it orders them."""
    return {**round_metrics(result), TIMESTEPS_TOTAL: result[TIMESTEPS_TOTAL]}


class Wandb(WandbLoggerCallback):
    """Weights & Biases callback that groups runs that differ only in seed."""

    def __init__(self, project: str, cells: Sequence[Cell]) -> None:
        """project: created by the service if it does not exist."""
        super().__init__(project=project)
        self.groups = {cell.name: cell.group for cell in cells}

    def log_trial_start(self, trial: Any) -> None:
        """Start the Weights & Biases run of a trial."""
        # The base class reads this attribute for the run that it starts.
        self.group = self.groups[trial.config["cell"]]
        super().log_trial_start(trial)

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Log the metrics of a round."""
        super().log_trial_result(iteration, trial, tracked(result))


def trackers(how: GridConfig, cells: Sequence[Cell]) -> list[tune.Callback]:
    """Return the callbacks of the trackers that Tune calls."""
    return [] if how.wandb is None else [Wandb(how.wandb, cells)]


def refuse_untracked(how: GridConfig) -> None:
    """Raise BadOption for a tracker whose package is not installed, or whose server does not answer."""
    tracking(how.mlflow)
    if how.wandb is not None:
        refuse_missing("--wandb", "wandb", "pip install wandb")
