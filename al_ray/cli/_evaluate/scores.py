"""Evaluate the scores of another program, which needs neither texts nor a model; print and write."""

from pathlib import Path
from typing import Any

from al_ray.cli._evaluate.checks import check_options, refuse_all_pairs
from al_ray.cli._evaluate.options import EvaluateCommand
from al_ray.cli._evaluate.printout import print_evaluation, print_metrics
from al_ray.cli._shared.results import write_result
from al_ray.core.errors import BadOption
from al_ray.core.rng import generator
from al_ray.datasets.tables.score_tables import read_scored_pairs, read_scores
from al_ray.metrics.average_precision import StratumSummary, count_scores
from al_ray.metrics.evaluation import Evaluation, evaluate_counts
from al_ray.metrics.labelled_pairs import evaluate_labelled_pairs
from al_ray.storage.uri import StoragePath


def run_command(options: EvaluateCommand) -> None:
    """Evaluate --scores, print and write."""
    check_options(options)
    assert options.scores is not None
    if options.heuristic:
        refuse_all_pairs(options)
        metrics = evaluate_scored_pairs(options.scores)
        print_metrics(metrics)
        write_result(options.out, metrics)
    else:
        evaluation, out = evaluate_scores(options)
        print_evaluation(evaluation)
        write_result(out, evaluation.as_dict())


def evaluate_scored_pairs(path: Path) -> dict[str, Any]:
    """Return the metrics of stated pairs with the scores of another program."""
    pairs = read_scored_pairs(path)
    # The best thresholds are chosen on the same pairs, for there are no others.
    metrics = evaluate_labelled_pairs(pairs, pairs, True, 0.0)
    return {"scores": path.name, **metrics, "thresholds_chosen_on": path.name}


def evaluate_scores(options: EvaluateCommand) -> tuple[Evaluation, StoragePath | None]:
    """Evaluate a user's scores of all positives, all near negatives, and a random sample of the other negatives."""
    assert options.scores is not None
    if options.total_pairs is None:
        raise BadOption("--scores needs --total-pairs N, the total number of pairs, positives included")
    parts = read_scores(options.scores)
    others = options.total_pairs - len(parts["positive"]) - len(parts["near"])
    if others < len(parts["random"]):
        raise BadOption(
            f"--total-pairs {options.total_pairs:,} is less than the pairs of {options.scores}; give all pairs"
        )
    strata = [
        StratumSummary("near", len(parts["near"]), len(parts["near"])),
        StratumSummary("random", len(parts["random"]), others),
    ]
    counts = count_scores(parts["positive"], [parts["near"], parts["random"]])
    return evaluate_counts(options.scores.name, counts, strata, None, generator(0, "interval-scores")), options.out
