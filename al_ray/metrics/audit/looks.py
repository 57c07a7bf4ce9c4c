"""Label until an interval is narrow enough: looks at the labels after numbers of pairs that are fixed in advance.

The pairs of each band are drawn in an order of their own, and look k has the first n_k pairs of that order. So at each
look the labels are a uniform sample of each band, whatever the labels were. There are at most LOOKS looks, and each
interval misses the truth with a chance of at most 0.05 divided by their number. So with 95% all of them contain it
(Bonferroni), and so does the one at which people stop, for whatever reason they stop there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import Literal

import numpy as np

from al_ray.core.labels import NO, YES
from al_ray.core.scorer import Floats
from al_ray.metrics.audit.false_positives import TAIL
from al_ray.metrics.audit.ranking_quality import average_precision
from al_ray.metrics.audit.score_bands import BandAudit, allotted
from al_ray.metrics.audit.second_draw import shares_by_rank
from al_ray.metrics.average_precision import Estimate, Ints

LOOKS, LEAST, SPREAD = 5, 20, 8
"""The most looks; the first has at least LEAST labels, and the last SPREAD times as many as the first."""
SIMULATIONS, OF_RANKING = 20, 4
"""Simulations of a forecast; of average precision, which takes longer."""

Measure = Literal["precision", "ranked-recall", "recall", "average-precision"]
"""Precision and recall at a threshold, or average precision of the ranked pairs."""
AT_THRESHOLD: tuple[Measure, ...] = ("precision", "ranked-recall", "recall")


def look_sizes(budget: int) -> tuple[int, ...]:
    """Return how many pairs each look has, ascending: the last `budget`, each about the same multiple of the last."""
    first = min(budget, max(LEAST, ceil(budget / SPREAD)))
    steps = (step / (LOOKS - 1) for step in range(LOOKS))
    return tuple(sorted({round(first * (budget / first) ** step) for step in steps}))


def order_in_looks(looks: Sequence[int], sizes: Sequence[int], rng: np.random.Generator) -> Ints:
    """Return the order (n,) in which n drawn pairs are labelled.

    looks: their sizes, the last of n pairs. sizes: of the bands, whose drawn pairs come one band after the other, each
    in ascending order. Each look spreads its pairs evenly over the bands; those that it adds are shuffled.
    """
    counts = np.array([[0] * len(sizes), *(allotted(look, sizes) for look in looks)])
    starts = np.cumsum([0, *counts[-1]])[:-1]
    orders = [start + rng.permutation(count) for start, count in zip(starts, counts[-1], strict=True)]
    added = (
        np.concatenate([order[low:high] for order, low, high in zip(orders, before, after, strict=True)])
        for before, after in pairwise(counts)
    )
    return np.concatenate([rng.permutation(own) for own in added]).astype(np.int64)


@dataclass(frozen=True)
class WidthGoal:
    """An interval of `measure` at most `width` wide, from 0 to 1; looks: sizes. threshold: NaN for average precision.

    All intervals together contain the truth with 95%.
    """

    measure: Measure
    width: float
    looks: tuple[int, ...]
    threshold: float = float("nan")

    @property
    def confidence(self) -> float:
        """Return the confidence of a single interval: 0.99 with five looks."""
        return 1 - 2 * self.tail

    @property
    def tail(self) -> float:
        """Return the chance that the truth lies below a single interval, and that it lies above."""
        return TAIL / len(self.looks)

    def interval(self, audit: BandAudit, cosines: Floats, look: int, rng: np.random.Generator) -> Estimate | None:
        """Return the estimate at a look, 0 the first; None if its labels leave it unknown.

        audit: with the pairs of all looks, in their order, and the labels of this one at least. cosines: (n,) of them.
        """
        size = self.looks[look]
        at = replace(audit, ranks=audit.ranks[:size], labels=audit.labels[:size], tail=self.tail)
        if self.measure == "average-precision":
            return average_precision(at, cosines[:size], rng)
        if self.measure == "precision":
            known = at.known_labels[at.known_cosines >= self.threshold] == YES
            return at.share_between(0, at.rank_of(self.threshold), rng, known)
        return at.recall_at(self.threshold, rng, self.measure == "ranked-recall")

    def reached(self, found: Estimate | None) -> bool:
        """Return whether an interval is narrow enough; a small error of rounding is forgiven."""
        return found is not None and found.high - found.low <= self.width + 1e-9


@dataclass(frozen=True)
class Forecast:
    """Simulated labels until an interval is narrow enough. labels: of each simulation, None if `most` are too few.

    width: the mean width with `most` labels, NaN if unknown.
    """

    labels: tuple[int | None, ...]
    most: int
    width: float

    @property
    def reached(self) -> tuple[int, ...]:
        """Return the numbers of labels that were enough, ascending."""
        return tuple(sorted(one for one in self.labels if one is not None))

    @property
    def probable(self) -> int | None:
        """Return the median number of labels, None if `most` labels are too few in half of the simulations."""
        middle = len(self.labels) // 2
        return self.reached[middle] if len(self.reached) > middle else None


def prior_shares(audit: BandAudit, p: Floats | None) -> Floats:
    """Return (reach + 1,) shares of matches by rank, the last of the rest: by (reach,) p of a model, or one half."""
    return np.append(np.full(audit.reach, 0.5) if p is None else p, 0.0)


def shares_so_far(audit: BandAudit, prior: Floats) -> Floats:
    """Return shares of matches (reach + 1,) as the labels suggest; as before where there are none."""
    shares, rest = shares_by_rank(audit), audit.labels[audit.ranks == audit.reach]
    decided = int(np.isin(rest, (NO, YES)).sum())
    of_rest = float((rest == YES).sum()) / decided if decided else float(prior[-1])
    return np.append(prior[:-1] if np.isnan(shares).any() else shares, of_rest)


def forecast(
    goal: WidthGoal, audit: BandAudit, cosines: Floats, done: int, shares: Floats, rng: np.random.Generator
) -> Forecast:
    """Simulate the labels of the looks after the first `done` ones, of which there is at least one.

    audit, cosines: as of `WidthGoal.interval`. shares: (reach + 1,) by rank.
    """
    before, found, widths = goal.looks[done - 1] if done else 0, list[int | None](), list[float]()
    for _ in range(OF_RANKING if goal.measure == "average-precision" else SIMULATIONS):
        labels = np.where(rng.random(len(audit.ranks)) < shares[audit.ranks], YES, NO).astype(np.uint8)
        labels[:before] = audit.labels[:before]
        simulated = replace(audit, labels=labels)
        last = goal.interval(simulated, cosines, len(goal.looks) - 1, rng)
        widths.append(float("nan") if last is None else last.high - last.low)
        low, high = done, len(goal.looks) - 1
        # Intervals become narrower, all but always.
        while low < high:
            middle = (low + high) // 2
            enough = goal.reached(goal.interval(simulated, cosines, middle, rng))
            low, high = (low, middle) if enough else (middle + 1, high)
        found.append(goal.looks[low] if low < len(goal.looks) - 1 or goal.reached(last) else None)
    known = [width for width in widths if not np.isnan(width)]
    return Forecast(tuple(found), goal.looks[-1], float(np.mean(known)) if known else float("nan"))
