"""Whether p means what it says: sums of pairs by bins of p, the reliability table, calibration errors.

Two divisions of [0, 1] are kept side by side. 15 equal bins of p are those that the expected calibration error is
commonly taken over. Where one pair in 10^5 matches nearly all pairs are in the lowest of them, so the table, its
picture and the L2 error are over half decades of the odds p / (1 - p), which tell 1 in 10^5 from 1 in 10^6. Both have
fixed ends: sums over parts of the pairs add.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from al_ray.core.intervals import total_interval
from al_ray.core.metrics import Ints
from al_ray.core.scoring import Floats, Labels, refuse_nan, sigmoid

BINS = 15
DECADES = (-8, 4)  # Of the odds; below and above lies one bin each.
HALF = np.log(10) / 2  # A half decade, in logits.
ODDS = 2 * (DECADES[1] - DECADES[0]) + 2


@dataclass(frozen=True)
class Bin:
    """A row of the reliability table: the pairs with low <= p < high; in a calibrated scorer mean_p is their share.

    weight: how many pairs they stand for. share: of positives among those, between share_low and share_high in at
    least 95% of splits like this one: few pairs leave it open even where all were counted.
    """

    low: float
    high: float
    weight: float
    mean_p: float
    share: float
    share_low: float
    share_high: float

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "low": self.low,
            "high": self.high,
            "weight": self.weight,
            "mean_p": self.mean_p,
            "share": {"value": self.share, "low": self.share_low, "high": self.share_high},
        }


@dataclass(frozen=True)
class Reliability:
    """Sums over the pairs of each of (26, 15) cells: by their half decade of the odds, and by 15 equal bins of p.

    weight; weight * p; weight of positives; squared weight of negatives.
    """

    weight: Floats
    confidence: Floats
    positives: Floats
    squares: Floats

    def __add__(self, other: "Reliability") -> "Reliability":
        """The sums over two lists of pairs."""
        return Reliability(
            self.weight + other.weight,
            self.confidence + other.confidence,
            self.positives + other.positives,
            self.squares + other.squares,
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
        """The half decades that hold pairs, from the lowest p to the highest."""
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
        """Errors and table, as JSON holds them."""
        return {
            "calibration_error": self.error,
            "l2_calibration_error": self.l2_error,
            "reliability": [row.as_dict() for row in self.table()],
        }


def reliability(
    logits: npt.NDArray[np.float32] | Floats, labels: Labels, weight: float, numbers: Ints | None = None
) -> Reliability:
    """Sums over (n,) pairs of one weight; a bin holds its lower end, the last also p = 1.

    numbers: (n,) how many pairs each stands for that are exactly like it; one when not given.
    """
    refuse_nan(logits)
    logits = np.asarray(logits, dtype=np.float64)
    p = sigmoid(logits)
    # Cut to the range first: an infinite logit has no whole number.
    odds = np.floor(np.clip(logits / HALF, 2 * DECADES[0] - 1, 2 * DECADES[1])).astype(np.int64) - 2 * DECADES[0] + 1
    cells = odds * BINS + np.minimum((p * BINS).astype(np.int64), BINS - 1)
    every = np.ones(len(p)) if numbers is None else numbers.astype(np.float64)
    count, confidence, positives = (
        np.bincount(cells, values, minlength=ODDS * BINS).reshape(ODDS, BINS).astype(np.float64)
        for values in (every, every * p, every * labels)
    )
    return Reliability(weight * count, weight * confidence, weight * positives, weight**2 * (count - positives))


def _share_interval(positives: float, negatives: float, squares: float) -> tuple[float, float]:
    """Ends of positives / (positives + negatives): the fewest of one with the most of the other.

    Positives are all known, and weigh 1; a negative weighs what those of the bin do on average, 1 where there are none.
    """
    fewest, most = total_interval(positives, positives, 1.0)
    few, many = total_interval(negatives, squares, squares / negatives if negatives else 1.0)
    return fewest / (fewest + many), most / (most + few)
