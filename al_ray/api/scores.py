"""Evaluate the scores of another program, which needs neither texts nor a model."""

from pathlib import Path
from typing import Any

from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.rng import generator
from al_ray.datasets.tables.score_tables import read_labelled_scores, read_scores
from al_ray.metrics.average_precision import StratumSummary, count_scores
from al_ray.metrics.evaluation import Evaluation, evaluate_counts
from al_ray.metrics.labelled_pairs import evaluate_labelled_pairs


def evaluate_scores(scores: str | Path, total_pairs: int) -> Evaluation:
    """Evaluate scores of all positives, all near negatives, and a random sample of the other negatives.

    scores: a Parquet file with the columns `score` and `stratum` (positive, near or random). total_pairs: all pairs,
    positives included, for which the random ones stand.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> strata = ["positive", "positive", "near", "random"]
        >>> pq.write_table(pa.table({"score": [0.9, 0.5, 0.7, 0.1], "stratum": strata}), folder / "scores.parquet")
        >>> al_ray.evaluate_scores(folder / "scores.parquet", total_pairs=100).positives
        2

    Raises:
        BadFile: if the file cannot be read, or has no positive pair.
        BadOption: if there are fewer pairs than the file has.
    """
    path = Path(scores)
    parts = read_scores(path)
    others = total_pairs - len(parts["positive"]) - len(parts["near"])
    if others < len(parts["random"]):
        raise BadOption(f"{option('total_pairs', total_pairs)} is less than the pairs of {path}; give all pairs")
    strata = [
        StratumSummary("near", len(parts["near"]), len(parts["near"])),
        StratumSummary("random", len(parts["random"]), others),
    ]
    counts = count_scores(parts["positive"], [parts["near"], parts["random"]])
    return evaluate_counts(path.name, counts, strata, None, generator(0, "interval-scores"))


def evaluate_stated_scores(scores: str | Path) -> dict[str, Any]:
    """Return MAP, MRR, a-F1, accuracy and F1 of stated pairs alone, each in [0, 1].

    scores: a Parquet file with the columns `score` (a logit), `query` and `label` (0 or 1). The best thresholds are
    chosen on the same pairs, for there are no others.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> table = pa.table({"score": [2.0, -1.0, 0.5], "query": ["a", "a", "b"], "label": [1, 0, 1]})
        >>> pq.write_table(table, folder / "stated.parquet")
        >>> al_ray.evaluate_stated_scores(folder / "stated.parquet")["scores"]
        'stated.parquet'

    Raises:
        BadFile: if the file cannot be read, or has no pair.
    """
    path = Path(scores)
    pairs = read_labelled_scores(path)
    metrics = evaluate_labelled_pairs(pairs, pairs, True, 0.0)
    return {"scores": path.name, **metrics, "thresholds_chosen_on": path.name}
