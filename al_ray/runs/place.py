"""Where results may be written."""

import os
from pathlib import Path

from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.storage.uri import StoragePath, Uri


def check_outside_task(path: StoragePath, task: StoragePath) -> None:
    """BadOption for a run folder inside a task folder, whose files must never change."""
    run = path.resolve()
    # os.path.exists, because Path.exists raises for a folder that may not be read.
    is_task = (run / "task.json").exists() if isinstance(run, Uri) else os.path.exists(run / "task.json")
    if is_task or task.resolve() in (run, *run.parents):
        raise BadOption(f"{path} is a task folder or lies in one ({task}); give a run a folder of its own")


def check_lasting_path(out: StoragePath) -> None:
    """BadOption for a relative path in a submitted job, which works in a temporary copy of its folder."""
    if "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ and isinstance(out, Path) and not out.is_absolute():
        raise BadOption(
            f"{option('out', out)} is relative, and a submitted job's folder is thrown away; give an absolute path"
        )
