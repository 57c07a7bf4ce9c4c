"""Thresholds of an evaluation that keep a promise with a given confidence, although they are the best of many.

All matches of the split are counted, so recall is known. If negatives are counted, too, so are precision and costs, and
the threshold is the one without a guarantee. If they are sampled, the number of false positives at a threshold has
exact limits, and the thresholds at every twentieth of the matches are tested, as in audit/guarantee.py.
"""

from collections.abc import Sequence

from al_ray.metrics.audit.guarantee import SPARE, Limits, Sampled, last_passed
from al_ray.metrics.evaluation import Evaluation
from al_ray.metrics.intervals import precision_at
from al_ray.metrics.thresholds import ChosenThreshold, Rule, choose_thresholds

CUTS, STARTS = 20, 4


def choose_promised(rule: Rule, evaluation: Evaluation, limits: Limits) -> ChosenThreshold | None:
    """Choose the threshold that a rule with a guarantee promises; None if none can be promised.

    rule: not of ranked-recall, for the ranked pairs are those of an audit.
    """
    assert rule.guarantee is not None
    assert rule.kind != "ranked-recall"
    if evaluation.exact or rule.kind == "recall":
        return _counted(rule, evaluation)
    alpha = 1 - rule.guarantee
    if rule.kind == "precision":
        at = lowest_precise(evaluation, rule.numbers[0], alpha, limits)
        promised = rule.numbers[0]
    else:
        at, promised = most_saved(evaluation, rule.numbers, alpha, limits)
    if at is None:
        return None
    curve = evaluation.curve
    precision = precision_at(evaluation.counts, evaluation.strata, at)
    return ChosenThreshold(rule, float(curve.thresholds[at]), precision, float(curve.recall[at]), promised)


def _counted(rule: Rule, evaluation: Evaluation) -> ChosenThreshold | None:
    """Return the threshold by counts alone; None if there is none."""
    (plain,) = choose_thresholds([rule], evaluation)
    if plain.cosine is None:
        return None
    at = int((evaluation.curve.thresholds >= plain.cosine).sum()) - 1
    promised = _saved(evaluation, rule.numbers, at) if rule.kind == "costs" else rule.numbers[0]
    return ChosenThreshold(rule, plain.cosine, plain.precision, plain.recall, promised)


def _saved(evaluation: Evaluation, costs: Sequence[float], at: int) -> float:
    """Return what a threshold saves if every pair was counted."""
    true, false = int(evaluation.counts.positives[at]), int(evaluation.counts.negatives[:, at].sum())
    return costs[0] * true - costs[1] * false


def _cuts(evaluation: Evaluation) -> list[int]:
    """Return the indices of the thresholds to test, the highest first: at every twentieth of the matches."""
    number = len(evaluation.counts.thresholds)
    return sorted({max(0, -(-number * step // CUTS) - 1) for step in range(1, CUTS + 1)})


def _false(evaluation: Evaluation, at: int, weight: float, none: bool = False) -> list[tuple[float, Sampled]]:
    """Return the false positives of each stratum at a threshold as terms; none: as if no sampled one reached it."""
    seen = evaluation.counts.negatives[:, at].tolist()
    return [
        (weight, Sampled(stratum.population, stratum.size, 0 if none else int(count)))
        for stratum, count in zip(evaluation.strata, seen, strict=True)
    ]


def lowest_precise(evaluation: Evaluation, target: float, alpha: float, limits: Limits) -> int | None:
    """Return the index of the lowest threshold whose precision is promised, or None.

    TP / (TP + FP) >= P if -P FP >= -(1 - P) TP.
    """

    def p_value(at: int, none: bool = False) -> float:
        true = int(evaluation.counts.positives[at])
        return limits.p_value(_false(evaluation, at, -target, none), -(1 - target) * true)

    kept = [at for at in _cuts(evaluation) if p_value(at, none=True) <= alpha / SPARE]
    if not kept:
        return None
    every = max(1, len(kept) // STARTS)
    # Counted from the lowest, so that it is a start.
    return last_passed(kept, set(kept[::-1][::every]), alpha, p_value)


def most_saved(
    evaluation: Evaluation, costs: Sequence[float], alpha: float, limits: Limits
) -> tuple[int | None, float]:
    """Return the index of the threshold with the highest lower limit of what it saves, and the limit.

    Compared with calling no pair a match. (None, 0) if no limit is above 0.
    """
    cuts, best = _cuts(evaluation), (None, 0.0)
    for at in cuts:
        true = int(evaluation.counts.positives[at])
        saved = costs[0] * true + limits.lower(_false(evaluation, at, -costs[1]), alpha / len(cuts))
        best = (at, saved) if saved > best[1] else best
    return best
