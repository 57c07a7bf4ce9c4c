"""Runs on Weights & Biases: their options, and the metrics of each round.

wandb.json in a run folder has the id of its run there, and how many rounds that has: nothing is written twice, and a
session writes what an earlier one could not.
"""

import logging
from importlib import import_module
from typing import Any

from al_ray.core.config.serialization import as_dict
from al_ray.runs.run_folder import RunFolder
from al_ray.runs.run_state import bound_config
from al_ray.runs.trackers.mlflow import require_package
from al_ray.runs.trackers.port import Track, figures_after
from al_ray.storage.files import read_json, write_json

FILE = "wandb.json"
logger = logging.getLogger(__name__)


def tracking(project: str) -> Track:
    """Return the function that writes runs to a project, which the service creates if it does not exist.

    BadOption if the package is missing. The variables of the package (WANDB_API_KEY, WANDB_MODE) hold.
    """
    require_package("`wandb`", "wandb", "pip install wandb")
    # By name, because no extra has the package.
    wandb = import_module("wandb")

    def track(folder: RunFolder, group: str) -> None:
        try:
            _write(wandb, project, folder, group)
        except (wandb.Error, OSError) as error:
            reason = " ".join(str(error).split())[:200]
            logger.warning("`wandb`: %s; the next round, or the same command, writes what is missing", reason)

    return track


def _write(wandb: Any, project: str, folder: RunFolder, group: str) -> None:
    """Write the rounds that the run of a run folder lacks."""
    lines, path = folder.complete_rounds(), folder.path / FILE
    stored = read_json(path, {"id": str, "rounds": int}) if path.exists() else {"id": None, "rounds": 0}
    if stored["rounds"] >= len(lines):
        return
    options = {**as_dict(bound_config(folder.path)), "task_digest": folder.task.digest}
    with wandb.init(
        project=project, id=stored["id"], resume="allow", name=folder.path.name, group=group or None, config=options,
        allow_val_change=True, reinit="finish_previous", settings={"silent": True, "console": "off"},
    ) as run:  # fmt: skip
        for labels, figures in figures_after(lines, stored["rounds"]):
            run.log(figures, step=labels)
    write_json(path, {"id": run.id, "rounds": len(lines)})
