"""A training step as runs take it: its seconds, how long the GPU works in it, and how often the CPU waits for it."""

import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from al_ray.core.config.sections import TrainingConfig
from al_ray.encoders.hardware import settle_arithmetic, settle_training
from al_ray.training.bi_encoder import train
from al_ray.training.fit import steps_at_once
from al_ray.training.optimizer import Step
from benchmarks.gpu_parts.setup import BATCH, Settings, Shape, random_labels, random_tokens, shapes

COUNTED = {  # Names of the profiler: of which each call counts.
    "casts and copies": ("aten::_to_copy", "aten::copy_"),
    "values read by the host": ("aten::_local_scalar_dense",),
    "waits for the GPU": ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"),
    "kernels launched": ("cudaLaunchKernel", "cuLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernelEx"),
    "memory copies": ("cudaMemcpyAsync",),
}


def measure(settings: Settings, figures: dict[str, Any]) -> None:
    """Add the figures of each shape."""
    settle_arithmetic()
    settle_training(settings.device)
    for shape in shapes(settings):
        figures[f"{shape.name}, seconds of a step"] = step_seconds(settings, shape)
        figures[f"{shape.name}, profile of a step"] = profiled(settings, shape)
        if settings.cuda:
            figures[f"{shape.name}, places that wait for the GPU"] = waits(settings, shape)


def steps(settings: Settings, shape: Shape) -> tuple[Iterator[Step], int]:
    """Begin a training; return its next steps and their number. The first ones are taken already.

    A training on a GPU yields many steps at once, when all of them are taken: so many are measured together.
    """
    count = steps_at_once(settings.device)
    tokens = random_tokens(shape, settings.size(1024, 16), *settings.size((6, 32), (4, 12)))
    labelled = random_labels(len(tokens), 2 * count)
    taken = train(shape.load(settings), (tokens, tokens), labelled, TrainingConfig(epochs=1, batch=BATCH), [0, 0, 0])
    list(islice(taken, count))
    settings.synchronise()
    return taken, count


def step_seconds(settings: Settings, shape: Shape) -> float:
    """Return the mean seconds of a step."""
    taken, count = steps(settings, shape)
    started = time.perf_counter()
    last = [step.step for step in taken][-1]
    settings.synchronise()
    seconds = time.perf_counter() - started
    if last != 2 * count:
        raise RuntimeError(f"a training of {2 * count} steps ended with step {last}")
    return seconds / count


def profiled(settings: Settings, shape: Shape) -> dict[str, float]:
    """Return counts of a step, and the share of its time in which the GPU works; the profiler makes it longer."""
    taken, count = steps(settings, shape)
    activities = [ProfilerActivity.CPU, *settings.size([ProfilerActivity.CUDA], [])]
    with profile(activities=activities) as profiler:
        started = time.perf_counter()
        list(islice(taken, count))
        settings.synchronise()
        seconds = time.perf_counter() - started
    events = list(profiler.events() or [])
    calls = Counter(str(event.name) for event in events)
    figures: dict[str, float] = {name: sum(calls[one] for one in ones) / count for name, ones in COUNTED.items()}
    figures["operations of torch"] = sum(number for name, number in calls.items() if name.startswith("aten::")) / count
    # Annotations of a range span the gaps between its kernels.
    on_device = [one for one in events if one.device_type.name == "CUDA" and not getattr(one, "is_user_annotation", 0)]
    spans = ((one.time_range.start, one.time_range.end) for one in on_device)
    return figures if not settings.cuda else {**figures, "share in which the GPU works": covered(spans) / 1e6 / seconds}


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of spans."""
    total, end = 0.0, -np.inf
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return float(total)


def waits(settings: Settings, shape: Shape) -> dict[str, float]:
    """Return the number of waits for the GPU of a step by the line of code, as torch warns of them."""
    taken, count = steps(settings, shape)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            list(islice(taken, count))
        finally:
            torch.cuda.set_sync_debug_mode("default")
    # A name of the file that is short and still tells al_ray from torch.
    places = Counter(
        f"{'/'.join(one.filename.split('/')[-3:])}:{one.lineno}" for one in caught if "synchroniz" in str(one.message)
    )
    return {place: number / count for place, number in places.most_common(20)}
