"""MLflow and Weights & Biases, by Tune's own callbacks: a run of theirs a cell, grouped by configuration."""

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from ray import tune
from ray.air.integrations.mlflow import MLflowLoggerCallback
from ray.air.integrations.wandb import WandbLoggerCallback

from al_ray.core.errors import BadOption
from al_ray.core.grid import Cell, GridConfig

PACKAGES = {"--mlflow": "mlflow", "--wandb": "wandb"}
EXPERIMENT = "al_ray"


class Mlflow(MLflowLoggerCallback):
    """Gives each run the tags of its cell."""

    def __init__(self, uri: str, cells: Sequence[Cell]) -> None:
        """uri: of a tracking server."""
        super().__init__(tracking_uri=uri, experiment_name=EXPERIMENT)
        self.cells = {cell.name: _tags(cell) for cell in cells}

    def log_trial_start(self, trial: Any) -> None:
        """A run, with tags for all trials until the next one starts."""
        self.tags = dict(self.cells[trial.config["cell"]])
        super().log_trial_start(trial)


class Wandb(WandbLoggerCallback):
    """Gives each run the group of its cell, which is all but the seed."""

    def __init__(self, project: str, cells: Sequence[Cell]) -> None:
        """project: made by the service if it is not there."""
        super().__init__(project=project)
        self.groups = {cell.name: cell.group for cell in cells}

    def log_trial_start(self, trial: Any) -> None:
        """A run, in a group for all trials until the next one starts."""
        self.group = self.groups[trial.config["cell"]]
        super().log_trial_start(trial)


def trackers(how: GridConfig, cells: Sequence[Cell]) -> list[tune.Callback]:
    """Those that are asked for."""
    made: list[tune.Callback] = []
    if how.mlflow is not None:
        made.append(Mlflow(how.mlflow, cells))
    if how.wandb is not None:
        made.append(Wandb(how.wandb, cells))
    return made


def refuse_untracked(how: GridConfig) -> None:
    """BadOption for a tracker whose package is not installed."""
    for (option, package), asked in zip(PACKAGES.items(), (how.mlflow, how.wandb), strict=True):
        if asked is not None and importlib.util.find_spec(package) is None:
            raise BadOption(f"{option} needs the package {package}, which is not installed: pip install {package}")


def _tags(cell: Cell) -> Mapping[str, str]:
    return {name: str(value) for name, value in cell.as_dict().items() if name not in ("name", "after")}
