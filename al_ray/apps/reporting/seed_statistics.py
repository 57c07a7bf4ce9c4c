"""Statistics over seeds: mean and deviation, paired differences, and labels needed to reach a figure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

from al_ray.apps.reporting.run_records import Run
from al_ray.metrics.average_precision import Estimate

# The 97.5% quantile of Student's t with 1, 2, ... degrees of freedom. The last is used for all larger numbers, which
# makes their intervals a little too wide.
T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


@dataclass(frozen=True)
class Spread:
    """Mean, minimum, maximum and sample standard deviation (n - 1) of the numbers of several runs."""

    count: int
    mean: float
    low: float
    high: float
    deviation: float


def spread(values: Sequence[float]) -> Spread | None:
    """Return the statistics of the values, None without values; the deviation of one value is 0."""
    if not values:
        return None
    deviation = stdev(values) if len(values) > 1 else 0.0
    low, high = min(values), max(values)
    # The rounded mean of equal values may lie beside them.
    return Spread(len(values), min(max(fmean(values), low), high), low, high, deviation)


def mean_interval(values: Sequence[float]) -> tuple[Estimate, str] | None:
    """Return the mean with an interval, and the kind of interval: Student's t at 95%, or of two values their range."""
    one = spread(values)
    if one is None:
        return None
    if one.count < 3:
        return Estimate(one.mean, one.low, one.high), "min to max" if one.count == 2 else "one seed"
    half = T[min(one.count - 1, len(T)) - 1] * one.deviation / one.count**0.5
    return Estimate(one.mean, one.mean - half, one.mean + half), "95%, Student's t"


@dataclass(frozen=True)
class Difference:
    """A figure of one run minus that of another of the same seed, at the largest label count both were evaluated at."""

    seed: int
    labels: int
    value: float


Figure = Callable[[Run, int], float | None]
"""(run, labels) -> a figure of the run's round that ended with this number of labels, or None."""


def differences(runs: Sequence[Run], others: Sequence[Run], figure: Figure) -> list[Difference]:
    """Return one difference for each seed that both have; of several runs of one seed, the first is taken."""
    paired: list[Difference] = []
    known = {other.config.seed: other for other in reversed(others)}
    for run in runs:
        other = known.pop(run.config.seed, None)
        if other is None:
            continue
        for labels in sorted({one.labels for one in run.rounds} & {one.labels for one in other.rounds}, reverse=True):
            here, there = figure(run, labels), figure(other, labels)
            if here is not None and there is not None:
                paired.append(Difference(run.config.seed, labels, here - there))
                break
    return paired


@dataclass(frozen=True)
class LabelsToReach:
    """Labels with which a figure is reached. at_most: the first point reaches it, so fewer may be enough."""

    labels: float
    at_most: bool = False


def labels_to_reach(points: Sequence[tuple[int, float]], target: float) -> LabelsToReach | None:
    """Interpolate (labels, figure) points, sorted by labels, and return where they first reach the target, or None."""
    if points and points[0][1] >= target:
        return LabelsToReach(points[0][0], at_most=True)
    for (few, low), (many, high) in pairwise(points):
        if high >= target:
            return LabelsToReach(few + (many - few) * (target - low) / (high - low))
    return None
