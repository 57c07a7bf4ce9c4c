"""Average precision and precision at a recall over all pairs, from counts above thresholds (paper, 2.2 and A.2).

Only the positives' scores matter as thresholds: recall changes nowhere else. So whoever holds a part of the negatives
answers with one count a threshold and stratum, and these add. Equal scores are one threshold, and a pair is above a
threshold when its score is >= it, everywhere. Scores may be infinite, never NaN.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from al_ray.core.calibration import Reliability
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.scoring import Floats, Labels, refuse_nan

Ints = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32] | Floats

REPLICATES = 1000
CELLS = 2**22  # Replicates x thresholds held at once: 32 MiB an array.


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


@dataclass(frozen=True)
class Estimate:
    """A number with its 95% interval; low = value = high when it was counted."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float]:
        """As JSON holds it."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Evaluation:
    """How good a scorer is over all pairs of a split; total_pairs counts the positives too.

    reliability is None for a scorer that gives no probabilities (the untrained encoder).
    """

    split: str
    average_precision: Estimate
    precision_at_recall_20: Estimate
    positives: int
    strata: tuple[Extent, ...]
    total_pairs: int
    reliability: Reliability | None
    counts: Counts
    curve: Curve

    @property
    def exact(self) -> bool:
        """Whether every pair was counted."""
        return all(stratum.size == stratum.population for stratum in self.strata)

    @property
    def calibration_error(self) -> float | None:
        """Expected calibration error, where there are probabilities."""
        return None if self.reliability is None else self.reliability.error

    def as_dict(self) -> dict[str, Any]:
        """As evaluation-SPLIT.json holds it."""
        return {
            "split": self.split,
            "exact": self.exact,
            "average_precision": self.average_precision.as_dict(),
            "precision_at_recall_20": self.precision_at_recall_20.as_dict(),
            **({"calibration_error": None} if self.reliability is None else self.reliability.as_dict()),
            "positives": self.positives,
            "strata": [
                {"name": stratum.name, "size": stratum.size, "population": stratum.population, "weight": stratum.weight}
                for stratum in self.strata
            ],
            "total_pairs": self.total_pairs,
        }


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
    return float(_average_precision(counts, false_positives(counts, weights)))


def precision_at_recall(counts: Counts, weights: Floats, recall: float) -> float:
    """Precision at the first (highest) threshold whose recall is at least `recall` in (0, 1]."""
    return float(_precision_at(recall)(counts, false_positives(counts, weights)))


def average_precision_of(scores: Scores, labels: Labels) -> float:
    """AP of (n,) scores of ALL pairs with (n,) labels in {0, 1}."""
    return average_precision(counts_of(scores[labels == 1], [scores[labels == 0]]), np.ones(1))


def evaluation(
    split: str, counts: Counts, strata: Sequence[Extent], summed: Reliability | None, rng: np.random.Generator
) -> Evaluation:
    """All that is said of a scorer, from counts and sums over all positives and all sampled negatives."""
    weights = np.array([stratum.weight for stratum in strata], dtype=np.float64)
    ap, at_20 = _estimates(counts, strata, weights, [_average_precision, _precision_at(0.2)], rng)
    positives = int(counts.positives[-1])
    return Evaluation(
        split=split,
        average_precision=ap,
        precision_at_recall_20=at_20,
        positives=positives,
        strata=tuple(strata),
        total_pairs=positives + sum(stratum.population for stratum in strata),
        reliability=summed,
        counts=counts,
        curve=curve(counts, weights),
    )


# A measure of counts and false positives (..., t) -> (...), so that replicates go through it together.
Measure = Callable[[Counts, Floats], Floats]


def _recall(counts: Counts) -> Floats:
    return counts.positives / counts.positives[-1]


def _average_precision(counts: Counts, false: Floats) -> Floats:
    return (counts.positives / (counts.positives + false)) @ np.diff(_recall(counts), prepend=0.0)


def _precision_at(recall: float) -> Measure:
    if not 0 < recall <= 1:
        raise BadOption(f"precision at recall {recall}: give a recall above 0, and at most 1")

    def measure(counts: Counts, false: Floats) -> Floats:
        first = int(np.argmax(_recall(counts) >= recall))
        return counts.positives[first] / (counts.positives[first] + false[..., first])

    return measure


def _estimates(
    counts: Counts, strata: Sequence[Extent], weights: Floats, measures: Sequence[Measure], rng: np.random.Generator
) -> list[Estimate]:
    """Each measure with a 95% interval from the sampling of the strata; those taken whole do not vary.

    A first version, by parametric resampling: the sampled negatives between neighbouring thresholds are drawn again
    from a Poisson distribution of mean what was seen, their deviation shrunk by sqrt(1 - size/population) since no pair
    is sampled twice, and the interval is what 95% of 1000 replicates fall in, widened to hold the value. It
    under-covers where few sampled pairs are above the thresholds that matter, and shuts on the value where none is.
    """
    values = [float(measure(counts, false_positives(counts, weights))) for measure in measures]
    if all(stratum.size == stratum.population for stratum in strata):
        return [Estimate(value, value, value) for value in values]
    chunk = max(1, CELLS // len(counts.thresholds))
    found: list[list[Floats]] = [[] for _ in measures]
    for start in range(0, REPLICATES, chunk):
        false = _resampled(counts, strata, weights, min(chunk, REPLICATES - start), rng)
        for replicates, measure in zip(found, measures, strict=True):
            replicates.append(measure(counts, false))
    ends = [np.quantile(np.concatenate(replicates), (0.025, 0.975)) for replicates in found]
    return [Estimate(v, min(v, float(low)), max(v, float(high))) for v, (low, high) in zip(values, ends, strict=True)]


def _resampled(
    counts: Counts, strata: Sequence[Extent], weights: Floats, replicates: int, rng: np.random.Generator
) -> Floats:
    """False positives (replicates, t) had each stratum been sampled again."""
    between = np.diff(counts.negatives, prepend=0, axis=1)
    false = np.tile(weights @ between, (replicates, 1))
    for stratum, weight, seen in zip(strata, weights, between, strict=True):
        hit = np.flatnonzero(seen)
        scale = weight * np.sqrt(1 - stratum.size / stratum.population) if stratum.size else 0.0
        if scale and len(hit):
            false[:, hit] += scale * (rng.poisson(seen[hit], (replicates, len(hit))) - seen[hit])
    return np.cumsum(false, axis=1, out=false)
