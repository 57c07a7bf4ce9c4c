"""What more labels may bring to average precision: a rule of thumb, fitted on learning curves (docs/more-labels.md).

The odds of average precision, AP / (1 - AP), grow as a power of the number of labels:

    odds(target) = odds(labels) * (target / labels) ** b

b is 0 at the low end, where more labels bring nothing, `usual` for the estimate and `most` at the high end. It is 0
for the estimate, too, if the labels so far have brought no more than none: the encoder knows the texts better. It is
larger for texts that have labels, because the matcher has learned some of their pairs themselves. The curves are of
runs with a matcher, whose encoder is not trained.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

TARGET = 1000
"""Labels that are guessed for, until there are as many; then ten times those there are."""
FEWEST = 60
"""Labels from which on the rule was checked."""
LITTLE = 0.01
"""Gain of average precision below which even the high end is little."""
WIDENED = 2.0
"""Factor of the high end over the largest mean of a task."""


@dataclass(frozen=True)
class GuessRule:
    """Exponents b >= 0 of the rule, and its record on tasks that were left out: `right` of `guesses` in its range."""

    usual: float
    most: float
    right: int = 0
    guesses: int = 0


# Made by: python -m studies guess (docs/more-labels.md).
LABELLED_TEXTS = GuessRule(usual=0.41, most=1.11, right=38, guesses=38)
OTHER_TEXTS = GuessRule(usual=0.11, most=0.39, right=18, guesses=25)


def rule_of(split: str) -> GuessRule:
    """Return the rule for average precision on a split: pairs of train are labelled, those of others are not."""
    return LABELLED_TEXTS if split == "train" else OTHER_TEXTS


@dataclass(frozen=True)
class Guess:
    """What `target` labels may bring. now, low, estimate, high: average precisions in [0, 1], in this order.

    now: with `labels` labels. untrained: without any label, None if that is not known.
    """

    labels: int
    target: int
    now: float
    estimate: float
    high: float
    rule: GuessRule
    untrained: float | None = None

    @property
    def low(self) -> float:
        """Return the low end: more labels bring nothing."""
        return self.now

    @property
    def little(self) -> bool:
        """Return whether even the high end is little more than now, or no more than without any label."""
        return self.high - self.now < LITTLE or (self.untrained is not None and self.high <= self.untrained)

    @property
    def words(self) -> str:
        """Return the guess in a line."""
        little = "little: " if self.little else ""
        low, estimate, high = (f"{100 * value:.1f}" for value in (self.low, self.estimate, self.high))
        without = "" if self.untrained is None else f", {100 * self.untrained:.1f} without any"
        record = f"right for {self.rule.right} of {self.rule.guesses} guesses on other tasks"
        if self.labels >= TARGET:
            record = f"not checked beyond {TARGET:,} labels"
        return (
            f"guess: {self.target:,} labels bring {little}AP {low} to {high}, about {estimate} "
            f"(now {low} with {self.labels:,}{without}); a rule of thumb, {record} (docs/more-labels.md)"
        )


def guess_more_labels(
    labels: int, now: float, rule: GuessRule, target: int | None = None, untrained: float | None = None
) -> Guess:
    """Guess the average precision that `target` labels bring.

    labels: how many there are, >= 1. now, untrained: average precision in [0, 1] with these, and without any.
    target: at least as many; None for `usual_target`.
    ValueError for other numbers.
    """
    target = usual_target(labels) if target is None else target
    if not 1 <= labels <= target or not 0.0 <= now <= 1.0:
        raise ValueError(f"{labels} labels, {target} to guess for, average precision {now}")
    usual = rule.usual if above_untrained(now, untrained) else 0.0
    estimate, high = (continued(labels, now, target, power) for power in (usual, rule.most))
    return Guess(labels, target, now, estimate, high, rule, untrained)


def usual_target(labels: int) -> int:
    """Return how many labels are guessed for: TARGET, or ten times `labels` if there are as many as TARGET."""
    return TARGET if labels < TARGET else 10 * labels


def above_untrained(now: float, untrained: float | None) -> bool:
    """Return whether labels have brought average precision above that without any, as far as that is known."""
    return untrained is None or now > untrained


def continued(labels: int, now: float, target: int, power: float) -> float:
    """Return the average precision, in [now, 1], that `target` labels bring if b is `power`, >= 0."""
    return now / (now + (1.0 - now) * (target / labels) ** -power)


def power_between(labels: int, now: float, target: int, then: float) -> float:
    """Return b of two points of a curve: average precisions above 0 and below 1, of fewer and of more labels."""
    return log(then * (1.0 - now) / (now * (1.0 - then))) / log(target / labels)


def fit_rule(powers: Mapping[str, Sequence[float]]) -> GuessRule:
    """Fit the rule on b of tasks: the mean of their means, and WIDENED times the largest mean; none below 0."""
    means = [float(np.mean(values)) for values in powers.values()]
    return GuessRule(max(0.0, float(np.mean(means))), max(0.0, WIDENED * max(means)))
