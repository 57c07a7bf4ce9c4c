"""Counting negatives above thresholds: all of two blocks of texts, or those of a sample. Counts of parts add."""

from dataclasses import dataclass

import numpy as np

from al_ray.core.calibration import reliability
from al_ray.core.estimate import Asked, Tally, nothing
from al_ray.core.metrics import counts_above
from al_ray.core.pairs import NO_KEYS, Keys, Mask, Pairs, Rows
from al_ray.core.scoring import Floats, Scorer
from al_ray.core.strategy import MARGIN
from al_ray.model.encoder import Vectors
from al_ray.model.join import Block
from al_ray.model.nearest import AT_ONCE, settled
from al_ray.model.vectors import single

COLUMNS = 2048  # Right texts in one block of a product: what is known of 1,024 x 2,048 pairs is some 16 MB an array.


@dataclass(frozen=True)
class Stands:
    """What sampled pairs stand for: the width of their keys, and how many negatives each stratum's stand for."""

    width: int
    weights: tuple[float, ...]


def counted(queries: Block, held: Block, hidden: Pairs, asked: Asked, scorer: Scorer | None) -> Tally:
    """Count ALL pairs of two blocks but the `hidden` (k, 2): the exact false positives.

    Cells of the float32 product within MARGIN of a threshold are settled by float64 products, so that the count does
    not depend on blocks or shards. In a symmetric task only pairs left < right are counted.
    """
    rows, found = single(queries.vectors), nothing(asked)
    # In a symmetric task no text on the right comes before the first on the left.
    first = np.searchsorted(held.rows, queries.rows[:1]).sum() if asked.questions.symmetric else 0
    for start in range(int(first), len(held.rows), COLUMNS):
        columns = Block(held.rows[start : start + COLUMNS], held.vectors[start : start + COLUMNS])
        product = (rows @ single(columns.vectors).T).numpy()
        shown = _shown(queries.rows, columns.rows, hidden, asked.questions.symmetric)
        seen = None
        if scorer is not None:
            logits = scorer.logit(product[shown])
            seen = reliability(logits, np.zeros(len(logits), dtype=np.uint8), 1.0)
        product[~shown] = -np.inf
        scores, places = _settled(product, queries, columns, asked.thresholds)
        replicates = asked.questions.in_block(queries.rows, columns.rows, places, scores)
        found += Tally(counts_above(asked.thresholds, scores), seen, replicates)
    return found


def scored(queries: Block, held: Block, pairs: Pairs, thresholds: Floats) -> Floats:
    """(n, 2) pairs of the queries with held texts -> (n,) cosines, so near in float32 that counts are exact.

    Those within MARGIN of a threshold are settled in float64, so that the counts do not depend on blocks or shards.
    """
    left, right = np.searchsorted(queries.rows, pairs[:, 0]), np.searchsorted(held.rows, pairs[:, 1])
    cosines = np.empty(len(pairs))
    for start in range(0, len(pairs), AT_ONCE):
        here = slice(start, start + AT_ONCE)
        ones, others = queries.vectors[left[here]], held.vectors[right[here]]
        cosines[here] = np.vecdot(ones.astype(np.float32, copy=False), others.astype(np.float32, copy=False))
    near = np.flatnonzero(_near(cosines, thresholds))
    cosines[near] = settled(queries.vectors, left[near], held.vectors, right[near])
    return cosines


def _near(cosines: Floats, thresholds: Floats) -> Mask:
    """(n,) whether a cosine may be within MARGIN of a threshold: a table of cells that wide, as quick for any (t,)."""
    cells = int(2.1 / MARGIN)
    marked = np.zeros(cells + 3, dtype=np.bool_)
    at = np.clip((thresholds + 1.05) / MARGIN, 1, cells).astype(np.int64)
    for step in (-1, 0, 1):
        marked[at + step] = True
    return marked[np.clip((cosines + 1.05) / MARGIN, 0, cells).astype(np.int64)]


def within(keys: Keys, left: Rows, width: int) -> Keys:
    """Of sorted keys those whose left text is among the rows."""
    ends = np.searchsorted(keys, (left[:, None] + np.arange(2)) * width)
    return np.concatenate([NO_KEYS, *(keys[begin:end] for begin, end in ends)])


def _shown(left: Rows, right: Rows, hidden: Pairs, symmetric: bool) -> Mask:
    """Which cells of a block (b, c) are pairs to count."""
    shown = left[:, None] < right[None, :] if symmetric else np.ones((len(left), len(right)), dtype=np.bool_)
    for turned in (hidden, hidden[:, ::-1]) if symmetric else (hidden,):
        here = turned[np.isin(turned[:, 0], left) & np.isin(turned[:, 1], right)]
        shown[np.searchsorted(left, here[:, 0]), np.searchsorted(right, here[:, 1])] = False
    return shown


def _settled(product: Vectors, queries: Block, columns: Block, thresholds: Floats) -> tuple[Floats, tuple[Rows, Rows]]:
    """The scores of a block that may reach the lowest threshold, those near any in float64, and their places in it."""
    rising = thresholds[::-1]
    left, right = np.nonzero(product >= rising[0] - MARGIN)
    scores = product[left, right].astype(np.float64)
    close = np.flatnonzero(_near(scores, thresholds))
    scores[close] = settled(queries.vectors, left[close], columns.vectors, right[close])
    return scores, (left, right)
