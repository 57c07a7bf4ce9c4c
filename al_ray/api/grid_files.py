"""Grid files: the options and axes of a grid, without what a grid computes with."""

from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.apps.grid.spec import read_grid_file
from al_ray.core.config.serialization import from_dict
from al_ray.core.errors import BadFile, BadOption
from al_ray.storage.uri import StoragePath


def read_grid(path: StoragePath) -> tuple[RunConfig, dict[str, Any]]:
    """Read a grid file (TOML), or a grid.json: options, and values of axes by name; BadFile for a bad one."""
    content = read_grid_file(path)
    kinds = {"strategies": str, "seeds": int, "encoders": str, "budgets": int}
    for name, values in content["axes"].items():
        kind = kinds.get(name)
        if kind is None or not isinstance(values, list) or not all(type(value) is kind for value in values):
            raise BadFile(f"{path}: {name} = {values!r} is not an axis; [axes] may hold lists {', '.join(kinds)}")
    try:
        config = from_dict(RunConfig, content["options"])
    except BadOption as error:
        raise BadFile(f"{path}: {error}") from error
    return config, {name: tuple(values) for name, values in content["axes"].items()}
