"""Vectors of an untrained encoder in an .npz file, which tells what they are of."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadFile
from al_ray.core.task import Task
from al_ray.core.vectors import Vectors
from al_ray.storage.files import in_one_step
from al_ray.training.saved_model import input_digest

Sides = tuple[Vectors, Vectors]
"""Vectors of all left and of all right texts, by row; 0 for texts that were not encoded."""


def origin_of(task: Task, config: EncoderConfig, *other: int) -> str:
    """Return a digest of a task, the options of an encoder, and other numbers that decide which texts are encoded."""
    return input_digest([task.digest, config.digest_text, *other])[:12]


def cached(path: Path | None, origin: str, make: Callable[[], Sides]) -> Sides:
    """Return the vectors of a file, or make them and write the file; without a path, make them.

    BadFile for a file of another origin, or one that cannot be written.
    """
    if path is not None and path.exists():
        with np.load(path) as arrays:
            if "origin" not in arrays or str(arrays["origin"]) != origin:
                raise BadFile(
                    f"{path} has vectors of another task, encoder or --threads, or of another benchmark; "
                    "give another --cache"
                )
            return arrays["left"], arrays["right"]
    left, right = make()
    if path is not None:

        def write_aside(aside: Path) -> None:
            # An open file, because numpy adds .npz to a name without it.
            with aside.open("wb") as file:
                np.savez(file, left=left, right=right, origin=np.array(origin))

        in_one_step(path, write_aside)
    return left, right
