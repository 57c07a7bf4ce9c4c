"""The exact join by block size: the same pairs each time, and of a small pool those of float64."""

from typing import Any

import numpy as np

from al_ray.apps.planning.measure_hardware import clustered
from al_ray.core.candidates import Candidates, Order
from al_ray.core.pairs import NO_KEYS
from al_ray.core.vectors import Block, Vectors
from al_ray.encoders.hardware import settle_arithmetic
from al_ray.search.join.exact_join import ExactJoin
from al_ray.search.join.least_pairs import JoinQuery
from benchmarks.gpu_parts.setup import Settings

ORDER = Order(0.6)


def measure(settings: Settings, figures: dict[str, Any]) -> None:
    """Add seconds by block size; RuntimeError if pairs differ from those of other blocks or of float64."""
    settle_arithmetic()
    vectors = clustered(*settings.size((65536, 768), (512, 32)))
    count, few = settings.size(10_000, 100), vectors[: settings.size(4096, 128)]
    found = join(settings, few, few.shape[0] // 3, count // 10)
    if not np.array_equal(found.keys, least_in_float64(few, count // 10)):
        raise RuntimeError("the pairs of the exact join are not those of float64")
    figures["as in float64"] = True
    pairs, results = len(vectors) * (len(vectors) - 1) / 2, list[Candidates]()
    for size in settings.size((65536, 32768, 16384, 8192, 4096), (512, 200)):
        # A call that warms up, and one more.
        seconds = settings.seconds(lambda size=size: results.append(join(settings, vectors, size, count)), 1)
        rate = 2 * pairs * vectors.shape[1] / seconds
        figures[f"blocks of {size}"] = {"seconds": seconds, "operations per second": rate}
    same = all(np.array_equal(one.keys, results[0].keys) for one in results)
    if not same or not all(np.array_equal(one.cosines, results[0].cosines) for one in results):
        raise RuntimeError("the pairs depend on the size of the blocks")
    figures["the same in all blocks"] = True


def join(settings: Settings, vectors: Vectors, size: int, count: int) -> Candidates:
    """Return the `count` pairs nearest to the boundary, as a shard finds them by blocks of `size` texts."""
    rows = np.arange(len(vectors))
    blocks = [Block(rows[start : start + size], vectors[start : start + size]) for start in range(0, len(rows), size)]
    query = JoinQuery(ORDER, count, len(vectors), symmetric=True)
    search = ExactJoin([query], [NO_KEYS], settings.device, half=settings.cuda)
    for number, right in enumerate(blocks):
        for left in blocks[: number + 1]:
            search.add(left, right)
    return search.results()[0]


def least_in_float64(vectors: Vectors, count: int) -> np.ndarray:
    """Return the keys of the same pairs, from one product in float64."""
    exact = vectors.astype(np.float64)
    left, right = np.triu_indices(len(exact), 1)
    costs = ORDER.cost((exact @ exact.T)[left, right])
    near = np.argpartition(costs, count)[:count]
    return left[near[np.argsort(costs[near])]] * len(exact) + right[near[np.argsort(costs[near])]]
