"""The nearest texts by FlatIndex, from vectors that stay on the device and from copied ones, in 16 and in 32 bits."""

from typing import Any

import numpy as np

from al_ray.apps.planning.measure_hardware import clustered
from al_ray.core.vectors import Block, dots
from al_ray.encoders.hardware import settle_arithmetic
from al_ray.search.flat_index import FlatIndex
from benchmarks.gpu_parts.setup import Settings


def measure(settings: Settings, figures: dict[str, Any]) -> None:
    """Add seconds for each way; RuntimeError if the cosines of the nearest are not those of float64."""
    settle_arithmetic()
    vectors = clustered(*settings.size((65536, 768), (512, 32)))
    asked, count = settings.size(8192, 64), settings.size(100, 5)
    rows = np.arange(len(vectors))
    for kind in (np.float32, np.float16):
        stored = vectors.astype(kind)
        held, queries = Block(rows, stored), Block(rows[:asked], stored[:asked])
        compare(settings, held, queries.take(rows[: settings.size(256, 32)]), count)
        for where, resident in (("resident", True), ("copied", False)):
            index = FlatIndex(held, settings.device, resident=resident)
            seconds = settings.seconds(lambda index=index, queries=queries: index.nearest_to(queries, count), 3)
            rate = 2.0 * asked * stored.size / seconds
            figures[f"{np.dtype(kind).name}, {where}"] = {"seconds": seconds, "operations per second": rate}
    figures["as in float64"] = True


def compare(settings: Settings, held: Block, queries: Block, count: int) -> None:
    """Raise RuntimeError unless the best cosines are those of float64, within the error of float32."""
    cosines, places = FlatIndex(held, settings.device).nearest_to(queries, count)
    exact = queries.vectors.astype(np.float64) @ held.vectors.astype(np.float64).T
    best = -np.sort(-exact, axis=1)[:, :count]
    found = dots(np.repeat(queries.vectors, count, axis=0), held.vectors[places.ravel()]).reshape(best.shape)
    # Two texts that are as near may change places, so cosines are compared and not texts.
    wrong = max(float(np.abs(found - best).max()), float(np.abs(cosines - best).max()))
    if wrong > 1e-5:
        raise RuntimeError(f"cosines of the nearest are off by {wrong:.1e}")
