"""Speeds in the form of `jobs.plan --constants`, by the code of `jobs.plan --measure` that needs no Faiss.

Those that are not measured here keep the built-in value, marked as not measured: of Faiss (flat, ivf, libraries), of a
real tokenizer, and between actors.
"""

import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch

from al_ray.apps.planning.hardware import BUILT_IN, CPU, CUDA, SPEEDS, Speed, as_content
from al_ray.apps.planning.measure_hardware import clustered, count_speeds, encoder_speeds, exact_speed
from al_ray.core.rng import generator
from al_ray.encoders.hardware import settle_arithmetic, settle_training
from benchmarks.gpu_parts.setup import MINILM, TINY, Settings

NOT_HERE = {"tokenise"}  # Texts are letters here, and so is the tokenizer.


def measure(settings: Settings, figures: dict[str, Any]) -> None:
    """Add the speeds measured, and the content of a file of constants; RuntimeError if some could not be measured."""
    settle_arithmetic()
    settle_training(settings.device)
    vectors = clustered(*settings.size((32768, MINILM.hidden), (512, TINY.hidden)))
    works: dict[str, Callable[[], Iterable[tuple[str, float]]]] = {
        "encoder": lambda: encoder(settings),
        "exact join": lambda: exact_speed(vectors, settings.device),
        "count": lambda: count_speeds(vectors),
    }
    faults: list[str] = []
    for name, work in works.items():
        try:
            figures |= {speed: value for speed, value in work() if speed not in NOT_HERE}
        except (RuntimeError, ValueError, ImportError) as error:
            # The other speeds are of use.
            faults.append(f"{name}: {error}")
    figures["plan"] = content(settings, figures)
    if faults:
        raise RuntimeError("; ".join(faults))


def content(settings: Settings, figures: dict[str, float]) -> dict[str, Any]:
    """Return the content of a file of constants."""
    date = time.strftime("%Y-%m-%d", time.gmtime())
    machine = torch.cuda.get_device_name(settings.device) if settings.cuda else f"{platform.machine()}, tiny sizes"
    source = f"{date}, {machine}, {settings.threads} threads, benchmarks/gpu.py"
    built_in = BUILT_IN[("a100" if "A100" in machine else "h200") if settings.cuda else CPU]
    speeds = {name: replace(getattr(built_in, name), measured=False) for name in SPEEDS}
    # Tiny sizes measure nothing.
    speeds |= {name: Speed(value, settings.cuda, source) for name, value in figures.items()}
    about = {"device": CUDA if settings.cuda else CPU, "machine": machine, "threads": settings.threads}
    return as_content(replace(built_in, **about, **speeds), date)


def encoder(settings: Settings) -> Iterable[tuple[str, float]]:
    """Measure an encoder by texts of 6 to 30 letters, each a token."""
    rng, texts = generator(0, "gpu-texts"), settings.size(4096, 32)
    codes = rng.integers(ord("a"), ord("z") + 1, size=(texts, 30)).tolist()
    lengths = rng.integers(6, 31, size=texts).tolist()
    lines = ["".join(map(chr, row[:length])) for row, length in zip(codes, lengths, strict=True)]
    return encoder_speeds(settings.size(MINILM, TINY).load(settings, length=64), lines)
