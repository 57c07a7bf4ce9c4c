"""Decision thresholds from counts over all pairs: for a target precision, a target recall, or given costs.

A pair is predicted to match if its cosine is >= the threshold. Only scores of positives are tried: between two of them
a lower threshold adds false positives and no true positive.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from al_ray.core.errors import BadOption
from al_ray.core.scorer import Floats, Scorer
from al_ray.metrics.average_precision import Counts, Curve, Estimate, false_positives
from al_ray.metrics.evaluation import Evaluation
from al_ray.metrics.intervals import precision_at, weights_of

CHOSEN_ON = "dev"


@dataclass(frozen=True)
class Rule:
    """The target of a threshold: a precision or recall to reach, or the costs of both kinds of errors.

    numbers: (target,) in (0, 1], or (miss, alarm), positive and finite.
    """

    kind: Literal["precision", "recall", "costs"]
    numbers: tuple[float, ...]

    def __str__(self) -> str:
        """Return the rule as it is written on the command line."""
        return f"{self.kind}={','.join(f'{number:g}' for number in self.numbers)}"


@dataclass(frozen=True)
class ChosenThreshold:
    """A threshold, with its precision and recall on the split on which it was chosen.

    All are None if no threshold satisfies the rule, or if predicting no match costs least.
    """

    rule: Rule
    cosine: float | None
    precision: Estimate | None
    recall: float | None

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
        }


def parse_rule(words: str) -> Rule:
    """Parse `precision=0.9`, `recall=0.5` or `costs=10,1`; BadOption for anything else."""
    kind, _, rest = words.partition("=")
    try:
        numbers = tuple(float(number) for number in rest.split(","))
    except ValueError:
        numbers = ()
    if kind in ("precision", "recall") and len(numbers) == 1 and 0 < numbers[0] <= 1:
        return Rule(kind, numbers)
    if kind == "costs" and len(numbers) == 2 and all(0 < number < float("inf") for number in numbers):
        return Rule(kind, numbers)
    raise BadOption(
        f"--threshold-for {words!r}: give precision=P or recall=R, above 0 and at most 1, or costs=MISS,ALARM, above 0"
    )


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
