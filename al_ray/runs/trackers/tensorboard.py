"""The metrics of a round as TensorBoard events, on a disk or an object store."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from al_ray.core.errors import WriteErrors
from al_ray.runs.candidate_figures import candidate_scalars
from al_ray.runs.untrained_figures import untrained_line
from al_ray.storage.uri import StoragePath


def add_events(folder: StoragePath, figures: Mapping[str, Any]) -> None:
    """Add the numeric metrics of a round; the step is its number of labels. Before the first, those without labels."""
    if isinstance(folder, Path):
        _write(folder, figures)
        return
    with tempfile.TemporaryDirectory(prefix="al_ray-") as local:
        _write(Path(local), figures)
        for path in Path(local).iterdir():
            (folder / path.name).put(path)


def _write(folder: Path, figures: Mapping[str, Any]) -> None:
    # Not at the top: it loads torch, which a command that only reads a run does not need.
    from tensorboardX import SummaryWriter

    # The round goes into the file name: TensorBoard names files by the second, in which two rounds may end.
    with WriteErrors(folder), SummaryWriter(str(folder), filename_suffix=f".{figures['round']:03d}") as events:
        first = untrained_line(figures) if figures["round"] == 1 else None
        for line in (first or {}, {**figures, **candidate_scalars(figures)}):
            for name, value in line.items():
                if isinstance(value, int | float) and name != "labels":
                    events.add_scalar(name, value, line["labels"])
