"""Whether more labels are worth their price, from the metrics of complete rounds: "label more" or "enough", and why."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from al_ray.active_learning.stopping import (
    ALL_LABELLED,
    StopConfig,
    all_labelled,
    batch_of,
    found,
    is_stable,
    limit_reached,
    points,
    share_of_matches,
)
from al_ray.metrics.round_comparison import AGREEMENT, GAIN, INTERVAL
from al_ray.metrics.shares import next_count

ADVICE_SHARE = 0.02
ADVICE = StopConfig(gain=0.02, match_share=ADVICE_SHARE)
"""The limits at which the advice is "enough", where a run has none of its own."""
LEAST_AP = 0.2
"""Average precision from which a small change of it is a reason to stop."""


def outlook(metrics: Sequence[Mapping[str, Any]], stop: StopConfig, size: int | None = None) -> Iterator[str]:
    """Yield lines of advice after the last complete round: its result, and what the next `size` pairs may bring.

    metrics: lines of metrics.jsonl. size: pairs of the next round; as many as those of the last one if None. The first
    line begins with "label more" or "enough". If no pair is left, nothing is said of the next ones. Nothing is yielded
    before the first round is complete.
    """
    if not metrics:
        return
    if all_labelled(metrics):
        yield f"enough, because {ALL_LABELLED}: {metrics[-1]['positives']:,} match"
        yield from _measured(metrics[-1].get(INTERVAL))
        return
    limit = limit_reached(stop, metrics)
    # A change of an AP of a few percent is small in points whatever it means.
    is_low = (metrics[-1]["average_precision"] or 0.0) < LEAST_AP
    settled = limit_reached(replace(ADVICE, gain=None) if is_low else ADVICE, metrics)
    if limit is not None:
        yield f"enough, because of a limit of the run ({limit.name} {limit.value:,g}): {limit.reason}"
    elif settled is not None:
        yield f"enough, because {settled.reason}{_stable(metrics) if settled.name == 'match_share' else ''}"
    else:
        yield f"label more, because {_open(metrics)}"
        if not is_low:
            yield from _uncertain(metrics[-1].get(GAIN))
    batch = batch_of(metrics)
    if batch is not None:
        size = min(batch[1] if size is None else size, metrics[-1].get("unlabelled", math.inf))
        low, high = next_count(*batch, size)
        yield f"if matches are as frequent in the next {size:,} pairs, {low:,} to {high:,} of them match"
    yield from _measured(metrics[-1].get(INTERVAL))


def _measured(interval: Mapping[str, float] | None) -> Iterator[str]:
    """Yield the average precision of the last round, if it is known with an interval."""
    if interval is not None:
        value, low, high = (100 * interval[end] for end in ("value", "low", "high"))
        yield f"average precision is {value:.1f}% (95%, over queries: {low:.1f} to {high:.1f})"


def _stable(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Return the agreement on which a limit of the share of matches rests."""
    return f", and the last two models agree on {metrics[-1][AGREEMENT]:.1%} of the labelled pairs"


def _uncertain(change: Mapping[str, float] | None) -> Iterator[str]:
    """Yield the option that would end the run by a change of average precision that may be zero."""
    if change is not None and change["low"] <= 0 <= change["high"]:
        gain = math.floor(100 * max(-change["low"], change["high"]) + 1) / 100
        yield (
            f"average precision changed by {points(change)} since the round before, which may be no change: "
            f"`al_ray.run` would end here with `stop.gain={gain:g}`"
        )


def _open(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Return why more labels may help."""
    change, agreement, share = metrics[-1].get(GAIN), metrics[-1].get(AGREEMENT), share_of_matches(metrics)
    if change is not None and change["low"] > 0:
        return f"the last labels changed average precision by {points(change)}"
    if len(metrics) > 1 and agreement is not None and not is_stable(metrics):
        return f"the last two models still differ on {1 - agreement:.1%} of the labelled pairs"
    if share is not None:
        # Few matches are a reason to stop, once the interval is narrow enough.
        rare = share.value < ADVICE_SHARE
        return f"these labels do not show yet whether matches are rare: {found(metrics)}" if rare else found(metrics)
    return "nothing known speaks against it"
