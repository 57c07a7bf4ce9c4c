"""Decision thresholds from counts over all pairs: for a target precision, a target recall, or given costs.

A pair is predicted to match if its cosine is >= the threshold. Only scores of positives are tried: between two of them
a lower threshold adds false positives and no true positive.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np

from al_ray.core.config.bounds import Between
from al_ray.core.errors import BadOption
from al_ray.core.scorer import Floats, Scorer
from al_ray.metrics.average_precision import Counts, Curve, Estimate, false_positives
from al_ray.metrics.evaluation import Evaluation
from al_ray.metrics.intervals import precision_at, weights_of

CHOSEN_ON = "dev"
GUARANTEE, LEAST_GUARANTEE, MOST_GUARANTEE = " guarantee=", 0.5, 0.99
"""What stands between a rule and its confidence, and the bounds of that."""
Guarantee = Annotated[float | None, Between(LEAST_GUARANTEE, MOST_GUARANTEE)]
"""The type of an option that takes the confidence of rules; None for an estimate."""


@dataclass(frozen=True)
class Rule:
    """The target of a threshold: a precision or recall to reach, or the costs of both kinds of errors.

    ranked-recall: of the matches among the ranked pairs of an audit. numbers: (target,) in (0, 1], or (miss, alarm),
    positive and finite. guarantee: the confidence, in (0, 1), with which the threshold must keep the rule; None if an
    estimate is enough.
    """

    kind: Literal["precision", "recall", "ranked-recall", "costs"]
    numbers: tuple[float, ...]
    guarantee: float | None = None

    def __str__(self) -> str:
        """Return the rule as it is written on the command line, and the guarantee, by which scorer.json knows it."""
        target = f"{self.kind}={','.join(f'{number:g}' for number in self.numbers)}"
        return target if self.guarantee is None else f"{target}{GUARANTEE}{self.guarantee:g}"

    @property
    def target(self) -> str:
        """Return the rule without its guarantee."""
        return str(replace(self, guarantee=None))


@dataclass(frozen=True)
class ChosenThreshold:
    """A threshold, with its precision and recall on the split on which it was chosen.

    All are None if no threshold satisfies the rule, or if predicting no match costs least.
    """

    rule: Rule
    cosine: float | None
    precision: Estimate | None
    recall: float | None
    promised: float | None = None
    """With a guarantee: the precision or recall that is promised, or what is saved, with the confidence of the rule."""

    def as_dict(self, scorer: Scorer, evaluation: Evaluation) -> dict[str, Any]:
        """Return the content of scorer.json and evaluation-SPLIT.json."""
        return {
            "rule": str(self.rule),
            "cosine": self.cosine,
            **({} if self.cosine is None or not scorer.matcher else {"p": scorer.shown(self.cosine)}),
            "logit": None if self.cosine is None else float(scorer.logit(np.array([self.cosine]))[0]),
            "precision": None if self.precision is None else self.precision.as_dict(),
            "recall": self.recall,
            "split": evaluation.split,
            "pairs": evaluation.total_pairs,
            **self._promise,
        }

    @property
    def _promise(self) -> dict[str, Any]:
        """Return what a guarantee adds to the content; nothing without one."""
        if self.rule.guarantee is None:
            return {}
        kind = "saving" if self.rule.kind == "costs" else self.rule.kind
        return {"guarantee": self.rule.guarantee, "promised": {kind: self.promised}}


def parse_rule(words: str) -> Rule:
    """Parse `precision=0.9`, `recall=0.5`, `ranked-recall=0.5` or `costs=10,1`; BadOption for anything else.

    ` guarantee=0.95` may follow.
    """
    target, guaranteed, confidence = words.partition(GUARANTEE)
    kind, _, rest = target.partition("=")
    try:
        numbers = tuple(float(number) for number in rest.split(","))
        guarantee = float(confidence) if guaranteed else None
    except ValueError:
        numbers, guarantee = (), None
    sure = guarantee is None or LEAST_GUARANTEE <= guarantee <= MOST_GUARANTEE
    if sure and kind in ("precision", "recall", "ranked-recall") and len(numbers) == 1 and 0 < numbers[0] <= 1:
        return Rule(kind, numbers, guarantee)
    if sure and kind == "costs" and len(numbers) == 2 and all(0 < number < float("inf") for number in numbers):
        return Rule(kind, numbers, guarantee)
    raise BadOption(
        f"`threshold_for` {words!r}: give precision=P or recall=R, above 0 and at most 1, or costs=MISS,ALARM, above 0"
    )


def with_guarantee(rules: Sequence[str], confidence: float | None) -> tuple[str, ...]:
    """Add a confidence to the rules of --threshold-for, as `parse_rule` reads it; none if None."""
    if confidence is None:
        return tuple(rules)
    if not rules:
        raise BadOption("`guarantee` goes with `threshold_for`; add a rule, such as precision=0.9")
    return tuple(f"{rule}{GUARANTEE}{confidence:g}" for rule in rules)


def choose_thresholds(rules: Sequence[Rule], evaluation: Evaluation) -> tuple[ChosenThreshold, ...]:
    """Choose the threshold of each rule on an evaluation."""
    weights = weights_of(evaluation.strata)
    thresholds: list[ChosenThreshold] = []
    for rule in rules:
        if rule.kind == "precision":
            at = threshold_for_precision(evaluation.curve, *rule.numbers)
        elif rule.kind == "recall":
            at = threshold_for_recall(evaluation.curve, *rule.numbers)
        else:
            at = threshold_for_costs(evaluation.counts, weights, *rule.numbers)
        if at is None:
            thresholds.append(ChosenThreshold(rule, None, None, None))
        else:
            precision = precision_at(evaluation.counts, evaluation.strata, at)
            thresholds.append(
                ChosenThreshold(
                    rule, float(evaluation.curve.thresholds[at]), precision, float(evaluation.curve.recall[at])
                )
            )
    return tuple(thresholds)


def threshold_for_precision(curve: Curve, target: float) -> int | None:
    """Return the index of the threshold of highest recall whose precision is >= target; None if there is none."""
    good = np.flatnonzero(curve.precision >= target)
    return int(good[-1]) if len(good) else None


def threshold_for_recall(curve: Curve, target: float) -> int:
    """Return the index of the highest threshold whose recall is >= target, as for P@R20."""
    return int(np.argmax(curve.recall >= target))


def threshold_for_costs(counts: Counts, weights: Floats, miss: float, alarm: float) -> int | None:
    """Return the index of the highest threshold of least cost miss * FN + alarm * FP^; None to predict no match."""
    costs = miss * (counts.positives[-1] - counts.positives) + alarm * false_positives(counts, weights)
    at = int(np.argmin(costs))
    return at if costs[at] < miss * counts.positives[-1] else None
