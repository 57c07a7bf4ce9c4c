"""Texts that have many near ones, as those of a large group of equal texts have: their candidates are more than K.

A text is dense if the cosine of its K-th nearest reaches a threshold. The candidates of a dense text are all that reach
the threshold, up to a number. At least SHARE of the texts of train are dense, unless more than that have K texts that
are all but equal to them; and more of them, up to MOST, as long as the candidates that this adds are few for each text,
on average. A matcher keeps the threshold of its own task, so that texts of another pool are no reason for others to
have more candidates or fewer.
"""

import numpy as np

from al_ray.core.hashing import hash_keys
from al_ray.core.pairs import Mask, Rows
from al_ray.core.scorer import Floats
from al_ray.metrics.average_precision import Ints
from al_ray.search.candidate_ranks import NearestOf

SHARE, MOST = 0.05, 0.3
SAMPLED = 20_000
"""Approximate sample size of train texts from which the number of candidates that a threshold adds is estimated."""
STEPS = 1024
"""The threshold is a multiple of 1/STEPS, so that shards count it, and a cosine is compared with it exactly."""


def kth_scores(near: NearestOf, count: int) -> Floats:
    """Return (b,) the `count`-th highest score of each text; -inf for a text that has fewer."""
    order = np.lexsort((-near.scores, near.lines))
    lines, kth = near.lines[order], np.full(len(near.rows), -np.inf)
    here = order[np.arange(len(lines)) - np.searchsorted(lines, lines) == count - 1]
    kth[near.lines[here]] = near.scores[here]
    return kth


def count_steps(kth: Floats) -> Ints:
    """(b,) cosines -> (2 * STEPS + 1,) how many lie on each step from -1 to 1; those of -inf on none."""
    steps = np.floor(np.clip(kth[kth > -np.inf], -1.0, 1.0) * STEPS).astype(np.int64) + STEPS
    return np.bincount(steps, minlength=2 * STEPS + 1)


def threshold_of(counts: Ints, most: float) -> float:
    """Return the lowest step below 1 that at most `most` counted scores reach; the last step if more reach it."""
    few = np.flatnonzero(np.cumsum(counts[::-1])[:0:-1] <= most)
    return float(few[0] if len(few) else 2 * STEPS - 1) / STEPS - 1


def sampled(rows: Rows, texts: int) -> Mask:
    """Whether rows (n,) of train are among the texts by which added candidates are counted. texts: of train."""
    return hash_keys(rows, 0, "dense texts") < np.uint64(min(2**64 - 1, int(2**64 * (SAMPLED / max(texts, 1)))))


def added_scores(near: NearestOf, least: float, known: int, count: int, symmetric: bool) -> Floats:
    """Return the scores of what `near_ones` has beyond the `known` nearest of each text, candidates anyway."""
    best = near.best(count)
    kept = _reaches(best, least, symmetric)
    kept &= np.arange(len(best.lines)) - np.searchsorted(best.lines, best.lines) >= known
    return best.scores[kept]


def reaching(counts: Ints, least: float) -> int:
    """Return how many texts a threshold makes dense: of (2 * STEPS + 1,) counts, those of its step and of all above."""
    return int(counts[round((least + 1) * STEPS) :].sum())


def near_ones(near: NearestOf, least: float, count: int, symmetric: bool) -> NearestOf:
    """Return the `count` nearest of each text that reach a threshold; in one set of texts those before it alone.

    So what one more text, after all others, adds is known from its own nearest.
    """
    best = near.best(count)
    kept = _reaches(best, least, symmetric)
    return NearestOf(best.rows, best.lines[kept], best.partners[kept], best.scores[kept])


def _reaches(near: NearestOf, least: float, symmetric: bool) -> Mask:
    kept: Mask = near.scores >= least
    return kept & (near.partners < near.rows[near.lines]) if symmetric else kept
