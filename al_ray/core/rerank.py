"""Two stages: a bi-encoder retrieves the K highest of all pairs, and a scorer of pairs puts those in order.

All other pairs stay behind them, in the bi-encoder's order. So every pair has its place, and average precision over all
pairs is counted: the K one by one, the others as the bi-encoder's counts less those of the K.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from al_ray.core.estimate import Asked, Positives, Tally, asked_of, concluded, tallied
from al_ray.core.evaluation import Evaluation
from al_ray.core.metrics import Extent
from al_ray.core.pairs import Keys, is_in
from al_ray.core.scoring import Cosines, Floats, refuse_nan
from al_ray.core.strategy import Candidates
from al_ray.core.task import Split

ABOVE = 2.0  # The lowest place of a retrieved pair: higher than any cosine, however it was rounded.


def reranked(
    split: Split,
    top: Candidates,
    scores: Floats,
    cosines: Floats,
    count: Callable[[Asked], Tally],
    rng: np.random.Generator,
) -> Evaluation:
    """The evaluation of both stages over all pairs of a split; every pair is counted.

    top, scores: (k,) retrieved pairs with their cosines, and what the second stage says of each. cosines: (p,) of the
    positives, and count: the tally of every negative by its cosine, at thresholds some of which lie above all cosines;
    of one bi-encoder all three, to the last bit.
    """
    order = np.argsort(top.keys)
    keys, own, levels = top.keys[order], top.cosines[order], places(scores)[order]
    placed = behind(keys, levels, split.space.keys(split.positives), cosines)
    asked = asked_of(split, placed)
    negative = ~is_in(keys, split.positive_keys)
    pairs = split.space.pairs(keys[negative])
    second, first = (tallied(asked, keys[negative], pairs, found[negative], None, 1.0) for found in (levels, own))
    every = count(asked)
    tally = replace(
        every,
        above=every.above + second.above - first.above,
        reliability=None,
        replicates=every.replicates + second.replicates - first.replicates,
        resampled=None,
    )
    negatives = split.space.total - len(split.positives)
    extents = (Extent("all", negatives, negatives),)
    return concluded(asked, split, Positives(placed, None), extents, [tally], rng)


def places(scores: Floats) -> Floats:
    """(k,) scores of the retrieved pairs -> (k,) numbers in the same order, equal where they are, above all cosines."""
    refuse_nan(scores)
    return np.unique(scores, return_inverse=True)[1].astype(np.float64) + ABOVE


def behind(retrieved: Keys, levels: Floats, keys: Keys, cosines: Cosines) -> Floats:
    """(k,) sorted retrieved keys and their places, (n,) keys and cosines -> (n,) the place, or else the cosine."""
    placed = np.asarray(cosines, dtype=np.float64).copy()
    found = is_in(keys, retrieved)
    placed[found] = levels[np.searchsorted(retrieved, keys[found])]
    return placed
