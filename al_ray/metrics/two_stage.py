"""Retrieve and re-rank: a bi-encoder retrieves the K pairs of highest cosine, and a cross-encoder re-ranks them.

All other pairs are ranked below, by the bi-encoder. So every pair has a rank, and average precision over all pairs is
exact: the K pairs are counted one by one, the others as the bi-encoder's counts minus those of the K.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from al_ray.core.candidates import Candidates
from al_ray.core.pairs import Keys, is_in
from al_ray.core.scorer import Cosines, Floats, check_no_nan
from al_ray.core.task import Split
from al_ray.metrics.average_precision import StratumSummary
from al_ray.metrics.estimator import (
    CountRequest,
    NegativeCounts,
    PositiveScores,
    build_evaluation,
    count_sample,
    request_counts,
)
from al_ray.metrics.evaluation import Evaluation

ABOVE = 2.0  # The lowest final score of a retrieved pair: above any cosine, with its rounding error.


def evaluate_reranking(
    split: Split,
    top: Candidates,
    scores: Floats,
    cosines: Floats,
    count: Callable[[CountRequest], NegativeCounts],
    rng: np.random.Generator,
) -> Evaluation:
    """Evaluate both stages over all pairs of a split; every pair is counted.

    top: (k,) retrieved pairs with their cosines. scores: (k,) of the second stage. cosines: (p,) of the positives.
    count: counts all negatives by cosine, at thresholds some of which are above all cosines. All cosines must come from
    one bi-encoder, equal to the last bit, for counts are subtracted.
    """
    order = np.argsort(top.keys)
    keys, own, levels = top.keys[order], top.cosines[order], ranks_above_cosines(scores)[order]
    placed = final_scores(keys, levels, split.space.keys(split.positives), cosines)
    request = request_counts(split, placed)
    negative = ~is_in(keys, split.positive_keys)
    pairs = split.space.pairs(keys[negative])
    second, first = (
        count_sample(request, keys[negative], pairs, stage[negative], None, 1.0) for stage in (levels, own)
    )
    negatives = replace(count(request) + second - first, reliability=None, resampled=None)
    total = split.space.total - len(split.positives)
    strata = (StratumSummary("all", total, total),)
    return build_evaluation(request, split, PositiveScores(placed, None), strata, [negatives], rng)


def ranks_above_cosines(scores: Floats) -> Floats:
    """(k,) scores of the retrieved pairs -> (k,) ranks above all cosines, in the same order and with the same ties."""
    check_no_nan(scores)
    return np.unique(scores, return_inverse=True)[1].astype(np.float64) + ABOVE


def final_scores(retrieved: Keys, levels: Floats, keys: Keys, cosines: Cosines) -> Floats:
    """(k,) sorted retrieved keys with ranks, (n,) keys with cosines -> (n,) the rank if retrieved, else the cosine."""
    placed = np.asarray(cosines, dtype=np.float64).copy()
    reranked = is_in(keys, retrieved)
    placed[reranked] = levels[np.searchsorted(retrieved, keys[reranked])]
    return placed
