"""Figures of a ranking of all pairs of two sets of texts, in memory: AP, and F1 plain and one-to-one."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from al_ray.core.pairs import Mask, Rows
from al_ray.core.scorer import Floats
from al_ray.metrics.average_precision import average_precision, count_scores

TOP = 20
"""Pairs that are looked at for the best F1, for each match: F1 at a lower threshold is at most 2 / (TOP + 1)."""
Labels = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class BestF1:
    """The highest F1, a share in [0, 1], and the least score of a pair that is called a match there."""

    f1: float
    threshold: float


@dataclass(frozen=True)
class Truth:
    """Which pairs (l, r) of two sets of texts match, and which count at all; symmetric: both sets are the same one."""

    matches: Mask
    counted: Mask
    symmetric: bool

    def without(self, pairs: Mask) -> "Truth":
        """Return the same without some (l, r) pairs."""
        return Truth(self.matches, self.counted & ~pairs, self.symmetric)

    def average_precision(self, scores: Floats) -> float:
        """AP, a share, of (l, r) scores over all pairs that count."""
        positive, negative = scores[self.matches & self.counted], scores[self.counted & ~self.matches]
        # A negative below every positive changes nothing.
        negative = negative[negative >= positive.min()] if len(positive) else negative
        return average_precision(count_scores(positive, [negative]), np.ones(1))

    def best_f1(self, scores: Floats, one_to_one: bool = False) -> BestF1:
        """Return the best F1 over all thresholds, chosen on the very pairs that are measured.

        one_to_one: pairs are taken in order of score, equal ones by place, and those of which a text was taken before
        are left out.
        """
        places = self._highest(scores, TOP * self._total)
        return best_threshold(*self._taken(scores, places, one_to_one), self._total)

    def f1_at(self, scores: Floats, threshold: float, one_to_one: bool = False) -> float:
        """Return F1, a share, of the pairs whose score is at least a threshold; one_to_one: as in `best_f1`."""
        places = np.flatnonzero((self.counted & (scores >= threshold)).ravel())
        _, right = self._taken(scores, _in_order(scores, places), one_to_one)
        found = len(right) + self._total
        return 2 * int(right.sum()) / found if found else 0.0

    @property
    def _total(self) -> int:
        return int((self.matches & self.counted).sum())

    def _highest(self, scores: Floats, count: int) -> Rows:
        """Return flat places of the `count` highest scores, and of all that are equal to the last of them, in order."""
        inside = np.flatnonzero(self.counted.ravel())
        flat = scores.ravel()[inside]
        if 0 < count < len(flat):
            inside = inside[flat >= np.partition(flat, len(flat) - count)[len(flat) - count]]
        return _in_order(scores, inside)

    def _taken(self, scores: Floats, places: Rows, one_to_one: bool) -> tuple[Floats, Labels]:
        """Return scores, and whether they match, of pairs at places in order, or of those that are taken one-to-one."""
        if one_to_one:
            left, right = np.divmod(places, scores.shape[1])
            places = places[first_of_each(left, right if self.symmetric else right + len(scores))]
        return scores.ravel()[places], self.matches.ravel()[places]


def best_threshold(scores: Floats, right: Labels, total: int) -> BestF1:
    """(n,) scores, descending, and whether each pair matches -> the best F1; total: matches, also those not listed.

    Equal scores are one threshold.
    """
    if not len(scores) or not total:
        return BestF1(0.0, float("inf"))
    ends = np.append(scores[1:] != scores[:-1], True)
    f1 = np.where(ends, 2 * np.cumsum(right) / (np.arange(1, len(scores) + 1) + total), 0.0)
    at = int(np.argmax(f1))
    return BestF1(float(f1[at]), float(scores[at]))


def first_of_each(left: Rows, right: Rows) -> Labels:
    """(n,) texts of pairs in order -> (n,) whether a pair is taken: neither of its texts is in one taken before."""
    taken: Labels = np.zeros(len(left), dtype=np.bool_)
    used = set[int]()
    for place, pair in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        if used.isdisjoint(pair):
            taken[place] = True
            used.update(pair)
    return taken


def _in_order(scores: Floats, places: Rows) -> Rows:
    """Return flat places by descending score, equal scores by place."""
    return places[np.lexsort((places, -scores.ravel()[places]))]


@dataclass(frozen=True)
class StatedPairs:
    """Pairs of a benchmark's own file: places (n,) of rows and of columns, and whether they match (n,)."""

    rows: Rows
    columns: Rows
    right: Labels

    def best(self, scores: Floats) -> BestF1:
        """Return the best F1 over thresholds of (l, r) scores, among these pairs alone."""
        own = scores[self.rows, self.columns]
        order = np.argsort(-own, kind="stable")
        return best_threshold(own[order], self.right[order], int(self.right.sum()))

    def f1(self, scores: Floats, threshold: float, without: Mask | None = None) -> float:
        """Return F1 among these pairs at a threshold. without: (l, r) pairs that do not count."""
        kept = np.ones(len(self.rows), dtype=np.bool_) if without is None else ~without[self.rows, self.columns]
        above, right = scores[self.rows, self.columns][kept] >= threshold, self.right[kept]
        found = int(above.sum() + right.sum())
        return 2 * int((above & right).sum()) / found if found else 0.0
