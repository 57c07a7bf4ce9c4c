"""Early stopping, decided by the metrics of complete rounds alone, so that the same command stops again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.core.config.bounds import Between, Lifted, check_bounds
from al_ray.core.errors import BadOption
from al_ray.core.naming import Code, option
from al_ray.metrics.average_precision import Estimate
from al_ray.metrics.round_comparison import AGREEMENT, GAIN
from al_ray.metrics.shares import share_estimate


@dataclass(frozen=True)
class StopConfig:
    """Limits that end a run before its last round. They hold in later sessions too, until another value is given."""

    # Not in config.json but in limits.json (runs/limits.py): a limit may change between sessions of a run.
    labels: Annotated[int | Lifted | None, Between(1, 2**62)] = None
    """End after the round in which the number of labels reaches this; none lifts an earlier limit."""
    hours: Annotated[float | Lifted | None, Between(0, 1e6)] = None
    """End after the round in which the hours of all complete rounds, labelling included, reach this; none lifts an
    earlier limit."""
    patience: Annotated[int | Lifted | None, Between(1, 10_000)] = None
    """End after this many rounds without a better average precision on dev, or on the first of --evaluation.splits if
    dev is not measured; none lifts an earlier limit."""
    gain: Annotated[float | Lifted | None, Between(0.001, 1)] = None
    """End after a round that changed average precision by less than this (0.02: 2 points), up or down, compared with
    the round before: when the 95% interval of the change, by a bootstrap over queries of the same split as for
    patience, lies between -gain and gain. Without 10 queries that have a match there is no interval, and the run goes
    on. The interval does not tell of the sampling of pairs. none lifts an earlier limit."""
    match_share: Annotated[float | Lifted | None, Between(0.0001, 1)] = None
    """End after a round whose labels are matches less often than this (0.02: 1 in 50): when the 95% interval of their
    share lies below it, and the models of this round and of the one before agree on 95% of the labelled pairs or more.
    Pairs labelled unsure are left out. none lifts an earlier limit."""

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds."""
        check_bounds(self, "stop.")

    def check_measured(self, config: RunConfig) -> None:
        """Raise BadOption for patience or gain when no round measures average precision."""
        if config.evaluation.splits:
            return
        if isinstance(self.patience, int):
            raise BadOption("`stop.patience` waits for a better average precision; give `evaluation.splits='dev'`")
        if isinstance(self.gain, int | float):
            raise BadOption("`stop.gain` compares average precision; give `evaluation.splits='dev'`")


NEVER = StopConfig()
ALL_LABELLED = "every pair of train is labelled"
SETTLED = 0.95
"""Share of the labelled pairs on which the models of two rounds agree, from which few matches mean that few are left.

Before that, a round without matches can be one whose pairs teach the model what is no match (docs/labels.md).
"""


@dataclass(frozen=True)
class Limit:
    """A limit that a run has reached: the field of StopConfig, its value, and what reached it, in words."""

    name: str
    value: float
    reason: str

    @property
    def by_option(self) -> str:
        """The limit with the option of jobs.run that sets it."""
        value = Code(self.value if isinstance(self.value, int) else f"{self.value:g}")
        return f"{option(f'stop.{self.name}', value)}: {self.reason}"


