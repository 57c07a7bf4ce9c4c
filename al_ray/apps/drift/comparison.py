"""Compare a figure of the texts to match with the same figure of the training texts: two samples of values.

The statistic is that of the two-sample Kolmogorov-Smirnov test: the largest difference of two empirical distribution
functions. It is significant at the level alpha above sqrt(-ln(alpha / 2) / 2 * (n + m) / (n m)) (Smirnov, Table for
estimating the goodness of fit of empirical distributions, Annals of Mathematical Statistics 19, 1948: the limit for
large samples; the test rejects less often where values are equal, as shares are). Samples of thousands make small
differences significant, and values that share texts are not independent. So a warning needs a large difference, too.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import log, sqrt
from typing import Any, Literal

import numpy as np

from al_ray.core.scorer import Floats

Direction = Literal["higher", "lower"]
ALPHA = 0.001
"""Level of the test of each figure. There are about ten figures, so one warning by chance in a hundred commands."""
LARGE, LARGE_SHARE = 0.25, 0.1
"""A difference of this size or more is large: of a distribution, and of the share of truncated texts."""


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of figure. warnings: what is said where values are higher or lower than in training; none: no warning.

    unit: how a mean is written, with a place for it. large: the least difference that is large.
    """

    name: str
    unit: str
    warnings: Mapping[Direction, str]
    large: float = LARGE


@dataclass(frozen=True)
class Figure:
    """A figure of texts or pairs: its mean in training and now, and the difference of the two distributions.

    subject: whose figure it is, such as "left texts". distance: Kolmogorov-Smirnov statistic. critical: the distance
    above which it is significant. warning: a sentence if the difference is significant and large, "" if not.
    """

    name: str
    subject: str
    training: float
    now: float
    distance: float
    critical: float
    warning: str

    @property
    def record(self) -> dict[str, Any]:
        """Return what match.json says of it."""
        numbers = {name: round(value, 6) for name, value in asdict(self).items() if isinstance(value, float)}
        return {**asdict(self), **numbers, "warning": self.warning or None}


def distances(training: Floats, now: Floats) -> dict[Direction, float]:
    """(m,) and (n,) values -> by how much the distribution now lies above, and below, that of training at most.

    higher: max over x of F_training(x) - F_now(x), where F(x) is the share of values that are at most x. lower: the
    same of F_now(x) - F_training(x). The Kolmogorov-Smirnov statistic is the larger of the two.
    """
    values = np.unique(np.concatenate([training, now]))
    shares = [np.searchsorted(np.sort(sample), values, side="right") / len(sample) for sample in (training, now)]
    difference = shares[0] - shares[1]
    return {"higher": max(0.0, float(difference.max())), "lower": max(0.0, float(-difference.min()))}


def critical_distance(training: int, now: int, alpha: float = ALPHA) -> float:
    """Return the distance above which two samples of these sizes differ significantly at the level alpha."""
    return sqrt(-log(alpha / 2) / 2 * (training + now) / (training * now))


def compare(
    kind: Kind,
    subject: str,
    training: Floats,
    now: Floats,
    judged: tuple[Direction, ...] = ("higher", "lower"),
) -> Figure | None:
    """Compare (m,) values of training with (n,) values now; None if either has none.

    judged: the directions in which a difference may give a warning.
    """
    if not len(training) or not len(now):
        return None
    apart, critical = distances(training, now), critical_distance(len(training), len(now))
    direction: Direction = "higher" if apart["higher"] >= apart["lower"] else "lower"
    distance, means = apart[direction], (float(np.mean(training)), float(np.mean(now)))
    warning, words = "", kind.warnings.get(direction)
    if words is not None and direction in judged and distance > critical and distance >= kind.large:
        before, after = (kind.unit.format(mean) for mean in means)
        warning = f"{subject} {words}: {after}; in training {before}"
    return Figure(kind.name, subject, *means, distance, critical, warning)
