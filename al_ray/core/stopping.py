"""When a run ends before its last round: by what its complete rounds say, so that the same command ends again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from al_ray.core.config import STRATIFIED, RunConfig
from al_ray.core.errors import BadOption
from al_ray.core.limits import refuse_beyond


@dataclass(frozen=True)
class StopConfig:
    """When to end early. No part of config.json: the run goes on when a limit is raised, as if it had not ended."""

    labels: int | None = None
    """End after the round in which so many labels are reached."""
    hours: float | None = None
    """End after the round with which all stages of the complete rounds have taken so many hours, labelling included."""
    patience: int | None = None
    """End after so many rounds without a better average precision on dev, or where dev is not measured on the first of
    --evaluation.splits."""

    def __post_init__(self) -> None:
        """Refuse what cannot be, before any work."""
        refuse_beyond((
            (self.labels, "--stop.labels", 1, 2**62),
            (self.hours, "--stop.hours", 0, 1e6),
            (self.patience, "--stop.patience", 1, 10_000),
        ))  # fmt: skip

    def refuse_unmeasured(self, config: RunConfig) -> None:
        """BadOption for patience where no round has an average precision."""
        if self.patience is not None and not config.evaluation.splits:
            raise BadOption("--stop.patience waits for a better average precision; give --evaluation.splits dev")


NEVER = StopConfig()


def ended(config: RunConfig, stop: StopConfig, metrics: Sequence[Mapping[str, Any]]) -> str | None:
    """Why a run that has come to its end has fewer rounds than it was told; None when it has them all."""
    rounds = f"round {len(metrics)} of {len(config.batches)}"
    if len(metrics) == len(config.batches):
        return None
    limit = why_stop(stop, metrics)
    if limit is not None:
        return f"stopped after {rounds} by {limit}; with a higher limit, or none, the same command goes on"
    said = f"no fresh pair after {rounds}: the run ends below its budget"
    if config.search.kind == "exact" or config.strategy in ("random", "stated", *STRATIFIED):
        return said
    return f"{said} (its candidates are the {config.search.neighbours} nearest of each text: --search.neighbours)"


def why_stop(config: StopConfig, metrics: Sequence[Mapping[str, Any]]) -> str | None:
    """Of the lines of a run's complete rounds (metrics.jsonl): the limit that is reached, in words; None for none."""
    if not metrics:
        return None
    labels, hours = metrics[-1]["labels"], sum(sum(line["seconds"].values()) for line in metrics) / 3600
    if config.labels is not None and labels >= config.labels:
        return f"--stop.labels {config.labels}: {labels:,} are bought"
    if config.hours is not None and hours >= config.hours:
        return f"--stop.hours {config.hours:g}: its rounds took {hours:.2f}"
    # The first of equal ones is the best: what is no better does not wait longer.
    best = int(np.argmax([line["average_precision"] or 0.0 for line in metrics]))
    waited = len(metrics) - 1 - best
    if config.patience is not None and waited >= config.patience:
        return f"--stop.patience {config.patience}: average precision is no better since round {best + 1}"
    return None
