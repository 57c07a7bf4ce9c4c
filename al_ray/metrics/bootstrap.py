"""Poisson bootstrap of average precision, over queries and over sampled pairs.

A bootstrap weight is Poisson(1), hashed from a seed, the replicate and a key, never drawn in sequence. So the
replicates of shards add up, whatever the sharding, and the replicates of two runs are paired.

The queries of a two-sided task are its left texts; those of a symmetric task are the components of matching texts, and
a pair belongs to two of them. The weight of a pair is that of its query. In a symmetric task it is v_i + v_j - 1, which
is the product v_i * v_j to first order: it has the variance due to either query, can be summed by text, and avoids the
excess variance of the product (Owen, 2007). A positive lies inside one component and has its weight.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import factorial

import numpy as np
import numpy.typing as npt

from al_ray.core.graph import components
from al_ray.core.hashing import mix
from al_ray.core.pairs import Keys, Pairs, Rows
from al_ray.core.scorer import Floats
from al_ray.core.task import Split
from al_ray.metrics.average_precision import Counts, Estimate, average_precision, counts_above

REPLICATES = 200
FEWEST_QUERIES = 10  # With a positive. Of fewer, the 95% intervals are too narrow: they hold in 0 to 90% of cases.
GRID = 256  # Maximum number of thresholds of a replicate.
BLOCK = 2**16  # Pairs weighted at a time; bounds memory.
CACHED = 2**18  # Queries whose weights stay in memory: 50 MiB a process.
HASHES = 2**14  # Hashes computed at a time: they stay in the processor's cache.
# Distribution function of Poisson(1) at 0..12; P(more than 12) is below 10^-10.
_LADDER = np.cumsum([np.exp(-1) / factorial(k) for k in range(13)])
_LADDER64 = (_LADDER[:-1] * 2.0**64).astype(np.uint64)
# The weight of a hash by its 16 highest bits; _OPEN where the other bits decide. A lookup is faster than a search.
_OPEN = 255
_LOWEST = np.arange(2**16, dtype=np.uint64) << np.uint64(48)
_WEIGHTS = np.searchsorted(_LADDER64, _LOWEST, side="right").astype(np.uint8)
_WEIGHTS[np.searchsorted(_LADDER64, _LOWEST | np.uint64(2**48 - 1), side="right") != _WEIGHTS] = _OPEN

# (n,) rows of a table (m, replicates) of bootstrap weights, m <= n + CACHED: the weights of n pairs or texts.
_Weights = tuple[Rows, npt.NDArray[np.uint8]]


def poisson_weights(keys: Keys, seed: int, replicates: int = REPLICATES) -> npt.NDArray[np.uint8]:
    """(n,) keys -> (n, replicates) Poisson(1) weights. The weight of a key does not depend on the other keys."""
    stems = mix(keys.astype(np.uint64) + mix(np.array([seed], dtype=np.uint64)))
    streams = mix(np.arange(replicates, dtype=np.uint64))
    weights = np.empty((len(keys), replicates), dtype=np.uint8)
    step = max(1, HASHES // replicates)
    for start in range(0, len(keys), step):
        hashes = mix(stems[start : start + step, None] ^ streams)
        block = _WEIGHTS.take((hashes >> np.uint64(48)).view(np.int64))
        close = block == _OPEN
        block[close] = np.searchsorted(_LADDER64, hashes[close], side="right")
        weights[start : start + step] = block
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

    def count_queries(self, positives: Pairs) -> int:
        """Return how many queries have one of these (n, 2) positives."""
        return len(np.unique(self.query_of[positives[:, 0]]))

    @property
    def zero_counts(self) -> Floats:
        """(replicates, g) weighted counts of no pairs."""
        return np.zeros((REPLICATES, len(self.thresholds)))

    def weights(self, texts: Rows) -> npt.NDArray[np.uint8]:
        """(n,) left texts, or any texts of a symmetric task -> (n, replicates) weights."""
        places, weights = self._hashed.of(self.query_of[texts])
        return weights[places]

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
        """(n,) a text of each pair, (n,) number of thresholds it reaches -> (replicates, g + 1) weighted sums.

        Adds up the weights pair by pair, which is faster than a product by text if most texts are in few pairs.
        """
        return _summed(reached, len(self.thresholds), lambda here: self._hashed.of(self.query_of[texts[here]]))

    @property
    def _hashed(self) -> "_Hashed":
        return _hashed(len(self.query_of), self.seed)


class _Hashed:
    """Bootstrap weights of queries. Those of the first CACHED are kept: a lookup is ten times as fast as hashing."""

    def __init__(self, queries: int, seed: int) -> None:
        """Start an empty cache of queries below `queries`."""
        self.seed, self._count = seed, 0
        # Where the weights of a query are, -1 before they are known: one after the other, as queries come. The system
        # provides a page when the first of its rows is written, so a driver, which has few queries, needs few pages.
        self._places = np.full(min(queries, CACHED), -1, dtype=np.int64)
        self._weights = np.empty((len(self._places), REPLICATES), dtype=np.uint8)

    def of(self, queries: Rows) -> _Weights:
        """(n,) queries -> their weights, those of `poisson_weights`."""
        if queries.max(initial=-1) < len(self._places):
            return self._cached(queries), self._weights
        unique, places = np.unique(queries, return_inverse=True)
        first, others = np.split(unique, [np.searchsorted(unique, len(self._places))])
        return places, np.concatenate([self._weights[self._cached(first)], poisson_weights(others, self.seed)])

    def _cached(self, queries: Rows) -> Rows:
        """Return the rows (n,) of the cache that have the weights of (n,) queries."""
        fresh = np.unique(queries[self._places[queries] < 0])
        stop = self._count + len(fresh)
        self._weights[self._count : stop] = poisson_weights(fresh, self.seed)
        self._places[fresh] = np.arange(self._count, stop)
        self._count = stop
        return self._places[queries]


@lru_cache(maxsize=1)
def _hashed(queries: int, seed: int) -> _Hashed:
    """Return the cache of this process, kept between calls: all calls of an evaluation use the same queries."""
    return _Hashed(queries, seed)


@dataclass(frozen=True)
class Replicates:
    """AP, `value`, and its (r,) bootstrap replicates, `values`; NaN for a replicate without a positive.

    queries: how many queries have a positive; None for replicates over sampled pairs.
    """

    value: float
    values: Floats
    queries: int | None = None

    def __sub__(self, other: "Replicates") -> "Replicates":
        """Return the difference of two scorers of the same pairs, replicate by replicate."""
        return replace(self, value=self.value - other.value, values=self.values - other.values)

    @cached_property
    def interval(self) -> Estimate | None:
        """95% percentile interval, widened to include the value; None if fewer than FEWEST_QUERIES have a positive.

        None too if no replicate has one.
        """
        finite = self.values[np.isfinite(self.values)]
        if not len(finite) or (self.queries is not None and self.queries < FEWEST_QUERIES):
            return None
        low, high = (float(end) for end in np.quantile(finite, (0.025, 0.975)))
        return Estimate(self.value, min(self.value, low), max(self.value, high))


def replicate_thresholds(counts: Counts) -> Floats:
    """Return (g,) thresholds for the replicates: all if there are at most GRID.

    Of more, half are evenly spaced in recall, and half in its logarithm, from the first positive on: if AP is low, most
    of it comes from the first few positives, and thresholds that are evenly spaced in recall would have them as one.
    """
    if len(counts.thresholds) <= GRID:
        return counts.thresholds
    positives, half = int(counts.positives[-1]), GRID // 2
    even = np.arange(1, half + 1, dtype=np.float64) * (positives / half)
    targets = np.concatenate([even, np.geomspace(1, positives, half)])
    return counts.thresholds[np.unique(np.searchsorted(counts.positives, targets))]


def bootstrap_queries(split: Split, counts: Counts) -> QueryBootstrap:
    """Make the bootstrap over the queries of a split, at thresholds from the counts of its positives."""
    space = split.space
    every = np.arange(int(space.left[-1]) + 1, dtype=np.int64)
    units = components(space.width, split.positives) if space.symmetric else every
    return QueryBootstrap(units, space.symmetric, replicate_thresholds(counts))


def make_replicates(counts: Counts, weights: Floats, true: Floats, false: Floats) -> Replicates:
    """Compute AP of (r, g) replicates of true and false positives at the thresholds of `replicate_thresholds(counts)`.

    The error of the coarse grid is removed: the result is the AP of all thresholds plus the change on the grid, within
    0 to 1.
    """
    at = np.searchsorted(-counts.thresholds, -replicate_thresholds(counts))
    value = average_precision(counts, weights)
    plain = _average_precisions(counts.positives[at][None].astype(np.float64), (weights @ counts.negatives)[at][None])
    changed = _average_precisions(true, np.maximum(false, 0.0)) - plain[0]
    return Replicates(value, np.clip(value + changed, 0.0, 1.0))


def resample_pairs(thresholds: Floats, keys: Keys, scores: Floats, scale: float) -> Floats:
    """Bootstrap the sampled pairs of a stratum: return the (replicates, g) change of its count at each threshold.

    thresholds: (g,) descending. keys, scores: (n,) of the sampled pairs. The weights are hashed from the pair keys, so
    that two scorers are resampled alike. The change is multiplied by `scale`.
    """
    reaching = scores >= thresholds[-1]
    keys, reached = keys[reaching], np.searchsorted(thresholds[::-1], scores[reaching], side="right")
    sums = _summed(reached, len(thresholds), lambda here: (np.arange(len(here)), poisson_weights(keys[here], seed=1)))
    return scale * (cumulate_counts(sums) - counts_above(thresholds, scores))


def _average_precisions(true: Floats, false: Floats) -> Floats:
    """(r, g) true and false positives -> (r,) AP; NaN for a replicate without a positive."""
    every = true[:, -1:]
    recall = np.divide(true, every, out=np.full_like(true, np.nan), where=every > 0)
    precision = np.divide(true, true + false, out=np.zeros_like(true), where=true > 0)
    return (np.diff(recall, axis=1, prepend=0.0) * precision).sum(axis=1)


def _summed(reached: Rows, thresholds: int, weights_of: Callable[[Rows], _Weights]) -> Floats:
    """(n,) thresholds that each pair reaches -> (replicates, thresholds + 1) sums of weights.

    Column k is the sum of pairs that reach k thresholds. weights_of: the weights of at most BLOCK pairs, given their
    numbers; bounds memory.
    """
    sums = np.zeros((thresholds + 1, REPLICATES))
    order = np.argsort(reached.astype(np.int16), kind="stable")
    for start in range(0, len(order), BLOCK):
        here = order[start : start + BLOCK]
        places, weights = weights_of(here)
        numbers, firsts = np.unique(reached[here], return_index=True)
        for number, of_number in zip(numbers, np.split(places, firsts[1:]), strict=True):
            sums[number] += weights[of_number].sum(axis=0, dtype=np.uint32)
    return sums.T


def cumulate_counts(numbers: Floats) -> Floats:
    """(r, g + 1) number of pairs that reach exactly 0..g thresholds -> (r, g) number at or above each, descending."""
    return np.cumsum(numbers[:, :0:-1], axis=1)
