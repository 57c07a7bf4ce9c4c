"""What `jobs.evaluate` prints of an evaluation and of a comparison."""

from al_ray.metrics.average_precision import Estimate
from al_ray.metrics.evaluation import Comparison, Evaluation


def tell(made: Evaluation) -> None:
    """Print an evaluation."""
    for name, number in (("AP", made.average_precision), ("P@R20", made.precision_at_recall_20)):
        print(f"{name} {100 * number.value:.2f}% ({ends(number)})")
    questions = made.over_queries.interval if made.over_queries else None
    if questions is not None:
        print(f"AP had other questions been asked: {ends(questions)}")
    how = "every pair counted" if made.exact else "estimated from a weighted sample"
    print(f"{made.split}: {made.positives:,} positives of {made.total_pairs:,} pairs, {how}")
    for words in made.warnings:
        print(f"warning: {words}")


def tell_difference(made: Comparison) -> None:
    """Print what two runs differ by."""
    print(f"{made.split}: AP is {100 * made.difference:+.2f} points from that of the other run")
    sampled = "had other pairs been sampled"
    for words, interval in ((sampled, made.over_samples), ("had other questions been asked", made.over_queries)):
        if interval is not None and not (words == sampled and made.exact):
            zero = "holds 0" if interval.low <= 0 <= interval.high else "excludes 0"
            print(f"{words}: {ends(interval)}, which {zero}")
    if made.exact:
        print("every pair counted: no difference comes from sampling pairs")


def ends(interval: Estimate) -> str:
    """A 95% interval in percent."""
    return f"95%: {100 * interval.low:.2f} to {100 * interval.high:.2f}"
