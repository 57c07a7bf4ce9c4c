"""A second draw of labels where the first one leaves a precision open, and what it will probably bring.

The first audit says roughly down to which rank the precision is reached: the crossing. The second one draws uniformly
from the pairs above it that have no label. The labels of the first are then known pairs, which have no uncertainty, so
whatever they decided (where to draw, and how many) leaves the promise of the second as it is (guarantee.py). All of its
labels count at every cut, where those of an audit by bands are spread over bands of which only some lie above.

What the second draw will bring is simulated: the share of matches at a rank is taken to be that of the NEAREST labelled
pairs around it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from al_ray.core.labels import NO, YES
from al_ray.core.scorer import Floats
from al_ray.metrics.audit.guarantee import Limits, MeldedLimits, cut_samples, lowest_precise
from al_ray.metrics.audit.score_bands import BandAudit, draw_ranks
from al_ray.metrics.average_precision import Ints
from al_ray.metrics.thresholds import Rule

NEAREST = 15
LABELS = (20, 40, 60, 100, 150, 200, 300, 500, 1000)
"""Numbers of labels for which a second draw is simulated."""
SIMULATIONS, SIMULATED_DRAWS = 40, 500
ENOUGH = 0.7
"""The number of labels is the least that brings this share of what the largest brings."""
WORTHWHILE = 0.05
"""Gain of recall among the ranked pairs from which on a second draw is suggested."""


@dataclass(frozen=True)
class Outlook:
    """What a second draw will probably bring. recalls: of the matches among the ranked and the known pairs, as means.

    threshold: the lowest score drawn from. labels: how many are drawn. now, then: the recall that is promised before
    and after, 0 where nothing is. found: the share of simulated draws that promise a threshold.
    """

    threshold: float
    labels: int
    now: float
    then: float
    found: float

    @property
    def worthwhile(self) -> bool:
        """Return whether it gains recall that matters."""
        return self.then - self.now >= WORTHWHILE


def labelled_ranks(audit: BandAudit) -> tuple[Ints, Ints]:
    """Return the ranks (n,) of the ranked pairs that were drawn and labelled, ascending, and whether they match."""
    decided = (audit.ranks < audit.reach) & np.isin(audit.labels, (NO, YES))
    order = np.argsort(audit.ranks[decided], kind="stable")
    return audit.ranks[decided][order], (audit.labels[decided][order] == YES).astype(np.int64)


def shares_by_rank(audit: BandAudit) -> Floats:
    """Estimate (reach,) shares of matches by rank; NaN without a labelled pair."""
    ranks, matches = labelled_ranks(audit)
    if not len(ranks):
        return np.full(audit.reach, np.nan)
    counts, half = np.concatenate([[0], np.cumsum(matches)]), NEAREST // 2
    places = np.arange(len(ranks))
    low, high = np.maximum(places - half, 0), np.minimum(places + half + 1, len(ranks))
    return np.interp(np.arange(audit.reach), ranks, (counts[high] - counts[low]) / (high - low))


def crossing(audit: BandAudit, precision: float) -> float | None:
    """Return the lowest score down to which the estimated precision is at least `precision`; None if it never is."""
    shares = shares_by_rank(audit)
    if np.isnan(shares).any() or not audit.reach:
        return None
    known = np.sort(audit.known_cosines[audit.known_labels == YES]), np.sort(audit.known_cosines)
    matches, others = (len(one) - np.searchsorted(one, audit.cosines) for one in known)
    reached = (matches + np.cumsum(shares)) >= precision * (others + np.arange(1, audit.reach + 1))
    good = np.flatnonzero(reached & ((audit.cosines > audit.floor) | (audit.total == audit.reach)))
    return float(audit.cosines[good[-1]]) if len(good) else None


def with_labels_known(audit: BandAudit, threshold: float) -> tuple[BandAudit, Ints]:
    """Return the audit of the pairs that reach a threshold and have no label, and their ranks (reach,) in the first.

    The labelled pairs of the first are known, those of the rest left out: they are below every cut.
    """
    ranks, matches = labelled_ranks(audit)
    left = np.setdiff1d(np.arange(audit.rank_of(threshold)), ranks)
    known_cosines = np.concatenate([audit.known_cosines, audit.cosines[ranks]])
    known_labels = np.concatenate([audit.known_labels, np.where(matches == 1, YES, NO).astype(np.uint8)])
    none = np.empty(0, dtype=np.int64)
    # One more pair, of the rest, so that no cut is below the threshold.
    second = BandAudit(
        audit.cosines[left], len(left), known_cosines, known_labels, none, none.astype(np.uint8), len(left), True
    )
    return second, left


def pairs_left(audit: BandAudit, precision: float) -> int:
    """Return how many pairs above the crossing have no label, 0 if there is no crossing."""
    threshold = crossing(audit, precision)
    return 0 if threshold is None else len(with_labels_known(audit, threshold)[1])


def outlook(audit: BandAudit, rule: Rule, alpha: float, now: float, rng: np.random.Generator) -> Outlook | None:
    """Simulate second draws for a precision, and return what the least number of labels that is enough brings.

    now: the recall among the ranked pairs that is promised already. None if the estimate never reaches the precision,
    or if every pair above is labelled.
    """
    threshold = crossing(audit, rule.numbers[0])
    if threshold is None:
        return None
    second, left = with_labels_known(audit, threshold)
    if not len(left):
        return None
    sizes = [size for size in LABELS if size < len(left)] or [len(left)]
    brought = [_simulated(audit, second, left, size, (rule.numbers[0], alpha), rng) for size in sizes]
    most = max(then for then, _ in brought)
    enough = min(most, now + ENOUGH * (most - now))
    size, (then, found) = next(pair for pair in zip(sizes, brought, strict=True) if pair[1][0] >= enough)
    return Outlook(threshold, size, now, then, found)


def _simulated(
    first: BandAudit,
    second: BandAudit,
    left: Ints,
    size: int,
    target: tuple[float, float],
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return the mean recall that second draws of `size` labels promise, and the share that promise a threshold."""
    shares, limits = shares_by_rank(first), MeldedLimits(rng, SIMULATED_DRAWS)
    known = float((second.known_labels == YES).sum())
    every = known + float(shares.sum() - shares[labelled_ranks(first)[0]].sum())
    recalls = [above / max(every, above, 1.0) for above in _drawn(second, shares[left], size, target, limits, rng)]
    return float(np.mean(recalls)), float(np.mean([recall > 0 for recall in recalls]))


def _drawn(
    second: BandAudit,
    shares: Floats,
    size: int,
    target: tuple[float, float],
    limits: Limits,
    rng: np.random.Generator,
) -> Iterator[float]:
    """Yield for each simulated draw how many matches reach the threshold that it promises, 0 without one."""
    for _ in range(SIMULATIONS):
        matches = rng.random(len(shares)) < shares
        ranks = draw_ranks((0, len(shares)), size, rng)
        labels = np.where(matches[ranks], YES, NO).astype(np.uint8)
        cuts = cut_samples(replace(second, ranks=ranks, labels=labels))
        at = lowest_precise(cuts, *target, limits)
        if at is None:
            yield 0.0
            continue
        yield float(matches[second.cosines >= cuts[at].threshold].sum() + cuts[at].known[0])
