"""How good a scorer is over all pairs: what the evaluators say and the JSON files hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from al_ray.core.calibration import Reliability
from al_ray.core.intervals import (
    average_precision_interval,
    behind_average_precision,
    behind_precision,
    precision_interval,
    warning_of,
    weights_of,
)
from al_ray.core.metrics import Counts, Curve, Estimate, Extent, curve, reaching
from al_ray.core.resampling import Replicates


@dataclass(frozen=True)
class Evaluation:
    """How good a scorer is over all pairs of a split; total_pairs counts the positives too.

    reliability is None for a scorer that gives no probabilities (the untrained encoder).
    behind: effective numbers of sampled pairs behind AP and P@R20, None when every pair was counted.
    over_questions, over_samples: AP had other questions been asked, or other pairs sampled; None where nobody asked.
    """

    split: str
    average_precision: Estimate
    precision_at_recall_20: Estimate
    positives: int
    strata: tuple[Extent, ...]
    total_pairs: int
    reliability: Reliability | None
    counts: Counts
    curve: Curve
    behind: tuple[float, float] | None = None
    over_questions: Replicates | None = None
    over_samples: Replicates | None = None

    @property
    def exact(self) -> bool:
        """Whether every pair was counted."""
        return all(stratum.size == stratum.population for stratum in self.strata)

    @property
    def calibration_error(self) -> float | None:
        """Expected calibration error, where there are probabilities."""
        return None if self.reliability is None else self.reliability.error

    @property
    def warnings(self) -> list[str]:
        """What to be told of before an estimate is trusted."""
        if self.behind is None:
            return []
        estimates = (("AP", self.average_precision), ("P@R20", self.precision_at_recall_20))
        said = [warning_of(*named, number) for named, number in zip(estimates, self.behind, strict=True)]
        return [words for words in said if words is not None]

    def as_dict(self) -> dict[str, Any]:
        """As evaluation-SPLIT.json holds it."""
        names = ("average_precision", "precision_at_recall_20")
        return {
            "split": self.split,
            "exact": self.exact,
            "average_precision": self.average_precision.as_dict(),
            "precision_at_recall_20": self.precision_at_recall_20.as_dict(),
            "average_precision_over_questions": _content(self.over_questions),
            "sampled_pairs_behind": None if self.behind is None else dict(zip(names, self.behind, strict=True)),
            "warnings": self.warnings,
            **({"calibration_error": None} if self.reliability is None else self.reliability.as_dict()),
            "positives": self.positives,
            "strata": [
                {"name": stratum.name, "size": stratum.size, "population": stratum.population, "weight": stratum.weight}
                for stratum in self.strata
            ],
            "total_pairs": self.total_pairs,
        }


def evaluation(
    split: str,
    counts: Counts,
    strata: Sequence[Extent],
    summed: Reliability | None,
    rng: np.random.Generator,
    over_questions: Replicates | None = None,
    over_samples: Replicates | None = None,
) -> Evaluation:
    """All that is said of a scorer, from counts and sums over all positives and all sampled negatives."""
    positives = int(counts.positives[-1])
    whole = all(stratum.size == stratum.population for stratum in strata)
    at_20 = float(behind_precision(counts, strata)[reaching(counts, 0.2)])
    return Evaluation(
        split=split,
        average_precision=average_precision_interval(counts, strata, rng),
        precision_at_recall_20=precision_interval(counts, strata, 0.2),
        positives=positives,
        strata=tuple(strata),
        total_pairs=positives + sum(stratum.population for stratum in strata),
        reliability=summed,
        counts=counts,
        curve=curve(counts, weights_of(strata)),
        behind=None if whole else (behind_average_precision(counts, strata), at_20),
        over_questions=over_questions,
        over_samples=over_samples,
    )


@dataclass(frozen=True)
class Comparison:
    """The AP of one scorer less that of another, on the same pairs, with 95% intervals of the difference.

    over_samples: had other pairs been sampled, the same for both; shut where all were counted. over_questions: had
    other questions been asked, the same for both.
    """

    split: str
    difference: float
    over_samples: Estimate
    over_questions: Estimate | None
    exact: bool

    def as_dict(self) -> dict[str, Any]:
        """As evaluation-SPLIT-against-NAME.json holds it."""
        return {
            "split": self.split,
            "exact": self.exact,
            "average_precision_difference": self.over_samples.as_dict(),
            "average_precision_difference_over_questions": _dict(self.over_questions),
        }


def comparison(one: Evaluation, other: Evaluation) -> Comparison:
    """One evaluation less another of the same pairs."""
    value = one.average_precision.value - other.average_precision.value
    samples = one.over_samples - other.over_samples if one.over_samples and other.over_samples else None
    questions = one.over_questions - other.over_questions if one.over_questions and other.over_questions else None
    over_samples = samples.interval if samples else None
    return Comparison(
        split=one.split,
        difference=value,
        over_samples=over_samples or Estimate(value, value, value),
        over_questions=questions.interval if questions else None,
        exact=one.exact and other.exact,
    )


def _content(replicates: Replicates | None) -> dict[str, float] | None:
    return _dict(None if replicates is None else replicates.interval)


def _dict(estimate: Estimate | None) -> dict[str, float] | None:
    return None if estimate is None else estimate.as_dict()
