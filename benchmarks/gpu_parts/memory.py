"""Peaks of memory, an out-of-memory error after which the process works on, and two processes on one card."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from al_ray.core.config.sections import TrainingConfig
from al_ray.encoders.hardware import settle_arithmetic, settle_training
from al_ray.training.bi_encoder import train
from benchmarks.gpu_parts.setup import BATCH, Settings, Shape, random_labels, random_tokens, shapes

MB = 2**20
ALLOCATIONS = ("0.4 of the memory", "0.6 of the memory")  # Figures of neighbour.py.


def measure(settings: Settings, figures: dict[str, Any]) -> None:
    """Add peaks and how errors ended; RuntimeError if one is not as runs expect it."""
    settle_arithmetic()
    settle_training(settings.device)
    if settings.cuda:
        for shape in shapes(settings):
            figures[f"peak MB, {shape.name}"] = peaks(settings, shape)
    figures["out of memory"] = exhausted(settings)
    if settings.cuda:
        # For the processes that come now.
        torch.cuda.empty_cache()
    figures["two processes"] = neighbours(settings)


def peaks(settings: Settings, shape: Shape) -> dict[str, float]:
    """Return the MB that torch had allocated and reserved at most, with the weights, in a batch and in steps."""
    encoder, tokens = shape.load(settings), random_tokens(shape, 64, 64, 128)
    works: dict[str, Callable[[], object]] = {
        "batch of 64 texts": lambda: encoder.embed(tokens, np.arange(64)),
        f"step of {BATCH} pairs": lambda: list(
            train(encoder, (tokens, tokens), random_labels(64, 4), TrainingConfig(epochs=1), [0, 0, 0])
        ),
    }
    figures: dict[str, float] = {}
    for name, work in works.items():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(settings.device)
        work()
        figures[f"{name}, allocated"] = torch.cuda.max_memory_allocated(settings.device) / MB
        figures[f"{name}, reserved"] = torch.cuda.max_memory_reserved(settings.device) / MB
    return figures


def exhausted(settings: Settings) -> str:
    """Ask for more memory than there is, and compute on; return the error's class and first line."""
    size = 2 * torch.cuda.get_device_properties(settings.device).total_memory if settings.cuda else 2**60
    try:
        torch.empty(size, dtype=torch.uint8, device=settings.device)
    except RuntimeError as error:
        if settings.cuda != isinstance(error, torch.OutOfMemoryError):
            raise
        words = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
    else:
        raise RuntimeError(f"{size} bytes were allocated")
    ones = torch.ones(64, 64, device=settings.device)
    if float((ones @ ones).sum()) != 64**3:
        raise RuntimeError("a product after the error is wrong")
    return words


def neighbours(settings: Settings) -> dict[str, Any]:
    """Train in two processes at once, each with half of the card; RuntimeError unless both have the same weights."""
    command = [sys.executable, "-m", "benchmarks.gpu_parts.neighbour", settings.device, str(settings.threads)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError(f"the processes ended with {[process.returncode for process in processes]}")
    first, second = (json.loads(output.splitlines()[-1]) for output in outputs)
    if first["weights"] != second["weights"]:
        raise RuntimeError("two processes on one card have trained other weights")
    if settings.cuda and [first[name] for name in ALLOCATIONS] != ["allocated", "refused"]:
        raise RuntimeError(f"a process with half of the memory: {first}")
    return {"first": first, "second": second}
