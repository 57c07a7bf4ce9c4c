"""The metrics of a round as TensorBoard events, on a disk or an object store."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from al_ray.core.errors import WriteErrors
from al_ray.runs.candidate_figures import candidate_scalars
from al_ray.runs.run_folder import RunFolder
from al_ray.runs.trackers.port import Track
from al_ray.runs.untrained_figures import untrained_line
from al_ray.storage.uri import StoragePath


def tracking(events: Callable[[RunFolder, str], StoragePath]) -> Track:
    """Return the function that writes the rounds of a run that have no file yet. events: the folder of a run's files.

    A full disk or an error of the store ends the run, as for other files of it.
    """

    def track(folder: RunFolder, group: str) -> None:
        lines, at = folder.complete_rounds(), events(folder, group)
        there = {path.name.rpartition(".")[2] for path in (at.glob("*") if lines else ())}
        for line in lines:
            if _suffix(line) not in there:
                add_events(at, line)

    return track


def add_events(folder: StoragePath, figures: Mapping[str, Any]) -> None:
    """Add the numeric metrics of a round; the step is its number of labels. Before the first, those without labels."""
    if isinstance(folder, Path):
        _write(folder, figures)
        return
    with tempfile.TemporaryDirectory(prefix="al_ray-") as local:
        _write(Path(local), figures)
        for path in Path(local).iterdir():
            (folder / path.name).put(path)


def _suffix(figures: Mapping[str, Any]) -> str:
    return f"{figures['round']:03d}"


def _write(folder: Path, figures: Mapping[str, Any]) -> None:
    # Not at the top: it loads torch, which a command that only reads a run does not need.
    from tensorboardX import SummaryWriter

    # The round goes into the file name: TensorBoard names files by the second, in which two rounds may end.
    with WriteErrors(folder), SummaryWriter(str(folder), filename_suffix=f".{_suffix(figures)}") as events:
        first = untrained_line(figures) if figures["round"] == 1 else None
        for line in (first or {}, {**figures, **candidate_scalars(figures)}):
            for name, value in line.items():
                if isinstance(value, int | float) and name != "labels":
                    events.add_scalar(name, value, line["labels"])
