"""A grid's folder: the one writer and reader of what holds its runs together.

grid.json                      axes, options and cells; the folder is bound to it
runs/CELL/                     a run folder each, see data/run_folder.py
shared/                        what all runs share: token ids, untrained vectors, seed sets
tune/                          Ray Tune's own state
tensorboard/GROUP/seed-N/      figures of every round; a group is a cell's name without its seed
sittings.json                  how long each start of it took
summary.md, summary.parquet    what came of it
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from al_ray.core.config import RunConfig
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.grid import Axes, Cell
from al_ray.core.plain import as_dict, from_dict
from al_ray.core.summary import Outcome, Sitting, Standing
from al_ray.core.task import Task
from al_ray.data.events import add_events
from al_ray.data.files import read_json, write_json, write_parquet, write_text
from al_ray.data.run_folder import RunFolder, at_its_end, differences
from al_ray.storage.places import Place

GROWING = ("strategies", "seeds")  # Axes whose other values change no cell's name.


class GridFolder:
    """The folder of a grid."""

    def __init__(self, path: Place) -> None:
        """A folder, new or with runs in it."""
        self.path, self.shared, self.tune = path, path / "shared", path / "tune"

    def run(self, cell: Cell) -> Place:
        """The run folder of a cell."""
        return self.path / "runs" / cell.name

    def bind(self, axes: Axes, config: RunConfig, made: Sequence[Cell]) -> None:
        """Write grid.json, or hold what is asked against what stands there: WrongFolder names the differences.

        A grid grows by strategies and seeds: axes that have all of its own, and more, take their place.
        """
        path = self.path / "grid.json"
        wanted = {"axes": as_dict(axes), "options": as_dict(config), "cells": [cell.as_dict() for cell in made]}
        if (self.path / "config.json").exists():
            raise WrongFolder(f"{self.path} is the folder of a run; give a grid a folder of its own")
        if not path.exists():
            write_json(path, wanted)
            return
        names = ["axes", "options"]
        stands = {name: value for name, value in read_json(path, [*names, "cells"]).items() if name in names}
        there = self.axes() or axes
        grown = [name for name in GROWING if set(getattr(there, name)) <= set(getattr(axes, name))]
        stands["axes"] = as_dict(there) | {name: wanted["axes"][name] for name in grown}
        try:
            # An option that came after the folder was made has its default there.
            stands["options"] = as_dict(from_dict(RunConfig, stands["options"]))
        except BadOption as error:
            raise BadFile(f"{path}: {error} (restore it)") from error
        other = sorted(differences(stands, {name: wanted[name] for name in names}))
        if other:
            raise WrongFolder(f"{self.path} is a grid with other options ({'; '.join(other)}); give another --out")
        write_json(path, wanted)

    def axes(self) -> Axes | None:
        """Those of the grid that stands here; None where none does, BadFile where they cannot be read."""
        path = self.path / "grid.json"
        if not path.exists():
            return None
        try:
            return from_dict(Axes, read_json(path, ["axes"])["axes"])
        except BadOption as error:
            raise BadFile(f"{path}: {error} (restore it)") from error

    def outcome(self, cell: Cell, task: Task, error: str) -> Outcome:
        """What came of a cell. error: why it failed, if it did."""
        folder = RunFolder(self.run(cell), task)
        lines = folder.complete_rounds()
        evaluations: Mapping[str, Any] = {}
        if lines:
            evaluations = read_json(folder.round(len(lines)) / "record.json", ["evaluations"])["evaluations"]
        whole = not error and at_its_end(folder.path, cell.config)
        standing: Standing = "failed" if error else "complete" if whole else "incomplete"
        return Outcome(cell, tuple(lines), evaluations, standing, error)

    def add_events(self, cell: Cell, figures: Mapping[str, Any]) -> None:
        """Add the figures of a round of a cell for TensorBoard."""
        add_events(self.path / "tensorboard" / cell.group / f"seed-{cell.config.seed}", figures)

    def add_sitting(self, sitting: Sitting) -> None:
        """Keep how long a start of the grid took."""
        write_json(self.path / "sittings.json", [*map(as_dict, self.sittings()), as_dict(sitting)])

    def sittings(self) -> list[Sitting]:
        """The starts of the grid that came to their end, in order."""
        path = self.path / "sittings.json"
        return [from_dict(Sitting, one) for one in read_json(path)] if path.exists() else []

    def write_summary(self, outcomes: Sequence[Outcome], text: str) -> None:
        """Write summary.parquet, a row a cell, and summary.md."""
        write_parquet(self.path / "summary.parquet", pa.Table.from_pylist([one.row for one in outcomes]))
        write_text(self.path / "summary.md", text)


def read_grid_file(path: Place) -> dict[str, Any]:
    """The axes and options of a grid file: TOML, or JSON as in grid.json; BadFile for what is neither."""
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.name.endswith(".json") else tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise BadFile(f"{path} cannot be read ({error}); give a TOML file, or a grid.json") from error
    if not isinstance(content, dict) or not all(
        isinstance(content.get(name, {}), dict) for name in ("axes", "options")
    ):
        raise BadFile(f"{path} has no tables axes and options; see docs/grid.md")
    unknown = sorted(set(content) - {"axes", "options", "cells"})
    if unknown:
        raise BadFile(f"{path} has {', '.join(unknown)}; a grid file has [axes] and [options]")
    return {name: content.get(name, {}) for name in ("axes", "options")}