def end_reason(config: RunConfig, stop: StopConfig, metrics: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why a finished run has fewer rounds than --rounds; None when it has them all."""
    rounds = f"round {len(metrics)} of {len(config.batches)}"
    if len(metrics) == len(config.batches):
        return None
    limit = limit_reached(stop, metrics)
    if limit is not None:
        other = "lower" if limit.name in ("gain", "match_share") else "higher"
        return (
            f"stopped after {rounds} by {limit.by_option}; to resume, rerun the command with a {other} value, or none"
        )
    if all_labelled(metrics):
        return f"{ALL_LABELLED} after {rounds}: the run ends below its budget"
    reason = f"no unlabelled candidate is left after {rounds}: the run ends below its budget"
    if config.search.kind == "exact" or not STRATEGIES[config.strategy].searches:
        return reason
    return f"{reason} (its candidates are the {config.search.neighbours} nearest of each text: `search.neighbours`)"


def all_labelled(metrics: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether no pair of the pool is left without a label. A round of an earlier version does not say it."""
    return bool(metrics) and metrics[-1].get("unlabelled") == 0


def limit_reached(config: StopConfig, metrics: Sequence[Mapping[str, Any]]) -> Limit | None:
    """Return the limit that the complete rounds (lines of metrics.jsonl) have reached; None for none."""
    if not metrics:
        return None
    labels, hours = metrics[-1]["labels"], sum(sum(line["seconds"].values()) for line in metrics) / 3600
    if isinstance(config.labels, int) and labels >= config.labels:
        return Limit("labels", config.labels, f"the run has {labels:,}")
    if isinstance(config.hours, int | float) and hours >= config.hours:
        return Limit("hours", float(config.hours), f"the rounds took {hours:.2f}")
    # argmax is the first of equal values: a round that is only as good does not reset patience.
    best = int(np.argmax([line["average_precision"] or 0.0 for line in metrics]))
    waited = len(metrics) - 1 - best
    if isinstance(config.patience, int) and waited >= config.patience:
        return Limit("patience", config.patience, f"average precision has not improved since round {best + 1}")
    return _settled(config, metrics)


def _settled(config: StopConfig, metrics: Sequence[Mapping[str, Any]]) -> Limit | None:
    """Return the limit on what the last round changed or found that it has reached; None for none."""
    change, share = metrics[-1].get(GAIN), share_of_matches(metrics)
    if isinstance(config.gain, int | float) and change is not None and is_small(change, config.gain):
        reason = f"average precision changed by {points(change)} since the round before"
        return Limit("gain", float(config.gain), reason)
    least = config.match_share
    if isinstance(least, int | float) and share is not None and share.high < least and is_stable(metrics):
        return Limit("match_share", float(least), found(metrics))
    return None


def is_small(change: Mapping[str, float], gain: float) -> bool:
    """Return whether the 95% interval of a change of average precision lies between -gain and gain."""
    return -gain < change["low"] and change["high"] < gain


def points(change: Mapping[str, float]) -> str:
    """Format a change of average precision in points, with its interval."""
    value, low, high = (f"{100 * change[end]:+.1f}" for end in ("value", "low", "high"))
    return f"{value} points (95%: {low} to {high})"


def batch_of(metrics: Sequence[Mapping[str, Any]]) -> tuple[int, int] | None:
    """Return the matches and the decided labels of the last round; None if it has no such label.

    None too for a round of an earlier version, which does not say how many of its pairs are labelled unsure.
    """
    last, unsure = metrics[-1], metrics[-1].get("batch_unsure")
    if unsure is None:
        return None
    decided = last["labels"] - (metrics[-2]["labels"] if len(metrics) > 1 else 0) - unsure
    return (last["batch_positives"], decided) if decided > 0 else None


def share_of_matches(metrics: Sequence[Mapping[str, Any]]) -> Estimate | None:
    """Return the share of matches among the decided labels of the last round; None if it has none."""
    batch = batch_of(metrics)
    return None if batch is None else share_estimate(*batch)


def is_stable(metrics: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the models of the last two rounds are known to agree on SETTLED of the labelled pairs or more."""
    agreement = metrics[-1].get(AGREEMENT)
    return agreement is not None and agreement >= SETTLED


def found(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Format how many labels of the last round are matches, for a round that has decided labels."""
    batch = batch_of(metrics)
    assert batch is not None
    share = share_estimate(*batch)
    return f"{batch[0]:,} of the last {batch[1]:,} labels are matches (95%: {share.low:.1%} to {share.high:.1%})"
