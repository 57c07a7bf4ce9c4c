"""Early stopping, decided by the metrics of complete rounds alone, so that the same command stops again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.core.config.bounds import Between, Lifted, check_bounds
from al_ray.core.errors import BadOption
from al_ray.metrics.round_comparison import GAIN


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
    patience, lies between -gain and gain. A small split has wide intervals, and they do not tell of the sampling of
    pairs. none lifts an earlier limit."""

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds."""
        check_bounds(self, "--stop.")

    def refuse_unmeasured(self, config: RunConfig) -> None:
        """Raise BadOption for patience or gain when no round measures average precision."""
        if config.evaluation.splits:
            return
        if isinstance(self.patience, int):
            raise BadOption("--stop.patience waits for a better average precision; give --evaluation.splits dev")
        if isinstance(self.gain, int | float):
            raise BadOption("--stop.gain compares average precision; give --evaluation.splits dev")


NEVER = StopConfig()


def end_reason(config: RunConfig, stop: StopConfig, metrics: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why a finished run has fewer rounds than --rounds; None when it has them all."""
    rounds = f"round {len(metrics)} of {len(config.batches)}"
    if len(metrics) == len(config.batches):
        return None
    limit = limit_reached(stop, metrics)
    if limit is not None:
        other = "lower" if limit.startswith("--stop.gain") else "higher"
        return f"stopped after {rounds} by {limit}; to resume, rerun the command with a {other} value, or none"
    reason = f"no unlabelled candidate is left after {rounds}: the run ends below its budget"
    if config.search.kind == "exact" or not STRATEGIES[config.strategy].searches:
        return reason
    return f"{reason} (its candidates are the {config.search.neighbours} nearest of each text: --search.neighbours)"


def limit_reached(config: StopConfig, metrics: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the limit that the complete rounds (lines of metrics.jsonl) have reached, in words; None for none."""
    if not metrics:
        return None
    labels, hours = metrics[-1]["labels"], sum(sum(line["seconds"].values()) for line in metrics) / 3600
    if isinstance(config.labels, int) and labels >= config.labels:
        return f"--stop.labels {config.labels}: the run has {labels:,}"
    if isinstance(config.hours, int | float) and hours >= config.hours:
        return f"--stop.hours {config.hours:g}: the rounds took {hours:.2f}"
    # argmax is the first of equal values: a round that is only as good does not reset patience.
    best = int(np.argmax([line["average_precision"] or 0.0 for line in metrics]))
    waited = len(metrics) - 1 - best
    if isinstance(config.patience, int) and waited >= config.patience:
        return f"--stop.patience {config.patience}: average precision has not improved since round {best + 1}"
    change = metrics[-1].get(GAIN)
    if isinstance(config.gain, int | float) and change is not None:
        value, low, high = change["value"], change["low"], change["high"]
        if -config.gain < low and high < config.gain:
            points = f"{100 * value:+.1f} points (95%: {100 * low:+.1f} to {100 * high:+.1f})"
            return f"--stop.gain {config.gain:g}: average precision changed by {points} since the round before"
    return None
