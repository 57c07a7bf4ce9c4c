"""The cells of an IVF index, learned by all shards of a pool (search/kmeans.py).

In each iteration every shard adds up its own texts by cell. Sums go from shard to shard: of each piece of the cells
one shard adds those of all. The driver has the centroids, so a shard that restarts has lost nothing that others need:
Ray repeats its calls. What the driver sends and receives depends on cells and shards, not on the number of texts.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from al_ray.cluster.workers import get_results, put
from al_ray.core.labels import Model
from al_ray.core.pairs import Rows
from al_ray.search.kmeans import ITERATIONS, Centroids, first_rows, next_centroids
from al_ray.search.merge import join_blocks

PIECE = 2**20  # Bytes of a piece's sums, at least: small values would travel through the driver.


def learn_cells(shards: Sequence[Any], model: Model, part: str, rows: Rows, cells: int) -> Centroids:
    """Return the centroids (cells, d) learned from the texts of a part with these sorted rows (n,), n >= cells."""
    first, sample = put(first_rows(rows, cells)), put(rows)
    blocks = get_results([shard.vectors_of.remote(model, part, first) for shard in shards])
    centroids = join_blocks(blocks).vectors.astype(np.float32)
    for _ in range(ITERATIONS):
        centroids = _next(shards, model, part, sample, centroids)
    return centroids


def _next(shards: Sequence[Any], model: Model, part: str, sample: Any, centroids: Centroids) -> Centroids:
    """Return the centroids after one iteration. sample: the reference of its rows."""
    # At least two pieces, because Ray does not take a list of one apart.
    count = max(2, min(len(shards), centroids.size * np.dtype(np.int64).itemsize // PIECE))
    arguments = model, part, sample, put(centroids), count
    sums = [shard.sum_cells.options(num_returns=count).remote(*arguments) for shard in shards]
    added = [shards[n % len(shards)].add_cells.remote(*(own[n] for own in sums)) for n in range(count)]
    return next_centroids(get_results(added))
