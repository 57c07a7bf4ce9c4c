"""Average precision and precision at a recall over all pairs, from counts above thresholds (paper, 2.2 and A.2).

Only the positives' scores matter as thresholds: recall changes nowhere else. So whoever holds a part of the negatives
answers with one count a threshold and stratum, and these add. Equal scores are one threshold, and a pair is above a
threshold when its score is >= it, everywhere. Scores may be infinite, never NaN.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadFile, BadOption
from al_ray.core.scoring import Floats, refuse_nan

Ints = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32] | Floats


@dataclass(frozen=True)
class Extent:
    """A stratum of negatives without its pairs: `size` of its `population` were sampled uniformly, without repeats."""

    name: str
    size: int
    population: int

    def __post_init__(self) -> None:
        """Refuse a sample that cannot stand for its population."""
        if not (0 < self.size <= self.population or self.size == self.population == 0):
            raise BadFile(
                f"stratum {self.name}: {self.size:,} sampled pairs cannot stand for {self.population:,}; "
                "sample at least one pair of it, and none twice"
            )

    @property
    def weight(self) -> float:
        """How many negatives a sampled pair stands for; 1 when all are taken."""
        return self.population / self.size if self.size else 1.0


@dataclass(frozen=True)
class Counts:
    """How many pairs score at least each threshold.

    thresholds: (t,) distinct scores of the positives, descending.
    positives: (t,) positives; the last is all of them.
    negatives: (s, t) SAMPLED negatives of each stratum.
    """

    thresholds: Floats
    positives: Ints
    negatives: Ints

    def __add__(self, other: "Counts") -> "Counts":
        """The counts of two parts of the negatives, under the same thresholds."""
        assert np.array_equal(self.thresholds, other.thresholds)
        assert np.array_equal(self.positives, other.positives)
        return Counts(self.thresholds, self.positives, self.negatives + other.negatives)


@dataclass(frozen=True)
class Curve:
    """Precision at each threshold's recall (both in [0, 1]); (t,) each, recall rising to 1."""

    thresholds: Floats
    recall: Floats
    precision: Floats

    def as_dict(self, most: int = 200) -> dict[str, list[float]]:
        """For a picture, as record.json holds it: `most` points of it at most, evenly over its thresholds."""
        at = np.unique(np.linspace(0, len(self.recall) - 1, min(most, len(self.recall))).round().astype(np.int64))
        return {"recall": self.recall[at].tolist(), "precision": self.precision[at].tolist()}


@dataclass(frozen=True)
class Estimate:
    """A number with its 95% interval; low = value = high when it was counted."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float]:
        """As JSON holds it."""
        return {"value": self.value, "low": self.low, "high": self.high}


def thresholds_of(positive_scores: Scores) -> Floats:
    """(n,) scores of the positives -> (t,) the distinct ones, descending."""
    if not len(positive_scores):
        raise BadFile("there is no positive pair to measure by; give scores, or a split, with at least one")
    refuse_nan(positive_scores)
    return np.unique(np.asarray(positive_scores, dtype=np.float64))[::-1]


def counts_above(thresholds: Floats, scores: Scores) -> Ints:
    """(t,) descending thresholds, (n,) scores -> (t,) how many scores are >= each; O(n log t), and parts of n add."""
    refuse_nan(scores)
    reached = np.searchsorted(thresholds[::-1], scores, side="right")  # how many thresholds each score is >=
    highest_first = np.bincount(reached, minlength=len(thresholds) + 1)[:0:-1]
    return np.cumsum(highest_first, dtype=np.int64)


def counts_of(positive_scores: Scores, strata: Sequence[Scores]) -> Counts:
    """Counts of scores that are all in one place: those of the positives, and of each stratum's sampled negatives."""
    thresholds = thresholds_of(positive_scores)
    above = [counts_above(thresholds, scores) for scores in strata]
    negatives = np.array(above, dtype=np.int64).reshape(len(strata), len(thresholds))
    return Counts(thresholds, counts_above(thresholds, positive_scores), negatives)


def false_positives(counts: Counts, weights: Floats) -> Floats:
    """FP^ (t,) at each threshold (A.2, Eq. 13): each stratum's count times its weight (s,)."""
    return weights @ counts.negatives


def curve(counts: Counts, weights: Floats) -> Curve:
    """The precision-recall curve (Eq. 4 and 5) by weighted counts."""
    precision = counts.positives / (counts.positives + false_positives(counts, weights))
    return Curve(counts.thresholds, _recall(counts), precision)


def average_precision(counts: Counts, weights: Floats) -> float:
    """AP (Eq. 6): sum over distinct scores of (R_i - R_(i-1)) * P_i."""
    return float(average_precisions(counts, false_positives(counts, weights)))


def average_precisions(counts: Counts, false: Floats) -> Floats:
    """False positives (..., t) -> AP (...), so that many curves go through it together."""
    return (counts.positives / (counts.positives + false)) @ steps(counts)


def steps(counts: Counts) -> Floats:
    """(t,) by how much recall rises at each threshold."""
    return np.diff(_recall(counts), prepend=0.0)


def reaching(counts: Counts, recall: float) -> int:
    """Number of the first (highest) threshold whose recall is at least `recall` in (0, 1]."""
    if not 0 < recall <= 1:
        raise BadOption(f"precision at recall {recall}: give a recall above 0, and at most 1")
    return int(np.argmax(_recall(counts) >= recall))


def _recall(counts: Counts) -> Floats:
    return counts.positives / counts.positives[-1]
