"""Thresholds chosen by a rule from counts over all pairs: for a precision, for a recall, or for given costs.

A pair is called a match when its cosine is >= the threshold. Only the positives' scores need be looked at: between two
of them a lower threshold adds false alarms and no match.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from al_ray.core.errors import BadOption
from al_ray.core.evaluation import Evaluation
from al_ray.core.intervals import precision_at
from al_ray.core.metrics import Counts, Curve, Estimate, false_positives
from al_ray.core.scoring import Floats, Scorer

CHOSEN_ON = "dev"


@dataclass(frozen=True)
class Rule:
    """What a threshold is chosen for: a precision or a recall to reach, or the costs of a miss and of a false alarm."""

    kind: Literal["precision", "recall", "costs"]
    numbers: tuple[float, ...]

    def __str__(self) -> str:
        """As the command line says it."""
        return f"{self.kind}={','.join(f'{number:g}' for number in self.numbers)}"


@dataclass(frozen=True)
class Chosen:
    """A threshold and what it reaches on the split that it was chosen on.

    cosine is None, and so is the rest, where no threshold keeps the rule, or where to call nothing a match costs least.
    """

    rule: Rule
    cosine: float | None
    precision: Estimate | None
    recall: float | None

    def as_dict(self, scorer: Scorer, made: Evaluation) -> dict[str, Any]:
        """As scorer.json and evaluation-SPLIT.json hold it."""
        return {
            "rule": str(self.rule),
            "cosine": self.cosine,
            "logit": None if self.cosine is None else float(scorer.logit(np.array([self.cosine]))[0]),
            "precision": None if self.precision is None else self.precision.as_dict(),
            "recall": self.recall,
            "split": made.split,
            "pairs": made.total_pairs,
        }


def parsed(words: str) -> Rule:
    """`precision=0.9`, `recall=0.5` or `costs=10,1`; BadOption for anything else."""
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


def chosen(rules: Sequence[Rule], made: Evaluation) -> tuple[Chosen, ...]:
    """What each rule chooses."""
    weights = np.array([stratum.weight for stratum in made.strata], dtype=np.float64)
    found: list[Chosen] = []
    for rule in rules:
        if rule.kind == "precision":
            at = threshold_for_precision(made.curve, *rule.numbers)
        elif rule.kind == "recall":
            at = threshold_for_recall(made.curve, *rule.numbers)
        else:
            at = threshold_for_costs(made.counts, weights, *rule.numbers)
        if at is None:
            found.append(Chosen(rule, None, None, None))
        else:
            precision = precision_at(made.counts, made.strata, at)
            found.append(Chosen(rule, float(made.curve.thresholds[at]), precision, float(made.curve.recall[at])))
    return tuple(found)


def threshold_for_precision(curve: Curve, target: float) -> int | None:
    """The place of the threshold of the greatest recall whose precision is >= the target; None where there is none."""
    good = np.flatnonzero(curve.precision >= target)
    return int(good[-1]) if len(good) else None


def threshold_for_recall(curve: Curve, target: float) -> int:
    """The place of the highest threshold whose recall is >= the target, as P@R20 has it."""
    return int(np.argmax(curve.recall >= target))


def threshold_for_costs(counts: Counts, weights: Floats, miss: float, alarm: float) -> int | None:
    """The place of the highest threshold of least miss * FN + alarm * FP^; None where calling no match is no dearer."""
    costs = miss * (counts.positives[-1] - counts.positives) + alarm * false_positives(counts, weights)
    at = int(np.argmin(costs))
    return at if costs[at] < miss * counts.positives[-1] else None
