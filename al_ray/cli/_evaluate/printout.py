"""Print an evaluation, a comparison, and metrics of labelled pairs."""

from typing import Any

from al_ray.metrics.average_precision import Estimate
from al_ray.metrics.bootstrap import FEWEST_QUERIES
from al_ray.metrics.evaluation import Comparison, Evaluation

_NO_INTERVAL = f"no bootstrap interval over queries: fewer than {FEWEST_QUERIES} of them have a match"


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
        print(f"warning: {warning}")


def print_difference(comparison: Comparison, one: str, other: str) -> None:
    """Print the difference of two runs. one, other: what ranks the pairs, in words."""
    print(f"{comparison.split}: AP of {one} less AP of {other}: {100 * comparison.difference:+.2f} points")
    over_pairs = None if comparison.exact else comparison.over_samples
    for name, interval in (("sampled pairs", over_pairs), ("queries", comparison.over_queries)):
        if interval is not None:
            zero = "includes 0 (not significant" if interval.low <= 0 <= interval.high else "excludes 0 (significant"
            print(f"bootstrap interval over {name}: {_interval(interval)}, which {zero} at the 5% level)")
    if comparison.over_queries is None:
        print(_NO_INTERVAL)
    if comparison.exact:
        print("every pair counted: no difference comes from sampling pairs")


def print_metrics(metrics: dict[str, Any]) -> None:
    """Print metrics of labelled pairs, a line for each."""
    for name, value in metrics.items():
        share = isinstance(value, float) and not name.endswith("_threshold")
        print(f"{name} {f'{100 * value:.2f}%' if share else '-' if value is None else value}")


def _interval(interval: Estimate) -> str:
    return f"95%: {100 * interval.low:.2f} to {100 * interval.high:.2f}"
