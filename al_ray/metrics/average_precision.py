"""Average precision and precision at a recall over all pairs, from counts above thresholds (paper, 2.2 and A.2).

Only the scores of positives matter as thresholds, for recall changes nowhere else. So every shard of the negatives
counts them once per threshold and stratum, and the counts of shards add up. Ties: equal scores are one threshold, and a
pair is above a threshold if its score is >= it, everywhere. Scores may be infinite, never NaN.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadFile, BadOption
from al_ray.core.scorer import Floats, check_no_nan

Ints = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32] | Floats


@dataclass(frozen=True)
class StratumSummary:
    """Sizes of a stratum: `size` pairs were sampled uniformly, without replacement, from `population` negatives."""

    name: str
    size: int
    population: int

    def __post_init__(self) -> None:
        """Raise BadFile if the sample cannot represent the population."""
        if not (0 < self.size <= self.population or self.size == self.population == 0):
            raise BadFile(
                f"stratum {self.name}: {self.size:,} sampled pairs cannot stand for {self.population:,}; "
                "sample at least one pair of it, and none twice"
            )

    @property
    def weight(self) -> float:
        """Number of negatives that a sampled pair represents; 1 if all are in the sample."""
        return self.population / self.size if self.size else 1.0


@dataclass(frozen=True)
class Counts:
    """Number of pairs that score at least each threshold.

    thresholds: (t,) distinct scores of the positives, descending.
    positives: (t,) counts of positives; the last is their number.
    negatives: (s, t) counts of the SAMPLED negatives of each stratum, unweighted.
    """

    thresholds: Floats
    positives: Ints
    negatives: Ints

    def __add__(self, other: "Counts") -> "Counts":
        """Add the counts of two parts of the negatives, at the same thresholds."""
        assert np.array_equal(self.thresholds, other.thresholds)
        assert np.array_equal(self.positives, other.positives)
        return Counts(self.thresholds, self.positives, self.negatives + other.negatives)


@dataclass(frozen=True)
class Curve:
    """Precision-recall curve: (t,) thresholds, descending; recall rising to 1; precision in [0, 1]."""

    thresholds: Floats
    recall: Floats
    precision: Floats

    def as_dict(self, most: int = 200) -> dict[str, list[float]]:
        """Return at most `most` points, evenly over the thresholds, as record.json stores them for plots."""
        at = np.unique(np.linspace(0, len(self.recall) - 1, min(most, len(self.recall))).round().astype(np.int64))
        return {"recall": self.recall[at].tolist(), "precision": self.precision[at].tolist()}


@dataclass(frozen=True)
class Estimate:
    """A number with its 95% interval; low = value = high if every pair was counted."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float]:
        """Return the dict that JSON files hold."""
        return {"value": self.value, "low": self.low, "high": self.high}


def thresholds_of(positive_scores: Scores) -> Floats:
    """(n,) scores of positives -> (t,) distinct ones, descending. BadFile if there is none, or one is NaN."""
    if not len(positive_scores):
        raise BadFile("there is no positive pair to measure by; give scores, or a split, with at least one")
    check_no_nan(positive_scores)
    return np.unique(np.asarray(positive_scores, dtype=np.float64))[::-1]


def counts_above(thresholds: Floats, scores: Scores) -> Ints:
    """(t,) descending thresholds, (n,) scores -> (t,) number of scores >= each, in O(n log t)."""
    check_no_nan(scores)
    reached = np.searchsorted(thresholds[::-1], scores, side="right")  # (n,) number of thresholds <= the score
    highest_first = np.bincount(reached, minlength=len(thresholds) + 1)[:0:-1]
    return np.cumsum(highest_first, dtype=np.int64)


def count_scores(positive_scores: Scores, strata: Sequence[Scores]) -> Counts:
    """Count scores in memory: (p,) of the positives, and (n_i,) of the sampled negatives of each stratum."""
    thresholds = thresholds_of(positive_scores)
    above = [counts_above(thresholds, scores) for scores in strata]
    negatives = np.array(above, dtype=np.int64).reshape(len(strata), len(thresholds))
    return Counts(thresholds, counts_above(thresholds, positive_scores), negatives)


def false_positives(counts: Counts, weights: Floats) -> Floats:
    """Estimate false positives, FP^ (t,) (A.2, Eq. 13): the counts of the strata times their weights (s,)."""
    return weights @ counts.negatives


def curve(counts: Counts, weights: Floats) -> Curve:
    """Compute the precision-recall curve (Eq. 4 and 5) from counts and the (s,) weights of the strata."""
    precision = counts.positives / (counts.positives + false_positives(counts, weights))
    return Curve(counts.thresholds, _recall(counts), precision)


def average_precision(counts: Counts, weights: Floats) -> float:
    """Compute AP (Eq. 6): the sum over distinct scores of (R_i - R_(i-1)) * P_i."""
    return float(average_precisions(counts, false_positives(counts, weights)))


def average_precisions(counts: Counts, false: Floats) -> Floats:
    """(..., t) false positives -> (...) AP, of many curves at once."""
    return (counts.positives / (counts.positives + false)) @ recall_steps(counts)


def recall_steps(counts: Counts) -> Floats:
    """(t,) increase of recall at each threshold, R_i - R_(i-1)."""
    return np.diff(_recall(counts), prepend=0.0)


def threshold_at_recall(counts: Counts, recall: float) -> int:
    """Return the index of the highest threshold whose recall is at least `recall`; BadOption outside (0, 1]."""
    if not 0 < recall <= 1:
        raise BadOption(f"precision at recall {recall}: give a recall above 0, and at most 1")
    return int(np.argmax(_recall(counts) >= recall))


def _recall(counts: Counts) -> Floats:
    return counts.positives / counts.positives[-1]
