"""What all shards' indexes are made from: trained once, on texts of all shards."""

from collections.abc import Sequence
from typing import Any

from al_ray.cluster.pool.sharded_cells import learn_cells
from al_ray.cluster.workers import get_results, put
from al_ray.core.errors import BadOption
from al_ray.core.labels import Model
from al_ray.core.naming import option
from al_ray.core.pairs import Rows
from al_ray.search.kmeans import shared_cells, spaced_rows

# Texts from which an index whose cells are learned learns its codes: as many as Faiss uses at most for 256 of them.
CODES_SAMPLE = 65_536


def train_index(shards: Sequence[Any], index: str, model: Model, right: str, rows: Rows) -> Any:
    """What all shards' indexes are made from, trained once from evenly spaced texts; None when nothing is.

    All shards learn the cells of an index; the rest (codes), and indexes of other kinds, are trained by one. The shards
    have embedded the part, right, whose rows these are: asked for a sample first, they would embed one after the other.
    """
    size = get_results(shards[0].sample_size.remote(model, right))
    if not size:
        return None
    cells, centroids = shared_cells(index), None
    if cells > len(rows):
        raise BadOption(
            f"{option('RunConfig.search.index', index)} on {len(rows):,} vectors: it has more cells than that; try Flat"
        )
    if cells:
        centroids = learn_cells(shards, model, right, spaced_rows(rows, size), cells)
        size = 0 if index.endswith(",Flat") else CODES_SAMPLE
    sample = put(spaced_rows(rows, size))
    blocks = [shard.vectors_of.remote(model, right, sample) for shard in shards if size]
    # The driver keeps it: what a shard made is lost with its node.
    return put(get_results(shards[0].train_index.remote(centroids, *blocks)))
