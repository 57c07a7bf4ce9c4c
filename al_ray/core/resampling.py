"""Had other questions been asked, or other pairs sampled: Poisson bootstrap weights by hash, and sums that add.

A weight is Poisson(1), hashed from a seed, the replicate and a key, never drawn in sequence: so the replicates of parts
add, however the parts lie on actors, and those of two runs pair up. Left texts are asked anew in a two-sided task, and
components of matching texts in a symmetric one, where a pair is of two of them. A pair's weight is its question's; in a
symmetric task it is v_i + v_j - 1, the product v_i * v_j to first order: it varies as one pair between two questions
does by each of them, sums by text, and lacks the product's excess of variance (Owen, 2007). A positive, inside one
component, has that component's.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import factorial

import numpy as np
import numpy.typing as npt

from al_ray.core.metrics import Counts, Estimate, Ints, average_precision, counts_above
from al_ray.core.pairs import Keys, Pairs, Rows
from al_ray.core.scoring import Floats
from al_ray.core.task import Split

REPLICATES = 200
GRID = 256  # Thresholds of the replicates at most, evenly spaced in recall.
BLOCK = 2**17  # Pairs weighted at a time.
# Poisson(1) is at most k with these probabilities; beyond 12 it goes less than once in 10^10 times.
_LADDER = np.cumsum([np.exp(-1) / factorial(k) for k in range(13)])
_LADDER64 = (_LADDER[:-1] * 2.0**64).astype(np.uint64)


def poisson_weights(keys: Keys, seed: int, replicates: int = REPLICATES) -> npt.NDArray[np.uint8]:
    """(n,) keys -> (replicates, n) Poisson(1) weights: the same for the same key, whatever the others are."""
    stems = _mixed(keys.astype(np.uint64) + _mixed(np.array([seed], dtype=np.uint64)))
    found = np.empty((replicates, len(keys)), dtype=np.uint8)
    for replicate, turn in enumerate(_mixed(np.arange(replicates, dtype=np.uint64))):
        found[replicate] = np.searchsorted(_LADDER64, _mixed(stems ^ turn), side="right")
    return found


def components(texts: int, pairs: Pairs) -> Rows:
    """(n, 2) pairs of rows below `texts` -> (texts,) the lowest row that each is joined to, by whatever way."""
    lowest = np.arange(texts, dtype=np.int64)
    while True:
        joined = lowest.copy()
        least = np.minimum(lowest[pairs[:, 0]], lowest[pairs[:, 1]])
        for side in (0, 1):
            np.minimum.at(joined, pairs[:, side], least)
            np.minimum.at(joined, lowest[pairs[:, side]], least)
        joined = joined[joined]
        if np.array_equal(joined, lowest):
            return lowest
        lowest = joined


@dataclass(frozen=True)
class Questions:
    """What is asked anew, and at which thresholds the answers are counted.

    units: (texts,) the question that each left text is of, itself where the task has two sides.
    thresholds: (g,) descending, of the positives' scores.
    """

    units: Rows
    symmetric: bool
    thresholds: Floats
    seed: int = 0

    @property
    def nothing(self) -> Floats:
        """(replicates, g) sums over no pairs."""
        return np.zeros((REPLICATES, len(self.thresholds)))

    def weights(self, texts: Rows) -> npt.NDArray[np.uint8]:
        """(n,) left texts, or any in a symmetric task -> (n, replicates)."""
        places, weights = _hashed(len(self.units), self.seed).of(self.units[texts])
        return weights[places]

    def weighted(self, texts: Rows, numbers: Ints) -> Floats:
        """(n,) texts, (n, g + 1) numbers of their pairs that reach just so many thresholds -> (replicates, g + 1)."""
        weights = self.weights(texts)
        # Whole numbers below 2^24 are exact in float32, which takes half the time.
        few = int(numbers[:, 1:].sum()) * int(weights.max(initial=0)) < 2**24
        kind = np.float32 if few else np.float64
        return (weights.T.astype(kind) @ numbers.astype(kind)).astype(np.float64)

    def of_positives(self, pairs: Pairs, scores: Floats) -> Floats:
        """(replicates, g) weighted counts of (n, 2) positives at or above each threshold."""
        return at_or_above(self._by_pair(pairs[:, 0], np.searchsorted(self.thresholds[::-1], scores, side="right")))

    def of_negatives(self, pairs: Pairs, scores: Floats) -> Floats:
        """(replicates, g) the same of (n, 2) negatives that come in no block."""
        kept = scores >= self.thresholds[-1]
        pairs, reached = pairs[kept], np.searchsorted(self.thresholds[::-1], scores[kept], side="right")
        found = self._by_pair(pairs[:, 0], reached)
        if self.symmetric:
            total = np.bincount(reached, minlength=len(self.thresholds) + 1)
            found += self._by_pair(pairs[:, 1], reached) - total
        return at_or_above(found)

    def _by_pair(self, texts: Rows, reached: Rows) -> Floats:
        """(n,) a text of each pair, (n,) how many thresholds it reaches -> (replicates, g + 1) as `weighted`.

        Quicker than that where most texts are in few pairs: it looks each pair's weights up, and adds them.
        """
        found = np.zeros((len(self.thresholds) + 1, REPLICATES))
        places, weights = _hashed(len(self.units), self.seed).of(self.units[texts])
        order = np.argsort(reached.astype(np.int16), kind="stable")
        ends = np.cumsum(np.bincount(reached, minlength=len(found)))
        for number, (start, end) in enumerate(zip(np.concatenate([[0], ends]), ends, strict=False)):
            for first in range(start, end, BLOCK):
                here = order[first : min(first + BLOCK, end)]
                found[number] += weights[places[here]].sum(axis=0, dtype=np.uint32)
        return found.T


class _Hashed:
    """Weights that were asked for before: hashing takes ten times as long as looking up."""

    def __init__(self, texts: int, seed: int) -> None:
        """Of keys below `texts`."""
        self.seed = seed
        self._place = np.full(texts, -1, dtype=np.int64)
        self._weights = np.empty((0, REPLICATES), dtype=np.uint8)

    def of(self, keys: Keys) -> tuple[Rows, npt.NDArray[np.uint8]]:
        """(n,) keys -> (n,) lines, of (m, replicates) weights, that are what `poisson_weights` says of them."""
        places = self._place[keys]
        if len(places) and places.min() < 0:
            fresh = np.unique(keys[places < 0])
            self._place[fresh] = len(self._weights) + np.arange(len(fresh))
            self._weights = np.concatenate([self._weights, poisson_weights(fresh, self.seed).T])
            places = self._place[keys]
        return places, self._weights


@lru_cache(maxsize=1)
def _hashed(texts: int, seed: int) -> _Hashed:
    """One of a process: questions come with every call to an actor, and are the same."""
    return _Hashed(texts, seed)


@dataclass(frozen=True)
class Replicates:
    """What AP would have been: `drawn` (r,) of other draws, NaN without a positive; `value` of what there is."""

    value: float
    drawn: Floats

    def __sub__(self, other: "Replicates") -> "Replicates":
        """The difference of two runs, draw by draw."""
        return Replicates(self.value - other.value, self.drawn - other.drawn)

    @cached_property
    def interval(self) -> Estimate | None:
        """What 95% of the draws fall in, widened to hold the value; None where all draws were without a positive."""
        kept = self.drawn[np.isfinite(self.drawn)]
        if not len(kept):
            return None
        low, high = (float(end) for end in np.quantile(kept, (0.025, 0.975)))
        return Estimate(self.value, min(self.value, low), max(self.value, high))


def grid_of(counts: Counts) -> Floats:
    """(g,) of the thresholds: all where they are few, else evenly spaced in recall, the last one with them."""
    if len(counts.thresholds) <= GRID:
        return counts.thresholds
    wanted = np.arange(1, GRID + 1, dtype=np.float64) * (int(counts.positives[-1]) / GRID)
    return counts.thresholds[np.unique(np.searchsorted(counts.positives, wanted))]


def questions_of(split: Split, counts: Counts) -> Questions:
    """The questions of a split, and thresholds of the counts of its positives."""
    space = split.space
    every = np.arange(int(space.left[-1]) + 1, dtype=np.int64)
    units = components(space.width, split.positives) if space.symmetric else every
    return Questions(units, space.symmetric, grid_of(counts))


def replicates_of(counts: Counts, weights: Floats, true: Floats, false: Floats) -> Replicates:
    """AP by replicates (r, g) of true and false positives at the thresholds of `grid_of(counts)`.

    What the coarse grid makes of `counts` is taken off, and AP by all thresholds put in its place.
    """
    at = np.searchsorted(-counts.thresholds, -grid_of(counts))
    value = average_precision(counts, weights)
    plain = _average_precisions(counts.positives[at][None].astype(np.float64), (weights @ counts.negatives)[at][None])
    return Replicates(value, value + _average_precisions(true, np.maximum(false, 0.0)) - plain[0])


def sampled_again(thresholds: Floats, keys: Keys, scores: Floats, scale: float) -> Floats:
    """(replicates, g) by how much FP^ changes had a stratum been sampled again: `scale` a pair, weights by pair key."""
    found = np.zeros((REPLICATES, len(thresholds)))
    kept = np.flatnonzero(scores >= thresholds[-1])
    for start in range(0, len(kept), BLOCK):
        here = kept[start : start + BLOCK]
        reached = np.searchsorted(thresholds[::-1], scores[here], side="right")
        found += _weighed(reached, poisson_weights(keys[here], seed=1), len(thresholds))
    return scale * (found - counts_above(thresholds, scores))


def _average_precisions(true: Floats, false: Floats) -> Floats:
    """(r, g) true and false positives -> (r,) AP; NaN where no positive is left."""
    every = true[:, -1:]
    recall = np.divide(true, every, out=np.full_like(true, np.nan), where=every > 0)
    precision = np.divide(true, true + false, out=np.zeros_like(true), where=true > 0)
    return (np.diff(recall, axis=1, prepend=0.0) * precision).sum(axis=1)


def _weighed(reached: Rows, weights: npt.NDArray[np.integer], thresholds: int) -> Floats:
    """(n,) how many thresholds each pair reaches, (replicates, n) weights -> (replicates, thresholds) sums above."""
    found = np.empty((len(weights), thresholds + 1))
    for replicate, line in enumerate(weights):
        found[replicate] = np.bincount(reached, line, minlength=thresholds + 1)
    return at_or_above(found)


def at_or_above(numbers: Floats) -> Floats:
    """(r, g + 1) numbers of pairs that reach just so many thresholds -> (r, g) those at or above each, descending."""
    return np.cumsum(numbers[:, :0:-1], axis=1)


def _mixed(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Steele, Lea and Flood's splitmix64 (2014): every bit of a key turns half of the bits."""
    mixed = keys + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
