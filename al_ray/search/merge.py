"""Merge the nearest neighbours that shards found; join their vectors; measure the recall of an index."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Block

Metric = Literal["ip", "l2"]
"""ip: inner product of unit vectors, the cosine, greatest first. l2: squared Euclidean distance, least first."""
Scores = npt.NDArray[np.float32 | np.float64]
Neighbors = tuple[Scores, Rows]
"""The nearest of each query, best first: cosines or squared distances (q, k), and rows or places (q, k).

Where there are fewer than k: -1 for the row, and -inf for the cosine or inf for the distance.
"""


def merge_neighbors(answers: Sequence[Neighbors], count: int, metric: Metric) -> Neighbors:
    """Answers of the parts of an index -> the `count` nearest of all, equally near ones by place."""
    scores = np.concatenate([scores for scores, _ in answers], axis=1)
    places = np.concatenate([places for _, places in answers], axis=1)
    order = np.lexsort((places, -scores if metric == "ip" else scores), axis=1)[:, :count]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(places, order, axis=1)


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Blocks of several shards -> one block, sorted by row: the same however texts are divided among shards."""
    rows = np.concatenate([block.rows for block in blocks])
    order = np.argsort(rows)
    return Block(rows[order], np.concatenate([block.vectors for block in blocks])[order])


def reachable_block(queries: Block, held: Block, rule: PairRule | None) -> Block:
    """Return the held texts that share a group of --same with a query: all of them if the rule has no such condition.

    The vectors are not copied where all texts are reachable.
    """
    places = None if rule is None else rule.reachable(queries.rows, held.rows)
    return held if places is None or len(places) == len(held.rows) else Block(held.rows[places], held.vectors[places])


def recall(found: Scores, truth: Scores, margin: float | Floats) -> float:
    """(q, m) nearness of what was found and (q, m) of the true nearest, best first, -inf where fewer -> recall.

    Nearness counts, not the text: of texts that are equally near within `margin` (a number or (q, 1)) any will do.
    """
    found, truth = found.astype(np.float64), truth.astype(np.float64)
    there = np.isfinite(truth)
    last = np.where(there, truth, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    hits = np.isfinite(found) & (found >= last - margin)
    return float(np.minimum(hits.sum(axis=1), there.sum(axis=1)).sum() / max(1, int(there.sum())))
