"""Thresholds that keep a promise with a given confidence, although they are chosen after a look at many (Rule).

An audit by score is cut at thresholds that depend on the scores and not on labels. Of the pairs on both sides of a cut
some were drawn and labelled, by band. "The precision is at least P", "the recall is at least R" and "so much is saved"
are all of one form: a weighted sum of the unknown numbers of matches is at least some number. Each is tested by exact
limits of every number (Clopper and Pearson's for draws without replacement), melded as in false_positives.py.

The allowance for error is alpha = 1 - confidence. Each way below promises a false threshold with probability alpha at
most:

precision   alpha is divided equally among the starts: the ends of bands, and every second cut of the first one. Cuts
            are tested from the highest to the lowest; one that passes hands its share of alpha on to the next lower one
            (the fallback procedure: Wiens, Pharmaceutical Statistics 2, 2003; Wiens and Dmitrienko, Journal of
            Biopharmaceutical Statistics 15, 2005). So one that fails does not end the search, as precision may rise
            again.
recall      falls as the threshold rises. So cuts are tested from the lowest to the highest, each with all of alpha,
            until one fails: if any false one is promised, then so is the lowest false one.
costs       every cut has a lower limit of what is saved, with an equal share of alpha; the highest limit is promised.

Cuts at which even labels that are all yes would not pass are left out: that depends on numbers of labels alone.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from al_ray.core.labels import YES
from al_ray.core.scorer import Floats
from al_ray.metrics.audit.false_positives import DRAWS, possible
from al_ray.metrics.audit.score_bands import AnyPart, BandAudit
from al_ray.metrics.thresholds import Rule

CUTS_OF_BAND, STARTS_OF_FIRST_BAND = 10, 5
CUTS_OF_ONE_BAND, STARTS_OF_ONE_BAND = 20, 4
"""Of an audit with one band alone, such as a second draw."""
SPARE = 5
"""Labels that are all yes must pass with alpha / SPARE, or a cut is left out."""


class Sampled(NamedTuple):
    """Of `size` pairs `answered` were drawn uniformly and labelled, and `matches` of these match."""

    size: int
    answered: int
    matches: int


Terms = Sequence[tuple[float, Sampled]]
"""A weighted sum of numbers of matches: each number with its weight."""


class Limits(Protocol):
    """One-sided limits of a weighted sum of unknown numbers of matches."""

    def p_value(self, terms: Terms, least: float) -> float:
        """Return the p-value, in (0, 1], of the hypothesis that the sum is below `least`."""
        ...

    def lower(self, terms: Terms, alpha: float) -> float:
        """Return the lower limit of the sum, which is too high with probability alpha at most."""
        ...


class MeldedLimits:
    """Limits by draws from the distributions of the exact limits of each number (false_positives.py)."""

    def __init__(self, rng: np.random.Generator, draws: int = DRAWS) -> None:
        """draws: of each sum; a p-value is at least 1 / (draws + 1)."""
        self.rng, self.draws = rng, draws

    def p_value(self, terms: Terms, least: float) -> float:
        """Return the share of draws below `least`; the one that is added makes it valid for any number of draws."""
        # Sums of whole numbers with weights such as 0.9 differ in their last bits.
        below = int((self.sums(terms) < least - 1e-9 * max(1.0, abs(least))).sum())
        return (1 + below) / (self.draws + 1)

    def lower(self, terms: Terms, alpha: float) -> float:
        """Return the quantile alpha of the draws, rounded down to a draw."""
        return float(np.quantile(self.sums(terms), alpha, method="lower"))

    def sums(self, terms: Terms) -> Floats:
        """Return (draws,) sums, each number from the end that makes the sum low."""
        sums = np.zeros(self.draws)
        for weight, part in terms:
            end = "low" if weight > 0 else "high"
            sums += weight * possible(part.matches, part.answered, part.size, end, self.rng, self.draws)
        return sums


@dataclass(frozen=True)
class CutSample:
    """The labels on both sides of a cut.

    threshold: the lowest score above. pairs: how many reach it. known: matches that were labelled before, above and
    below. above, near, rest: samples above, of the ranked pairs below, and of all other pairs. start: of a test.
    """

    threshold: float
    pairs: int
    known: tuple[int, int]
    above: tuple[Sampled, ...]
    near: tuple[Sampled, ...]
    rest: tuple[Sampled, ...]
    start: bool

    def hopeful(self, below: bool) -> "CutSample":
        """Return the cut with all labels above it set to yes and, with `below`, all others to no."""

        def with_share(parts: Sequence[Sampled], every: bool) -> tuple[Sampled, ...]:
            return tuple(Sampled(part.size, part.answered, part.answered if every else 0) for part in parts)

        near, rest = (with_share(parts, False) if below else parts for parts in (self.near, self.rest))
        return CutSample(self.threshold, self.pairs, self.known, with_share(self.above, True), near, rest, self.start)


@dataclass(frozen=True)
class Promise:
    """A threshold whose precision, recall or saving is at least `value`, at cut number `at` of those given.

    saving: what is saved by it compared with calling no pair a match, in the units of MISS and ALARM.
    """

    at: int
    threshold: float
    value: float


def cut_samples(audit: BandAudit) -> tuple[CutSample, ...]:
    """Cut an audit at tenths of the ranks of each band, or at twentieths of the only one; equal scores stay together.

    Cuts depend on scores alone. None lies below the ranked pairs.
    """
    # The labels of cells stand for different numbers of pairs, which this does not know.
    assert audit.model is None
    ranked = [band for band in audit.sampled_bands if band[1] <= audit.reach]
    one = len(ranked) == 1
    number = CUTS_OF_ONE_BAND if one else CUTS_OF_BAND
    first = STARTS_OF_ONE_BAND if one else STARTS_OF_FIRST_BAND
    # Pairs that are not ranked may have the score of the last ranked one.
    cosines = audit.cosines if audit.total == audit.reach else audit.cosines[audit.cosines > audit.floor]
    if not len(cosines):
        return ()
    starts: dict[int, bool] = {}
    for low, high in ranked:
        every = number if low else number // first
        for step in range(1, number + 1):
            rank = low + (high - low) * step // number
            if rank == low:
                continue
            cut = audit.rank_of(float(cosines[min(rank, len(cosines)) - 1]))
            starts[cut] = starts.get(cut, False) or step % every == 0
    return tuple(_cut(audit, cut, starts[cut]) for cut in sorted(starts))


def _cut(audit: BandAudit, cut: int, start: bool) -> CutSample:
    threshold = float(audit.cosines[cut - 1])
    reached = audit.known_cosines >= threshold
    known = [int((audit.known_labels[side] == YES).sum()) for side in (reached, ~reached)]
    sides = ((0, cut), (cut, audit.reach), (audit.reach, audit.total))
    above, near, rest = (tuple(map(_sampled, audit.parts(*side))) for side in sides)
    return CutSample(threshold, cut + int(reached.sum()), (known[0], known[1]), above, near, rest, start)


def _sampled(part: AnyPart) -> Sampled:
    return Sampled(part.size, part.answered, part.matches)


def promise(cuts: Sequence[CutSample], rule: Rule, alpha: float, limits: Limits) -> Promise | None:
    """Return the threshold that a rule promises, wrong with probability alpha at most; None if there is none.

    precision: the lowest, so of the highest recall. recall: the highest. ranked-recall: the same, of the matches among
    the ranked and the known pairs. costs: the one with the highest lower limit of what it saves, above 0.
    """
    if rule.kind == "precision":
        at = lowest_precise(cuts, rule.numbers[0], alpha, limits)
    elif rule.kind == "costs":
        return most_saved(cuts, rule.numbers, alpha, limits)
    else:
        at = highest_complete(cuts, rule, alpha, limits)
    return None if at is None else Promise(at, cuts[at].threshold, rule.numbers[0])


def lowest_precise(cuts: Sequence[CutSample], target: float, alpha: float, limits: Limits) -> int | None:
    """Return the number of the lowest cut whose precision is promised, or None."""
    kept = [
        number
        for number, cut in enumerate(cuts)
        if precision_p(cut.hopeful(below=False), target, limits) <= alpha / SPARE
    ]
    if not kept:
        return None
    # If no start is left, the lowest cut is one.
    starts = {number for number in kept if cuts[number].start} or {kept[-1]}
    return last_passed(kept, starts, alpha, lambda number: precision_p(cuts[number], target, limits))


def last_passed(
    hypotheses: Sequence[int], starts: Collection[int], alpha: float, p_value: Callable[[int], float]
) -> int | None:
    """Return the last hypothesis that is rejected, or None; a false rejection has a probability of at most alpha.

    alpha is divided equally among the starts. Hypotheses are tested in the order given; each that is rejected hands its
    share on to the next one (the fallback procedure).
    """
    found, passed = None, 0.0
    for number in hypotheses:
        own = passed + (alpha / len(starts) if number in starts else 0.0)
        rejected = own > 0 and p_value(number) <= own
        found, passed = (number, own) if rejected else (found, 0.0)
    return found


def highest_complete(cuts: Sequence[CutSample], rule: Rule, alpha: float, limits: Limits) -> int | None:
    """Return the number of the highest cut whose recall is promised, or None."""
    found = None
    for number in range(len(cuts) - 1, -1, -1):
        if recall_p(cuts[number], rule, limits) > alpha:
            break
        found = number
    return found


def most_saved(cuts: Sequence[CutSample], costs: Sequence[float], alpha: float, limits: Limits) -> Promise | None:
    """Return the cut of the highest lower limit of what it saves, if that is above 0."""
    best: Promise | None = None
    for number, cut in enumerate(cuts):
        saved = saving(cut, costs, alpha / len(cuts), limits)
        if saved > (0.0 if best is None else best.value):
            best = Promise(number, cut.threshold, saved)
    return best


def precision_p(cut: CutSample, target: float, limits: Limits) -> float:
    """Return the p-value of the hypothesis that the precision at a cut is below `target`."""
    return limits.p_value([(1.0, part) for part in cut.above], target * cut.pairs - cut.known[0])


def recall_p(cut: CutSample, rule: Rule, limits: Limits) -> float:
    """Return the p-value of the hypothesis that the recall at a cut is below that of the rule.

    TP / (TP + FN) >= R if (1 - R) TP - R FN >= 0.
    """
    target = rule.numbers[0]
    below = cut.near if rule.kind == "ranked-recall" else (*cut.near, *cut.rest)
    terms = [*((1 - target, part) for part in cut.above), *((-target, part) for part in below)]
    return limits.p_value(terms, target * cut.known[1] - (1 - target) * cut.known[0])


def saving(cut: CutSample, costs: Sequence[float], alpha: float, limits: Limits) -> float:
    """Return the lower limit of what a cut saves, compared with calling no pair a match.

    Calling no pair a match costs MISS for every match. A cut saves MISS for each match above it, and costs ALARM for
    every other pair there.
    """
    miss, alarm = costs
    terms = [(miss + alarm, part) for part in cut.above]
    return (miss + alarm) * cut.known[0] - alarm * cut.pairs + limits.lower(terms, alpha)
