"""MLflow and Weights & Biases through Tune's callbacks: one tracked run for each cell, grouped by configuration."""

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from ray import tune
from ray.air.integrations.mlflow import MLflowLoggerCallback
from ray.air.integrations.wandb import WandbLoggerCallback
from ray.tune.result import TIMESTEPS_TOTAL

from al_ray.apps.grid.spec import Cell, GridConfig
from al_ray.core.errors import BadOption

# Option -> its package, and how to install it: the extra `mlflow` has what the client needs.
PACKAGES = {
    "--mlflow": ("mlflow", "pip install --constraint constraints.txt '.[mlflow]' in the checkout"),
    "--wandb": ("wandb", "pip install wandb"),
}
EXPERIMENT = "al_ray"
FIELDS = "fields"
"""Key of a result: the names of the metrics that a trial reports; Tune adds its own, such as `pid` and `done`."""


def round_metrics(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a round in a result of Tune, without those that Tune adds."""
    return {name: result[name] for name in result[FIELDS]}


def tracked(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a tracker gets of a result: the metrics of a round, and the step by which it orders them."""
    return {**round_metrics(result), TIMESTEPS_TOTAL: result[TIMESTEPS_TOTAL]}


class Mlflow(MLflowLoggerCallback):
    """MLflow callback that gives each run the tags of its cell."""

    def __init__(self, uri: str, cells: Sequence[Cell]) -> None:
        """uri: of the tracking server."""
        super().__init__(tracking_uri=uri, experiment_name=EXPERIMENT)
        self.cells = {cell.name: _tags(cell) for cell in cells}

    def log_trial_start(self, trial: Any) -> None:
        """Start the MLflow run of a trial."""
        # The base class reads this attribute for the run that it starts.
        self.tags = dict(self.cells[trial.config["cell"]])
        super().log_trial_start(trial)

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Log the metrics of a round."""
        super().log_trial_result(iteration, trial, tracked(result))


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
    """Return the callbacks of the trackers that are configured."""
    callbacks: list[tune.Callback] = []
    if how.mlflow is not None:
        callbacks.append(Mlflow(how.mlflow, cells))
    if how.wandb is not None:
        callbacks.append(Wandb(how.wandb, cells))
    return callbacks


def refuse_untracked(how: GridConfig) -> None:
    """Raise BadOption for a tracker whose package is not installed."""
    for (option, (package, cure)), value in zip(PACKAGES.items(), (how.mlflow, how.wandb), strict=True):
        if value is not None and importlib.util.find_spec(package) is None:
            raise BadOption(f"{option} needs the package {package}, which is not installed: {cure}")


def _tags(cell: Cell) -> Mapping[str, str]:
    return {name: str(value) for name, value in cell.as_dict().items() if name not in ("name", "after")}
