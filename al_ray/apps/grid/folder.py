"""The folder of a grid: reading and writing all but its runs.

grid.json                      axes, options and cells; later starts must agree with it
runs/CELL/                     the run folder of each cell, see runs/run_folder.py
shared/                        inputs that all runs share: token ids, untrained vectors, seed sets
tune/                          state of Ray Tune
tensorboard/GROUP/seed-N/      metrics of every round; a group is a cell's name without its seed
sittings.json                  duration of each session, from a start of the command to its end
summary.md, summary.parquet    means over seeds; metrics of every round (apps/reporting/export.py)
"""

from collections.abc import Sequence
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.apps.grid.spec import Axes, Cell
from al_ray.apps.grid.summary import GridSession
from al_ray.apps.reporting.export import write_summary
from al_ray.apps.reporting.run_records import Run
from al_ray.core.config.serialization import as_dict, differences, from_dict
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.storage.files import read_json, write_json, write_root, write_text
from al_ray.storage.uri import StoragePath

GROWING = ("strategies", "seeds")  # Axes that may get more values: these change the name of no existing cell.


class GridFolder:
    """The folder of a grid."""

    def __init__(self, path: StoragePath) -> None:
        """path: of the folder, which may not exist yet."""
        self.path, self.shared, self.tune = path, path / "shared", path / "tune"

    def run(self, cell: Cell) -> StoragePath:
        """Return the run folder of a cell."""
        return self.path / "runs" / cell.name

    def bind(self, axes: Axes, config: RunConfig, grid_cells: Sequence[Cell], digest: str) -> None:
        """Write grid.json, or compare with the one in the folder; WrongFolder names the differences.

        A grid may grow: strategies and seeds may be added, none removed. The task, of which this is the digest, may
        have another path.
        """
        path = self.path / "grid.json"
        content = {"axes": as_dict(axes), "options": as_dict(config), "cells": [cell.as_dict() for cell in grid_cells]}
        content["task_digest"] = digest
        if (self.path / "config.json").exists():
            raise WrongFolder(f"{self.path} is the folder of a run; give a grid a folder of its own")
        if not path.exists():
            write_root(path, content)
            return
        names, read = ["axes", "options"], read_json(path, ["axes", "options", "cells"])
        stored = {name: read[name] for name in names}
        old = self.axes() or axes
        grown = [name for name in GROWING if set(getattr(old, name)) <= set(getattr(axes, name))]
        stored["axes"] = as_dict(old) | {name: content["axes"][name] for name in grown}
        # An option that is newer than the folder has its default there.
        stored["options"] = as_dict(_parsed(RunConfig, stored["options"], path))
        if read.get("task_digest") == digest:
            stored["options"]["task"] = content["options"]["task"]
        other = sorted(differences(stored, {name: content[name] for name in names}))
        if other:
            raise WrongFolder(f"{self.path} is a grid with other options ({'; '.join(other)}); give another `out`")
        write_root(path, content)

    def axes(self) -> Axes | None:
        """Return the axes in grid.json; None if there is none, BadFile if they cannot be read."""
        path = self.path / "grid.json"
        return _parsed(Axes, read_json(path, ["axes"])["axes"], path) if path.exists() else None

    def options(self) -> RunConfig | None:
        """Return the options in grid.json; None if there is none, BadFile if they cannot be read."""
        path = self.path / "grid.json"
        return _parsed(RunConfig, read_json(path, ["options"])["options"], path) if path.exists() else None

    def events(self, cell: Cell) -> StoragePath:
        """Return the folder of a cell's TensorBoard events."""
        return self.path / "tensorboard" / cell.group / f"seed-{cell.config.seed}"

    def add_session(self, session: GridSession) -> None:
        """Append the durations of a session."""
        write_json(self.path / "sittings.json", [*map(as_dict, self.sessions()), as_dict(session)])

    def sessions(self) -> list[GridSession]:
        """Return the finished sessions, in order."""
        path = self.path / "sittings.json"
        sessions = read_json(path) if path.exists() else []
        if not isinstance(sessions, list):
            raise BadFile(f"{path} holds no list of sessions; restore it")
        return [_parsed(GridSession, one, path) for one in sessions]

    def write_summary(self, runs: Sequence[Run], text: str) -> None:
        """Write summary.parquet and summary.md."""
        write_summary(self.path / "summary.parquet", runs)
        write_text(self.path / "summary.md", text)


def _parsed(kind: type[Any], content: Any, path: StoragePath) -> Any:
    """Return options of a kind in a file's content; BadFile if they cannot be read."""
    try:
        return from_dict(kind, content)
    except BadOption as error:
        raise BadFile(f"{path}: {error} (restore it)") from error
