"""Calibration of probabilities: reliability table, expected calibration error, L2 calibration error.

Pairs are binned in two ways. The expected calibration error uses the usual 15 equal bins of p. But if one pair in 10^5
matches, nearly all pairs fall into the lowest of them, so the table, its plot and the L2 error use half decades of the
odds p / (1 - p), which distinguish 1 in 10^5 from 1 in 10^6. Both binnings are fixed, so the sums of shards add up.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from al_ray.core.scorer import Floats, Labels, check_no_nan, sigmoid
from al_ray.metrics.average_precision import Ints
from al_ray.metrics.intervals import total_interval

BINS = 15
DECADES = (-8, 4)  # Range of the odds, in powers of 10; there is one more bin below it and one above.
HALF = np.log(10) / 2  # A half decade of the odds, in logits.
ODDS = 2 * (DECADES[1] - DECADES[0]) + 2


@dataclass(frozen=True)
class Bin:
    """A row of the reliability table: the pairs with low <= p < high. A calibrated scorer has mean_p = share.

    weight: number of pairs that they represent. share: of positives, in [0, 1]. share_low and share_high: its 95%
    interval over splits like this one, which has a width even if every pair was counted.
    """

    low: float
    high: float
    weight: float
    mean_p: float
    share: float
    share_low: float
    share_high: float

    def as_dict(self) -> dict[str, Any]:
        """Return the dict that JSON files hold."""
        return {
            "low": self.low,
            "high": self.high,
            "weight": self.weight,
            "mean_p": self.mean_p,
            "share": {"value": self.share, "low": self.share_low, "high": self.share_high},
        }


@dataclass(frozen=True)
class Reliability:
    """Sums over the pairs of each of (26, 15) cells: half decade of the odds x equal bin of p.

    weight: sum of the weights. confidence: of weight * p. positives: of the weights of positives. squares: of the
    squared weights of negatives.
    """

    weight: Floats
    confidence: Floats
    positives: Floats
    squares: Floats

    def __add__(self, other: "Reliability") -> "Reliability":
        """Add the sums of two parts of the pairs."""
        return Reliability(
            self.weight + other.weight,
            self.confidence + other.confidence,
            self.positives + other.positives,
            self.squares + other.squares,
        )

    def __sub__(self, other: "Reliability") -> "Reliability":
        """Take away the sums of a part of the pairs."""
        return Reliability(
            self.weight - other.weight,
            self.confidence - other.confidence,
            self.positives - other.positives,
            self.squares - other.squares,
        )

    @property
    def error(self) -> float:
        """Expected calibration error: mean over all pairs of |mean p - share of positives| of the pair's equal bin."""
        total = float(self.weight.sum())
        return float(np.abs((self.confidence - self.positives).sum(axis=0)).sum()) / total if total else 0.0

    @property
    def l2_error(self) -> float:
        """Root of the mean over all pairs of (mean p - share of positives)^2 of the pair's half decade of the odds."""
        weight, apart = self.weight.sum(axis=1), (self.confidence - self.positives).sum(axis=1)
        seen = weight > 0
        return float(np.sqrt((apart[seen] ** 2 / weight[seen]).sum() / weight.sum())) if seen.any() else 0.0

    def table(self) -> tuple[Bin, ...]:
        """Return the non-empty half decades, from the lowest p to the highest."""
        sums = [each.sum(axis=1) for each in (self.weight, self.confidence, self.positives, self.squares)]
        ends = [0.0, *sigmoid(HALF * np.arange(2 * DECADES[0], 2 * DECADES[1] + 1)).tolist(), 1.0]
        rows: list[Bin] = []
        for low, high, *here in zip(ends[:-1], ends[1:], *(each.tolist() for each in sums), strict=True):
            weight, confidence, positives, squares = here
            if weight:
                share = _share_interval(positives, weight - positives, squares)
                rows.append(Bin(low, high, weight, confidence / weight, positives / weight, *share))
        return tuple(rows)

    def as_dict(self) -> dict[str, Any]:
        """Return the errors and the table, as JSON files hold them."""
        return {
            "calibration_error": self.error,
            "l2_calibration_error": self.l2_error,
            "reliability": [row.as_dict() for row in self.table()],
        }


def reliability(
    logits: npt.NDArray[np.float32] | Floats, labels: Labels, weight: float, numbers: Ints | None = None
) -> Reliability:
    """Sum (n,) pairs of one weight, given their logits and labels; a bin includes its lower end, the last also p = 1.

    numbers: (n,) number of identical pairs that each one represents; 1 if not given. BadFile for a NaN.
    """
    check_no_nan(logits)
    logits = np.asarray(logits, dtype=np.float64)
    p = sigmoid(logits)
    # Clip first: an infinite logit has no integer.
    odds = np.floor(np.clip(logits / HALF, 2 * DECADES[0] - 1, 2 * DECADES[1])).astype(np.int64) - 2 * DECADES[0] + 1
    cells = odds * BINS + np.minimum((p * BINS).astype(np.int64), BINS - 1)
    every = None if numbers is None else numbers.astype(np.float64)

    def summed(here: npt.NDArray[np.int64], values: Floats | None) -> Floats:
        return np.bincount(here, values, minlength=ODDS * BINS).reshape(ODDS, BINS).astype(np.float64)

    true = labels.astype(np.bool_)
    count, confidence = summed(cells, every), summed(cells, p if every is None else every * p)
    positives = summed(cells[true], None if every is None else every[true])
    return Reliability(weight * count, weight * confidence, weight * positives, weight**2 * (count - positives))


def _share_interval(positives: float, negatives: float, squares: float) -> tuple[float, float]:
    """Return the ends of positives / (positives + negatives): the low end of one count with the high end of the other.

    All positives are known and weigh 1. An unseen negative has the mean weight of the bin's, or 1 if there is none.
    """
    fewest, most = total_interval(positives, positives, 1.0)
    few, many = total_interval(negatives, squares, squares / negatives if negatives else 1.0)
    return fewest / (fewest + many), most / (most + few)
