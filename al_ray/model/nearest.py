"""From an index's neighbours to candidates: what float32 leaves open is settled, and shards' answers are merged."""

from dataclasses import dataclass

import numpy as np

from al_ray.core.pairs import Keys, PairSpace, Rows, as_pairs
from al_ray.core.scoring import Floats
from al_ray.core.strategy import MARGIN, Candidates, Order, found
from al_ray.model.encoder import Vectors
from al_ray.model.join import Block
from al_ray.model.neighbours import NONE, Neighbours
from al_ray.model.training import dots

SPARE = 8  # Neighbours beyond those wanted: enough, but for many texts at one cosine, to see what is near the cut.
WIDEST = 2048  # Neighbours a GPU index gives; of more texts at one cosine than that, Faiss says which come first.
AT_ONCE = 8192  # Cosines settled at a time.


def settled_nearest(index: Neighbours, held: Block, queries: Vectors, count: int, width: int) -> tuple[Floats, Rows]:
    """The `count` nearest by (-float64 cosine, row) among the `width` or more that the index finds; see `nearest`.

    Where float32 does not tell what comes after the last one found from the `count`-th, more are asked for.
    """
    rough, places = index.nearest(queries, width)
    rows = np.where(places == NONE, NONE, held.rows[places])
    cosines = np.full(rows.shape, -np.inf)
    lines = max(1, AT_ONCE // width)
    for start in range(0, len(queries), lines):
        here = slice(start, start + lines)
        left = np.repeat(queries[here], width, axis=0)
        cosines[here] = dots(left, held.vectors[places[here].ravel()]).reshape(-1, width)
    cosines[rows == NONE] = -np.inf
    best = np.lexsort((rows, -cosines), axis=1)[:, :count]
    cosines, rows = np.take_along_axis(cosines, best, axis=1), np.take_along_axis(rows, best, axis=1)
    unclear = np.flatnonzero((places[:, -1] != NONE) & (rough[:, -1] >= rough[:, count - 1] - 2 * MARGIN))
    if width < min(WIDEST, index.size):
        wider = min(4 * width, WIDEST)
        for start in range(0, len(unclear), lines):
            here = unclear[start : start + lines]
            cosines[here], rows[here] = settled_nearest(index, held, queries[here], count, wider)
    return cosines, rows


@dataclass(frozen=True)
class Request:
    """What is asked of the merge of a block: see `select`."""

    space: PairSpace
    symmetric: bool
    neighbours: int
    order: Order
    count: int


def select(request: Request, rows: Rows, labelled: Keys, answers: list[tuple[Floats, Rows]]) -> Candidates:
    """Every shard's nearest of a block of left rows -> the `count` candidates of least cost, ties by key.

    Of each left text's answers the `neighbours` best by (-cosine, row) stay, whatever the number of shards; then pairs
    with itself and labelled pairs (sorted keys) go.
    """
    cosines = np.concatenate([answer[0] for answer in answers], axis=1)
    right = np.concatenate([answer[1] for answer in answers], axis=1)
    hidden = (right == NONE) | ((right == rows[:, None]) if request.symmetric else False)
    best = np.lexsort((right, np.where(hidden, np.inf, -cosines)), axis=1)[:, : request.neighbours]
    kept = ~np.take_along_axis(hidden, best, axis=1)
    pairs = as_pairs(np.broadcast_to(rows[:, None], best.shape)[kept], np.take_along_axis(right, best, axis=1)[kept])
    fresh = found(request.space.keys(pairs), np.take_along_axis(cosines, best, axis=1)[kept], labelled)
    return fresh.least(request.order, request.count)
