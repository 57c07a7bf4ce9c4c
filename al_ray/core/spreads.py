"""Several seeds of one thing: means and spreads, differences of runs of the same seed, labels to reach a figure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

from al_ray.core.metrics import Estimate
from al_ray.core.runs import Run

# The 97.5% quantile of Student's t with 1, 2, ... degrees of freedom; the last serves for more, a little too wide.
T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


@dataclass(frozen=True)
class Spread:
    """Numbers of several runs: their mean, their least and most, and their standard deviation (of a sample)."""

    count: int
    mean: float
    low: float
    high: float
    deviation: float


def spread(values: Sequence[float]) -> Spread | None:
    """None of no numbers; of one there is no deviation."""
    if not values:
        return None
    deviation = stdev(values) if len(values) > 1 else 0.0
    return Spread(len(values), fmean(values), min(values), max(values), deviation)


def mean_interval(values: Sequence[float]) -> tuple[Estimate, str] | None:
    """The mean with its ends, and what they are: Student's t at 95% from three numbers on; of two, the two."""
    found = spread(values)
    if found is None:
        return None
    if found.count < 3:
        return Estimate(found.mean, found.low, found.high), "min to max" if found.count == 2 else "one seed"
    half = T[min(found.count - 1, len(T)) - 1] * found.deviation / found.count**0.5
    return Estimate(found.mean, found.mean - half, found.mean + half), "95%, Student's t"


@dataclass(frozen=True)
class Difference:
    """A figure of one run less that of another of the same seed, at the most labels that both were measured at."""

    seed: int
    labels: int
    value: float


Figure = Callable[[Run, int], float | None]
"""A figure of a run's round with so many labels; None where there is none."""


def differences(runs: Sequence[Run], others: Sequence[Run], figure: Figure) -> list[Difference]:
    """Of each seed that both have, once; runs are taken as they come."""
    found: list[Difference] = []
    known: dict[int, Run] = {}
    for other in others:
        known.setdefault(other.config.seed, other)
    for run in runs:
        other = known.pop(run.config.seed, None)
        if other is None:
            continue
        for labels in sorted({one.labels for one in run.rounds} & {one.labels for one in other.rounds}, reverse=True):
            here, there = figure(run, labels), figure(other, labels)
            if here is not None and there is not None:
                found.append(Difference(run.config.seed, labels, here - there))
                break
    return found


@dataclass(frozen=True)
class Reached:
    """Labels with which a figure is reached; at_most: it was reached at the first point, so perhaps with fewer."""

    labels: float
    at_most: bool = False


def labels_to_reach(points: Sequence[tuple[int, float]], target: float) -> Reached | None:
    """(labels, figure) points by labels -> where the straight lines between them first meet the target; None: never."""
    if points and points[0][1] >= target:
        return Reached(points[0][0], at_most=True)
    for (few, low), (many, high) in pairwise(points):
        if high >= target:
            return Reached(few + (many - few) * (target - low) / (high - low))
    return None
