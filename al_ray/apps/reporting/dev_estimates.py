"""Estimates of the models of a run from labels of drawn dev pairs (runs/dev_labels.py)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.apps.reporting.stored_figures import estimate_of, finite, finite_or_none
from al_ray.core.config.oracle import oracle_kind
from al_ray.core.errors import BadFile
from al_ray.metrics.average_precision import Estimate
from al_ray.runs.dev_labels import ESTIMATE, missing_labels, round_of
from al_ray.storage.files import read_json
from al_ray.storage.uri import StoragePath


@dataclass(frozen=True)
class Interval:
    """A 95% interval of a figure over all pairs of dev. value: None if only the interval is known."""

    low: float
    high: float
    value: float | None


@dataclass(frozen=True)
class DevEstimate:
    """Estimates of a round's model, each with its 95% interval; None for what is not known.

    labels: number of drawn pairs with a label so far. ranked: number of pairs of highest score; known: of those that
    were labelled before and count with them. precision, recall: at the model's boundary.
    """

    labels: int
    known: int
    ranked: int
    average_precision: Estimate | None
    average_precision_over_all: Interval | None
    precision: Estimate | None
    recall: Estimate | None
    recall_over_all: Interval | None


def read_dev_estimate(run: StoragePath, number: int) -> DevEstimate | None:
    """Return the estimates of a round of a run folder, None if it has none."""
    path = round_of(run, number) / ESTIMATE
    if not path.exists():
        return None
    content = read_json(path, ["round"])
    try:
        if content["round"] != number:
            raise ValueError(f"it is of round {content['round']}")
        return DevEstimate(
            labels=int(content["labels"]),
            known=int(content["known"]),
            ranked=int(content["ranked"]),
            average_precision=_estimate(content["average_precision_of_ranked"]),
            average_precision_over_all=_interval(content["average_precision"]),
            precision=_estimate(content["precision_at_boundary"]),
            recall=_estimate(content["recall_of_ranked_at_boundary"]),
            recall_over_all=_interval(content["recall_at_boundary"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadFile(f"{path} is not the estimate of a round ({error!r}); restore it") from error


def missing_estimate(run: StoragePath, config: RunConfig, complete: int) -> tuple[str, bool]:
    """Return what the last complete round lacks to be measured by dev labels, and whether these are awaited of people.

    "" if it lacks nothing, or if no dev pairs are to be labelled.
    """
    missing = missing_labels(run, complete) if config.dev_labels and complete else None
    if missing is None:
        return "", False
    if not missing:
        return f"the estimate from dev labels of round {complete}", False
    return f"{missing:,} dev labels of round {complete}", oracle_kind(config.oracle).people


def _estimate(content: Mapping[str, Any] | None) -> Estimate | None:
    return None if content is None else estimate_of(content)


def _interval(content: Mapping[str, Any] | None) -> Interval | None:
    if content is None:
        return None
    return Interval(finite(content["low"]), finite(content["high"]), finite_or_none(content["value"]))
