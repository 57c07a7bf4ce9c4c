"""The result of an evaluation over all pairs, and the comparison of two results, as the JSON files hold them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from al_ray.metrics.average_precision import Counts, Curve, Estimate, StratumSummary, curve, threshold_at_recall
from al_ray.metrics.bootstrap import Replicates
from al_ray.metrics.calibration import Reliability
from al_ray.metrics.intervals import (
    average_precision_interval,
    effective_pairs_of_average_precision,
    effective_pairs_of_precision,
    precision_interval,
    unreached_share,
    warn_of_few_pairs,
    warn_of_unreached_thresholds,
    weights_of,
)


@dataclass(frozen=True)
class Evaluation:
    """Metrics of a scorer over all pairs of a split.

    average_precision, precision_at_recall_20: in [0, 1], with 95% intervals over the sampling of pairs.
    total_pairs: number of pairs of the split, positives included.
    reliability: None for a scorer without probabilities (the untrained encoder).
    effective_pairs: effective numbers of sampled pairs that AP and P@R20 depend on; None if every pair was counted.
    over_queries, over_samples: bootstrap of AP over queries, or over sampled pairs; None if it was not requested.
    """

    split: str
    average_precision: Estimate
    precision_at_recall_20: Estimate
    positives: int
    strata: tuple[StratumSummary, ...]
    total_pairs: int
    reliability: Reliability | None
    counts: Counts
    curve: Curve
    effective_pairs: tuple[float, float] | None = None
    over_queries: Replicates | None = None
    over_samples: Replicates | None = None

    @property
    def exact(self) -> bool:
        """Whether every pair was counted, none estimated."""
        return all(stratum.size == stratum.population for stratum in self.strata)

    @property
    def calibration_error(self) -> float | None:
        """Expected calibration error in [0, 1]; None without probabilities."""
        return None if self.reliability is None else self.reliability.error

    @property
    def warnings(self) -> list[str]:
        """Warnings about estimates that depend on few sampled pairs, and about an AP that tends to be too high."""
        if self.effective_pairs is None:
            return []
        estimates = (("AP", self.average_precision), ("P@R20", self.precision_at_recall_20))
        warnings = [
            warn_of_few_pairs(*named, number) for named, number in zip(estimates, self.effective_pairs, strict=True)
        ]
        unreached = unreached_share(self.counts, self.strata)
        warnings.append(warn_of_unreached_thresholds(self.average_precision, unreached))
        return [warning for warning in warnings if warning is not None]

    def as_dict(self) -> dict[str, Any]:
        """Return the content of evaluation-SPLIT.json; its keys are part of the file format."""
        names = ("average_precision", "precision_at_recall_20")
        return {
            "split": self.split,
            "exact": self.exact,
            "average_precision": self.average_precision.as_dict(),
            "precision_at_recall_20": self.precision_at_recall_20.as_dict(),
            "average_precision_over_questions": _dict(self.over_queries and self.over_queries.interval),
            "sampled_pairs_behind": None
            if self.effective_pairs is None
            else dict(zip(names, self.effective_pairs, strict=True)),
            "warnings": self.warnings,
            **({"calibration_error": None} if self.reliability is None else self.reliability.as_dict()),
            "positives": self.positives,
            "strata": [
                {"name": stratum.name, "size": stratum.size, "population": stratum.population, "weight": stratum.weight}
                for stratum in self.strata
            ],
            "total_pairs": self.total_pairs,
        }


def evaluate_counts(
    split: str,
    counts: Counts,
    strata: Sequence[StratumSummary],
    summed: Reliability | None,
    rng: np.random.Generator,
    over_queries: Replicates | None = None,
    over_samples: Replicates | None = None,
) -> Evaluation:
    """Evaluate a scorer from its counts over all positives and all sampled negatives: the last step of estimator.py.

    summed: the reliability over all pairs. rng: of the interval of AP. over_queries, over_samples: bootstrap
    replicates of AP.
    """
    positives = int(counts.positives[-1])
    whole = all(stratum.size == stratum.population for stratum in strata)
    at_20 = float(effective_pairs_of_precision(counts, strata)[threshold_at_recall(counts, 0.2)])
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
        effective_pairs=None if whole else (effective_pairs_of_average_precision(counts, strata), at_20),
        over_queries=over_queries,
        over_samples=over_samples,
    )


@dataclass(frozen=True)
class Comparison:
    """The AP of one scorer minus that of another, on the same pairs, with paired 95% bootstrap intervals.

    over_samples: over the sampled pairs; of width 0 if every pair was counted. over_queries: over the queries; None if
    fewer than FEWEST_QUERIES have a positive. over_samples is narrower than a 95% interval, because it resamples only
    the sampled pairs, and not those above all of them. warnings: of the two evaluations.
    """

    split: str
    difference: float
    over_samples: Estimate
    over_queries: Estimate | None
    exact: bool
    warnings: tuple[tuple[str, ...], tuple[str, ...]]

    def as_dict(self) -> dict[str, Any]:
        """Return the content of evaluation-SPLIT-against-NAME.json."""
        return {
            "split": self.split,
            "exact": self.exact,
            "average_precision_difference": self.over_samples.as_dict(),
            "average_precision_difference_over_questions": _dict(self.over_queries),
            "warnings": [list(warnings) for warnings in self.warnings],
        }


def compare(one: Evaluation, other: Evaluation) -> Comparison:
    """Compare two evaluations of the same pairs: the difference is `one` minus `other`."""
    value = one.average_precision.value - other.average_precision.value
    samples = one.over_samples - other.over_samples if one.over_samples and other.over_samples else None
    queries = one.over_queries - other.over_queries if one.over_queries and other.over_queries else None
    over_samples = samples.interval if samples else None
    return Comparison(
        split=one.split,
        difference=value,
        over_samples=over_samples or Estimate(value, value, value),
        over_queries=queries.interval if queries else None,
        exact=one.exact and other.exact,
        warnings=(tuple(one.warnings), tuple(other.warnings)),
    )


def _dict(estimate: Estimate | None) -> dict[str, float] | None:
    return None if estimate is None else estimate.as_dict()
