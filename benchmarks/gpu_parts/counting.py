"""Counts and scores of sampled pairs, and the cells of k-means, on the device where they can be, against plain twins.

Where a function of al_ray has no argument `device` it computes on the CPU, and its figures are those of the CPU.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from al_ray.apps.planning.measure_hardware import clustered
from al_ray.core.pairs import as_pairs
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats
from al_ray.core.vectors import CLOSE, Block, Vectors, cosines, paired_scores
from al_ray.encoders.hardware import settle_arithmetic
from al_ray.metrics.average_precision import counts_above
from al_ray.metrics.bootstrap import QueryBootstrap
from al_ray.metrics.estimator import CountRequest
from al_ray.search.counting import count_block, score_pairs
from al_ray.search.kmeans import sum_by_cell
from benchmarks.gpu_parts.setup import Settings


def measure(settings: Settings, figures: dict[str, Any]) -> None:
    """Add what each does in a second; RuntimeError if it is not what its twin returns."""
    settle_arithmetic()
    vectors = clustered(*settings.size((32768, 384), (1024, 32)))
    queries = vectors[: settings.size(4096, 64)]
    product = exact_product(queries, vectors, settings.device)
    high, low = np.quantile(product, [0.99999, 0.99])
    thresholds = np.linspace(high, low, 100)
    figures["count"] = count(settings, queries, vectors, thresholds, product)
    figures["sampled scores"] = scores(settings, vectors, thresholds)
    figures["cells"] = cells(settings, vectors)


def exact_product(queries: Vectors, vectors: Vectors, device: str) -> Floats:
    """(q, d), (n, d) -> (q, n) cosines in float64."""
    left, right = (torch.from_numpy(side).to(device).double() for side in (queries, vectors))
    product = (left @ right.T).cpu().numpy()
    # As core/vectors.py has it: near 1 the lengths are divided out.
    up, across = np.nonzero(product > CLOSE)
    product[up, across] = cosines(queries[up], vectors[across])
    return product


def placed(function: Callable[..., Any], device: str) -> tuple[Callable[..., Any], str]:
    """Return a function that computes on a device if it has an argument for that, and where it computes."""
    if "device" in inspect.signature(function).parameters:
        return partial(function, device=device), device
    return function, "cpu"


def count(
    settings: Settings, queries: Vectors, vectors: Vectors, thresholds: Floats, product: Floats
) -> dict[str, Any]:
    """Measure the count of all pairs above thresholds. product: their cosines in float64."""
    rows, (counter, where) = np.arange(len(vectors)), placed(count_block, settings.device)
    request = CountRequest(thresholds, QueryBootstrap(rows, False, thresholds))
    left, right = Block(rows[: len(queries)], queries), Block(rows, vectors)
    above: list[np.ndarray] = []

    def counted() -> None:
        above.append(counter(left, right, as_pairs([], []), request, None).above)

    seconds = settings.seconds(counted, 1)
    near = np.sort(product[product >= thresholds[-1] - 1e-9])
    if not np.array_equal(above[-1], counts_above(thresholds, near)):
        raise RuntimeError("the counts are not those of float64")
    return {"computes on": where, "pairs per second": product.size / seconds}


def scores(settings: Settings, vectors: Vectors, thresholds: Floats) -> dict[str, Any]:
    """Measure the scores of sampled pairs."""
    rows, (scorer, where) = np.arange(len(vectors)), placed(score_pairs, settings.device)
    pairs = generator(0, "gpu-sample").integers(len(vectors), size=(settings.size(2**20, 2**10), 2))
    block, results = Block(rows, vectors), list[Floats]()
    seconds = settings.seconds(lambda: results.append(scorer(block, block, pairs, thresholds)), 1)
    exact = paired_scores(vectors, pairs[:, 0], vectors, pairs[:, 1])
    counts, expected = (counts_above(thresholds, np.sort(each)) for each in (results[-1], exact))
    if not np.array_equal(counts, expected) or np.abs(results[-1] - exact).max() > 2e-6:
        raise RuntimeError("the scores of sampled pairs are not those of float64")
    return {"computes on": where, "pairs per second": len(pairs) / seconds}


def cells(settings: Settings, vectors: Vectors) -> dict[str, Any]:
    """Measure a step of k-means on the device and on the CPU."""
    places, centroids = np.arange(len(vectors)), vectors[: settings.size(1024, 16)].astype(np.float32)
    ours, theirs = (sum_by_cell(vectors, places, centroids, device) for device in (settings.device, "cpu"))
    if not np.array_equal(ours.counts, theirs.counts) or not np.array_equal(ours.sums, theirs.sums):
        raise RuntimeError("the cells of k-means are not those of the CPU")
    seconds = settings.seconds(lambda: sum_by_cell(vectors, places, centroids, settings.device), 1)
    return {"computes on": settings.device, "texts per second": len(vectors) / seconds}
