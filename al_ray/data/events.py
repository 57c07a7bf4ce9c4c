"""A round's figures as events for TensorBoard, on a disk or an object store."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboardX import SummaryWriter

from al_ray.core.errors import Written
from al_ray.storage.places import Place


def add_events(folder: Place, figures: Mapping[str, Any]) -> None:
    """Add the figures of a round, numbers all, at its count of labels."""
    if isinstance(folder, Path):
        _write(folder, figures)
        return
    with tempfile.TemporaryDirectory(prefix="al_ray-") as local:
        _write(Path(local), figures)
        for path in Path(local).iterdir():
            (folder / path.name).put(path)


def _write(folder: Path, figures: Mapping[str, Any]) -> None:
    # A file's name tells the second, in which two rounds may end.
    with Written(folder), SummaryWriter(str(folder), filename_suffix=f".{figures['round']:03d}") as events:
        for name, value in figures.items():
            if isinstance(value, int | float) and name != "labels":
                events.add_scalar(name, value, figures["labels"])
