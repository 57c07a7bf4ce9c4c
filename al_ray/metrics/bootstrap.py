"""Poisson bootstrap of average precision, over queries and over sampled pairs.

A bootstrap weight is Poisson(1), hashed from a seed, the replicate and a key, never drawn in sequence. So the
replicates of shards add up, whatever the sharding, and the replicates of two runs are paired.

The queries of a two-sided task are its left texts; those of a symmetric task are the components of matching texts, and
a pair belongs to two of them. The weight of a pair is that of its query. In a symmetric task it is v_i + v_j - 1, which
is the product v_i * v_j to first order: it has the variance due to either query, can be summed by text, and avoids the
excess variance of the product (Owen, 2007). A positive lies inside one component and has its weight.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import factorial

import numpy as np
import numpy.typing as npt

from al_ray.core.graph import components
from al_ray.core.pairs import Keys, Pairs, Rows
from al_ray.core.scorer import Floats
from al_ray.core.task import Split
from al_ray.metrics.average_precision import Counts, Estimate, Ints, average_precision, counts_above

REPLICATES = 200
GRID = 256  # Maximum number of thresholds of a replicate, evenly spaced in recall.
BLOCK = 2**17  # Pairs weighted at a time; bounds memory.
# Distribution function of Poisson(1) at 0..12; P(more than 12) is below 10^-10.
_LADDER = np.cumsum([np.exp(-1) / factorial(k) for k in range(13)])
_LADDER64 = (_LADDER[:-1] * 2.0**64).astype(np.uint64)


def poisson_weights(keys: Keys, seed: int, replicates: int = REPLICATES) -> npt.NDArray[np.uint8]:
    """(n,) keys -> (replicates, n) Poisson(1) weights. The weight of a key does not depend on the other keys."""
    stems = _mixed(keys.astype(np.uint64) + _mixed(np.array([seed], dtype=np.uint64)))
    weights = np.empty((replicates, len(keys)), dtype=np.uint8)
    for replicate, stream in enumerate(_mixed(np.arange(replicates, dtype=np.uint64))):
        weights[replicate] = np.searchsorted(_LADDER64, _mixed(stems ^ stream), side="right")
    return weights


@dataclass(frozen=True)
class QueryBootstrap:
    """The bootstrap over queries: which query each text belongs to, and the thresholds of the counts.

    query_of: (texts,) the query of each left text; the text itself in a two-sided task.
    thresholds: (g,) descending, g <= GRID, some of the scores of positives.
    """

    query_of: Rows
    symmetric: bool
    thresholds: Floats
    seed: int = 0

    @property
    def zero_counts(self) -> Floats:
        """(replicates, g) weighted counts of no pairs."""
        return np.zeros((REPLICATES, len(self.thresholds)))

    def weights(self, texts: Rows) -> npt.NDArray[np.uint8]:
        """(n,) left texts, or any texts of a symmetric task -> (n, replicates) weights."""
        places, weights = _hashed(len(self.query_of), self.seed).of(self.query_of[texts])
        return weights[places]

    def weighted(self, texts: Rows, numbers: Ints) -> Floats:
        """(n,) texts, (n, g + 1) number of their pairs by thresholds reached -> (replicates, g + 1) weighted sums."""
        weights = self.weights(texts)
        # Integers below 2^24 are exact in float32, which takes half the time.
        exact = int(numbers[:, 1:].sum()) * int(weights.max(initial=0)) < 2**24
        kind = np.float32 if exact else np.float64
        return (weights.T.astype(kind) @ numbers.astype(kind)).astype(np.float64)

    def of_positives(self, pairs: Pairs, scores: Floats) -> Floats:
        """(n, 2) positives with (n,) scores -> (replicates, g) weighted counts at or above each threshold."""
        return cumulate_counts(self._by_pair(pairs[:, 0], np.searchsorted(self.thresholds[::-1], scores, side="right")))

    def of_negatives(self, pairs: Pairs, scores: Floats) -> Floats:
        """(n, 2) sampled negatives with (n,) scores -> (replicates, g) weighted counts at or above each threshold."""
        reaching = scores >= self.thresholds[-1]
        pairs, reached = pairs[reaching], np.searchsorted(self.thresholds[::-1], scores[reaching], side="right")
        sums = self._by_pair(pairs[:, 0], reached)
        if self.symmetric:
            total = np.bincount(reached, minlength=len(self.thresholds) + 1)
            sums += self._by_pair(pairs[:, 1], reached) - total
        return cumulate_counts(sums)

    def _by_pair(self, texts: Rows, reached: Rows) -> Floats:
        """(n,) a text of each pair, (n,) number of thresholds it reaches -> (replicates, g + 1) as `weighted`.

        Faster than `weighted` if most texts are in few pairs: adds up the weights pair by pair.
        """
        sums = np.zeros((len(self.thresholds) + 1, REPLICATES))
        places, weights = _hashed(len(self.query_of), self.seed).of(self.query_of[texts])
        order = np.argsort(reached.astype(np.int16), kind="stable")
        ends = np.cumsum(np.bincount(reached, minlength=len(sums)))
        for number, (start, end) in enumerate(zip(np.concatenate([[0], ends]), ends, strict=False)):
            for first in range(start, end, BLOCK):
                here = order[first : min(first + BLOCK, end)]
                sums[number] += weights[places[here]].sum(axis=0, dtype=np.uint32)
        return sums.T


class _Hashed:
    """Cache of bootstrap weights by query: a lookup is ten times as fast as hashing."""

    def __init__(self, texts: int, seed: int) -> None:
        """Start an empty cache of keys below `texts`."""
        self.seed = seed
        self._place = np.full(texts, -1, dtype=np.int64)
        self._weights = np.empty((0, REPLICATES), dtype=np.uint8)

    def of(self, keys: Keys) -> tuple[Rows, npt.NDArray[np.uint8]]:
        """(n,) keys -> (n,) row numbers and the (m, replicates) cached weights, those of `poisson_weights`."""
        places = self._place[keys]
        if len(places) and places.min() < 0:
            fresh = np.unique(keys[places < 0])
            self._place[fresh] = len(self._weights) + np.arange(len(fresh))
            self._weights = np.concatenate([self._weights, poisson_weights(fresh, self.seed).T])
            places = self._place[keys]
        return places, self._weights


@lru_cache(maxsize=1)
def _hashed(texts: int, seed: int) -> _Hashed:
    """Return the cache of this process, kept between calls: all calls of an evaluation use the same queries."""
    return _Hashed(texts, seed)


@dataclass(frozen=True)
class Replicates:
    """AP, `value`, and its (r,) bootstrap replicates, `values`; NaN for a replicate without a positive."""

    value: float
    values: Floats

    def __sub__(self, other: "Replicates") -> "Replicates":
        """Return the difference of two scorers, replicate by replicate."""
        return Replicates(self.value - other.value, self.values - other.values)

    @cached_property
    def interval(self) -> Estimate | None:
        """95% percentile interval, widened to include the value; None if no replicate has a positive."""
        finite = self.values[np.isfinite(self.values)]
        if not len(finite):
            return None
        low, high = (float(end) for end in np.quantile(finite, (0.025, 0.975)))
        return Estimate(self.value, min(self.value, low), max(self.value, high))


def replicate_thresholds(counts: Counts) -> Floats:
    """Return (g,) thresholds for the replicates: all if there are at most GRID, else some evenly spaced in recall."""
    if len(counts.thresholds) <= GRID:
        return counts.thresholds
    targets = np.arange(1, GRID + 1, dtype=np.float64) * (int(counts.positives[-1]) / GRID)
    return counts.thresholds[np.unique(np.searchsorted(counts.positives, targets))]


def bootstrap_queries(split: Split, counts: Counts) -> QueryBootstrap:
    """Make the bootstrap over the queries of a split, at thresholds from the counts of its positives."""
    space = split.space
    every = np.arange(int(space.left[-1]) + 1, dtype=np.int64)
    units = components(space.width, split.positives) if space.symmetric else every
    return QueryBootstrap(units, space.symmetric, replicate_thresholds(counts))


def make_replicates(counts: Counts, weights: Floats, true: Floats, false: Floats) -> Replicates:
    """Compute AP of (r, g) replicates of true and false positives at the thresholds of `replicate_thresholds(counts)`.

    The error of the coarse grid is removed: the result is the AP of all thresholds plus the change on the grid.
    """
    at = np.searchsorted(-counts.thresholds, -replicate_thresholds(counts))
    value = average_precision(counts, weights)
    plain = _average_precisions(counts.positives[at][None].astype(np.float64), (weights @ counts.negatives)[at][None])
    return Replicates(value, value + _average_precisions(true, np.maximum(false, 0.0)) - plain[0])


def resample_pairs(thresholds: Floats, keys: Keys, scores: Floats, scale: float) -> Floats:
    """Bootstrap the sampled pairs of a stratum: return the (replicates, g) change of its count at each threshold.

    thresholds: (g,) descending. keys, scores: (n,) of the sampled pairs. The weights are hashed from the pair keys, so
    that two scorers are resampled alike. The change is multiplied by `scale`.
    """
    sums = np.zeros((REPLICATES, len(thresholds)))
    reaching = np.flatnonzero(scores >= thresholds[-1])
    for start in range(0, len(reaching), BLOCK):
        here = reaching[start : start + BLOCK]
        reached = np.searchsorted(thresholds[::-1], scores[here], side="right")
        sums += _weighed(reached, poisson_weights(keys[here], seed=1), len(thresholds))
    return scale * (sums - counts_above(thresholds, scores))


def _average_precisions(true: Floats, false: Floats) -> Floats:
    """(r, g) true and false positives -> (r,) AP; NaN for a replicate without a positive."""
    every = true[:, -1:]
    recall = np.divide(true, every, out=np.full_like(true, np.nan), where=every > 0)
    precision = np.divide(true, true + false, out=np.zeros_like(true), where=true > 0)
    return (np.diff(recall, axis=1, prepend=0.0) * precision).sum(axis=1)


def _weighed(reached: Rows, weights: npt.NDArray[np.integer], thresholds: int) -> Floats:
    """(n,) thresholds each pair reaches, (replicates, n) weights -> (replicates, thresholds) weighted counts."""
    sums = np.empty((len(weights), thresholds + 1))
    for replicate, line in enumerate(weights):
        sums[replicate] = np.bincount(reached, line, minlength=thresholds + 1)
    return cumulate_counts(sums)


def cumulate_counts(numbers: Floats) -> Floats:
    """(r, g + 1) number of pairs that reach exactly 0..g thresholds -> (r, g) number at or above each, descending."""
    return np.cumsum(numbers[:, :0:-1], axis=1)


def _mixed(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Hash (n,) keys by splitmix64 (Steele, Lea and Flood, 2014): each input bit flips half of the output bits."""
    mixed = keys + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
