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


def steps(settings: Settings, shape: Shape) -> Iterator[Step]:
    """Begin a training; its first steps are taken already."""
    tokens = random_tokens(shape, settings.size(1024, 16), *settings.size((6, 32), (4, 12)))
    labelled = random_labels(len(tokens), settings.size(60, 8))
    taken = train(shape.load(settings), (tokens, tokens), labelled, TrainingConfig(epochs=1, batch=BATCH), [0, 0, 0])
    list(islice(taken, settings.size(10, 2)))
    settings.synchronise()
    return taken


def step_seconds(settings: Settings, shape: Shape) -> float:
    """Return the median seconds of a step."""
    times = [time.perf_counter()]
    times += [time.perf_counter() for _ in steps(settings, shape)]
    return float(np.median(np.diff(times)[1:]))


def profiled(settings: Settings, shape: Shape) -> dict[str, float]:
    """Return counts of a step, and the share of its time in which the GPU works; the profiler makes it longer."""
    taken, count = steps(settings, shape), settings.size(10, 2)
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
    taken, count = steps(settings, shape), 5
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            list(islice(taken, count))
        finally:
            torch.cuda.set_sync_debug_mode("default")
    # A name of the file that is short and still tells al_ray from torch.
    places = Counter(f"{'/'.join(one.filename.split('/')[-3:])}:{one.lineno}" for one in caught)
    return {place: number / count for place, number in places.most_common(20)}
