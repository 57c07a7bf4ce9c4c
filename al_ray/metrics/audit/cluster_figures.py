"""Precision, recall and F1 of delivered clusters from the labels of a few records of them.

Records are drawn, which draws clusters with a probability proportional to their size (Binette et al. 2023, Estimating
the performance of entity resolution algorithms), in classes of cluster size 1, 2, 3-4, 5-8, ...: uniformly in each. For
a drawn record r in a cluster of n people say which of the others of its cluster match it, and which of its K_r
candidates in other clusters. So the clusters need no true partition, and errors need not be transitive.

With y_r the share of the n - 1 others that match, a_r = 1 + (n - 1) y_r, and o_r the candidates that match:

    pairs: precision sum (n - 1) y_r / sum (n - 1), recall sum (n - 1) y_r / sum ((n - 1) y_r + o_r)
    B-cubed: precision mean a_r / n, recall mean a_r / (a_r + o_r)

Each is made of sums of v_r y_r with weights v_r that are known for all records and y_r in [0, 1] that is observed for
the drawn ones: (n - 1, y_r), (1 - 1 / n, y_r), (K_r, o_r / K_r), and for the loss of B-cubed recall o_r / (a_r + o_r),
which is at most K_r / (1 + K_r). A class of m drawn records counts as (sum v)^2 / sum v^2 draws (Kish). Of all
variables in [0, 1] with one mean those that are 0 or 1 vary most, so the limits of a share from yes and no (Clopper and
Pearson's, with a sum of shares in place of a count) are taken, and classes are melded
(metrics/audit/false_positives.py). Where two sums make a figure, each has half of the error: they are of the same
records, and not independent. studies/cluster_audits.py simulates how often the intervals hold.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from al_ray.core.errors import BadOption
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats
from al_ray.metrics.audit.false_positives import DRAWS, TAIL, End
from al_ray.metrics.average_precision import Estimate, Ints

LEAST = 5
"""Records of a class that are drawn, where it has them and there are draws for all classes."""
TINY = 1e-9
NewRng = Callable[[], np.random.Generator]


@dataclass(frozen=True)
class SizeClass:
    """Records in clusters of low to high records, of which some are drawn; singletons have a candidate.

    The sums over its records: pairs of n - 1, direct and implied pairs of those with and without a match of their own,
    part of 1 - 1 / n, candidates of K, losses of K / (1 + K).
    """

    low: int
    high: int
    records: int
    drawn: int
    pairs: float
    direct: float
    implied: float
    part: float
    candidates: float
    losses: float


@dataclass(frozen=True)
class RecordAnswers:
    """What people said of a drawn record: (yes, answered, all) of its direct, its implied pairs and its candidates."""

    direct: tuple[int, int, int]
    implied: tuple[int, int, int]
    outside: tuple[int, int, int]

    @property
    def others(self) -> int:
        """Return how many other records its cluster has."""
        return self.direct[2] + self.implied[2]

    @property
    def inside_share(self) -> float | None:
        """Estimate which share of them match it; None if a kind of them, or a cluster of one, has no answer."""
        shares = [(share_of(kind), kind[2]) for kind in (self.direct, self.implied) if kind[2]]
        if not shares or any(share is None for share, _ in shares):
            return None
        return sum((share or 0.0) * size for share, size in shares) / self.others

    @property
    def loss_share(self) -> float | None:
        """Estimate the loss of its B-cubed recall as a share of the most that it can be; None if that is unknown."""
        outside, inside = share_of(self.outside), self.inside_share
        if outside is None or (self.others and inside is None):
            return None
        own, lost, most = 1 + self.others * (inside or 0.0), outside * self.outside[2], self.outside[2]
        return lost / (own + lost) * (1 + most) / most

    @property
    def complete(self) -> bool:
        """Return whether each of its pairs has an answer."""
        return all(answered == size for _, answered, size in (self.direct, self.implied, self.outside))


def share_of(kind: tuple[int, int, int]) -> float | None:
    """Return the share of yes among the answers of a kind; None without one."""
    return kind[0] / kind[1] if kind[1] else None


def size_classes(sizes: Rows, candidates: Rows) -> Rows:
    """Return the class (n,) of records: 0 for a cluster of 1, 1 for 2, 2 for 3-4, 3 for 5-8, ...

    -1 for a record about which there is nothing to ask. sizes, candidates: (n,) of its cluster, and of the record.
    """
    classes = np.ceil(np.log2(sizes)).astype(np.int64)
    return np.where((sizes == 1) & (candidates == 0), -1, classes)


def allot(records: Ints, pairs: Floats, count: int) -> Ints:
    """Divide draws among (h,) classes: halfway between their shares of the records and of the pairs inside clusters.

    A class has at least LEAST draws, or an equal share of fewer, and at most its records. BadOption if there are fewer
    draws than classes.
    """
    if count < len(records):
        raise BadOption(f"`clusters` is {count}; give at least {len(records)}, one for each class of sizes of clusters")
    drawn = np.minimum(records, min(LEAST, count // len(records)))
    wish = records / records.sum() + pairs / max(pairs.sum(), 1.0)
    while drawn.sum() < min(count, records.sum()):
        # The class that is furthest behind its wish; the first of equals.
        behind = np.where(drawn < records, wish / (drawn + 1), -1.0)
        drawn[int(np.argmax(behind))] += 1
    return drawn


@dataclass(frozen=True)
class ClassSums:
    """A sum of v y over a class. total: of v. weights, shares: (m,) v and y of the records with answers.

    unseen: records of the class that were not drawn, for each that was; infinite where some of the shares are
    themselves estimates.
    """

    total: float
    unseen: float
    weights: Floats
    shares: Floats

    @cached_property
    def draws_of(self) -> float:
        """Return the draws of equal weight that the records are worth."""
        return float(self.weights.sum() ** 2 / (self.weights**2).sum()) if self.weights.any() else 0.0

    @property
    def share(self) -> float | None:
        """Return the estimate of the share; None without an answer."""
        return float(self.weights @ self.shares / self.weights.sum()) if self.weights.any() else None

    def possible(self, end: End, rng: np.random.Generator, draws: int) -> Floats:
        """Draw (draws,) shares, of which quantiles bound the share from this end."""
        size = self.draws_of
        yes = size * (self.share or 0.0)
        have, lack = (yes + 1, size - yes) if end == "high" else (yes, size - yes + 1)
        most = float(end == "high")
        rest = rng.beta(have, lack, draws) if min(have, lack) > TINY else np.full(draws, most)
        if not size or not np.isfinite(self.unseen):
            return rest
        unseen = round(size * self.unseen)
        return (yes + rng.binomial(unseen, rest).astype(np.float64)) / (size + unseen)


def total_of(classes: Sequence[ClassSums]) -> float | None:
    """Estimate the sum over all classes; a class without an answer has the share of the others. None without any."""
    there = [one for one in classes if one.share is not None]
    seen = sum(one.total for one in there)
    if not seen:
        return None
    return sum(one.total * (one.share or 0.0) for one in there) / seen * sum(one.total for one in classes)


def limits_of(classes: Sequence[ClassSums], tail: float, new_rng: NewRng, draws: int = DRAWS) -> tuple[float, float]:
    """Return the limits of the sum over all classes, each of which fails with the probability `tail`."""

    def limit(end: End, share: float) -> float:
        rng = new_rng()
        sums = sum((one.total * one.possible(end, rng, draws) for one in classes), np.zeros(draws))
        return float(np.quantile(sums, share))

    value = total_of(classes) or 0.0
    return min(limit("low", tail), value), max(limit("high", 1 - tail), value)


@dataclass(frozen=True)
class ClusterFigures:
    """Estimates from classes of records and the answers of those drawn.

    records: all, with those about which there is nothing to ask. answers: of the drawn records of each class.
    new_rng: a generator for each figure, so that none depends on another. draws: of each limit.
    """

    records: int
    classes: tuple[SizeClass, ...]
    answers: tuple[tuple[RecordAnswers, ...], ...]
    new_rng: NewRng
    draws: int = DRAWS

    @property
    def pair_precision(self) -> Estimate | None:
        """Estimate the share of pairs in one cluster that match; None without pairs or answers, as the others."""
        return self._of(self._inside, sum(one.pairs for one in self.classes), lambda sums: sums)

    @property
    def direct_precision(self) -> Estimate | None:
        """Estimate the share of the pairs in one cluster with a match of their own that match."""
        return self._of(self._kind("direct"), sum(one.direct for one in self.classes), lambda sums: sums)

    @property
    def implied_precision(self) -> Estimate | None:
        """Estimate the share of the pairs that only transitivity implies that match."""
        return self._of(self._kind("implied"), sum(one.implied for one in self.classes), lambda sums: sums)

    @property
    def b_cubed_precision(self) -> Estimate | None:
        """Estimate B-cubed precision; a cluster of one has 1."""
        known = self.records - sum(one.part for one in self.classes)
        return self._of(self._part, self.records, lambda sums: known + sums)

    @property
    def b_cubed_recall(self) -> Estimate | None:
        """Estimate B-cubed recall among candidates; None if there are none."""
        return self._of(self._losses, self.records, lambda sums: self.records - sums)

    @property
    def b_cubed_f1(self) -> Estimate | None:
        """Estimate the F1 of B-cubed precision and recall."""
        known = self.records - sum(one.part for one in self.classes)

        def f1(part: float, losses: float) -> float:
            precision, recall = (known + part) / self.records, 1 - losses / self.records
            return 2 * precision * recall / (precision + recall)

        return self._of_two(self._part, self._losses, f1)

    @property
    def pair_recall(self) -> Estimate | None:
        """Estimate the share of the matching pairs, in one cluster or candidates, that are in one cluster."""
        return self._of_two(
            self._inside, self._candidates, lambda inside, outside: inside / (inside + outside) if inside else 0.0
        )

    @property
    def pair_f1(self) -> Estimate | None:
        """Estimate the F1 of precision and recall of pairs."""
        every = sum(one.pairs for one in self.classes)
        return self._of_two(
            self._inside, self._candidates, lambda inside, outside: 2 * inside / (every + inside + outside)
        )

    def _of(self, sums: list[ClassSums], every: float, figure: Callable[[float], float]) -> Estimate | None:
        value = total_of(sums)
        if value is None or not every:
            return None
        ends = sorted(figure(limit) / every for limit in limits_of(sums, TAIL, self.new_rng, self.draws))
        return Estimate(figure(value) / every, *ends)

    def _of_two(
        self, rising: list[ClassSums], falling: list[ClassSums], figure: Callable[[float, float], float]
    ) -> Estimate | None:
        """Estimate what rises with the first sum and falls with the second."""
        values = total_of(rising), total_of(falling)
        if values[0] is None or values[1] is None:
            return None
        (low, high), (least, most) = (limits_of(sums, TAIL / 2, self.new_rng, self.draws) for sums in (rising, falling))
        return Estimate(figure(values[0], values[1]), figure(low, most), figure(high, least))

    def _sums(
        self, total: Callable[[SizeClass], float], term: Callable[[RecordAnswers], tuple[float, float | None]]
    ) -> list[ClassSums]:
        """Return the sums by class. term: the weight of a record and its share."""
        found: list[ClassSums] = []
        for one, answers in zip(self.classes, self.answers, strict=True):
            if not total(one):
                continue
            terms = [term(answer) for answer in answers]
            there = [(weight, share) for weight, share in terms if share is not None and weight]
            whole = all(answer.complete for answer in answers)
            unseen = one.records / len(terms) - 1 if whole and terms else np.inf
            found.append(
                ClassSums(total(one), unseen, np.array([w for w, _ in there]), np.array([s for _, s in there]))
            )
        return found

    @property
    def _inside(self) -> list[ClassSums]:
        return self._sums(lambda one: one.pairs, lambda answer: (answer.others, answer.inside_share))

    @property
    def _part(self) -> list[ClassSums]:
        return self._sums(
            lambda one: one.part, lambda answer: (answer.others / (1 + answer.others), answer.inside_share)
        )

    def _kind(self, kind: str) -> list[ClassSums]:
        return self._sums(
            lambda one: getattr(one, kind), lambda answer: (getattr(answer, kind)[2], share_of(getattr(answer, kind)))
        )

    @property
    def _candidates(self) -> list[ClassSums]:
        return self._sums(lambda one: one.candidates, lambda answer: (answer.outside[2], share_of(answer.outside)))

    @property
    def _losses(self) -> list[ClassSums]:
        return self._sums(
            lambda one: one.losses, lambda answer: (answer.outside[2] / (1 + answer.outside[2]), answer.loss_share)
        )
