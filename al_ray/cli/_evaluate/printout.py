"""Print an evaluation, a comparison, and metrics of labelled pairs."""

from typing import Any

from al_ray.api.evaluation_values import FEWEST_QUERIES, Comparison, Estimate, Evaluation
from al_ray.cli._shared.called import as_called

_NO_INTERVAL = f"no bootstrap interval over queries: fewer than {FEWEST_QUERIES} of them have a match"
_NARROW = "it is too narrow for 95%, because it leaves out what the pairs that were not sampled may hold"


def print_evaluation(evaluation: Evaluation) -> None:
    """Print an evaluation over all pairs."""
    for name, estimate in (("AP", evaluation.average_precision), ("P@R20", evaluation.precision_at_recall_20)):
        print(f"{name} {100 * estimate.value:.2f}% ({_interval(estimate)})")
    if evaluation.over_queries:
        interval = evaluation.over_queries.interval
        print(f"AP, {_NO_INTERVAL if interval is None else f'bootstrap interval over queries: {_interval(interval)}'}")
    how = "every pair counted" if evaluation.exact else "estimated from a weighted sample"
    print(f"{evaluation.split}: {evaluation.positives:,} positives of {evaluation.total_pairs:,} pairs, {how}")
    for warning in evaluation.warnings:
        print(f"warning: {as_called(warning)}")


def print_difference(comparison: Comparison, one: str, other: str) -> None:
    """Print the difference of two runs. one, other: what ranks the pairs, in words."""
    print(f"{comparison.split}: AP of {one} less AP of {other}: {100 * comparison.difference:+.2f} points")
    if not comparison.exact:
        print(f"bootstrap interval over sampled pairs: {_ends(comparison.over_samples)}; {_NARROW}")
    if (interval := comparison.over_queries) is None:
        print(_NO_INTERVAL)
    else:
        level = f"{'not ' if _includes_zero(interval) else ''}significant at the 5% level"
        print(f"bootstrap interval over queries: {_ends(interval)} ({level})")
    if comparison.exact:
        print("every pair counted: no difference comes from sampling pairs")
    for name, warnings in zip((one, other), comparison.warnings, strict=True):
        for warning in warnings:
            print(f"warning: {name}: {as_called(warning)}")


def print_metrics(metrics: dict[str, Any]) -> None:
    """Print metrics of labelled pairs, a line for each."""
    for name, value in metrics.items():
        share = isinstance(value, float) and not name.endswith("_threshold")
        print(f"{name} {f'{100 * value:.2f}%' if share else '-' if value is None else value}")


def _includes_zero(interval: Estimate) -> bool:
    return interval.low <= 0 <= interval.high


def _ends(interval: Estimate) -> str:
    return f"{_interval(interval)}, which {'includes' if _includes_zero(interval) else 'excludes'} 0"


def _interval(interval: Estimate) -> str:
    return f"95%: {100 * interval.low:.2f} to {100 * interval.high:.2f}"
