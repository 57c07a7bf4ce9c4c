"""Where a run folder may lie."""

import os

from al_ray.core.errors import BadOption
from al_ray.storage.uri import StoragePath, Uri


def refuse_inside(path: StoragePath, task: StoragePath) -> None:
    """BadOption for a run folder inside a task folder, whose files must never change."""
    run = path.resolve()
    # os.path.exists, because Path.exists raises for a folder that may not be read.
    is_task = (run / "task.json").exists() if isinstance(run, Uri) else os.path.exists(run / "task.json")
    if is_task or task.resolve() in (run, *run.parents):
        raise BadOption(f"{path} is a task folder or lies in one ({task}); give a run a folder of its own")
