"""Evaluate the scores of another program; print and write."""

import al_ray
from al_ray.cli._evaluate.checks import check_options, check_options_of_stated_pairs
from al_ray.cli._evaluate.options import EvaluateCommand
from al_ray.cli._evaluate.printout import print_evaluation, print_metrics
from al_ray.cli._shared.results import write_result
from al_ray.core.errors import BadOption


def run_command(options: EvaluateCommand) -> None:
    """Evaluate --scores, print and write."""
    check_options(options)
    assert options.scores is not None
    if options.heuristic:
        check_options_of_stated_pairs(options)
        metrics = al_ray.evaluate_stated_scores(options.scores)
        print_metrics(metrics)
        write_result(options.out, metrics)
        return
    if options.total_pairs is None:
        raise BadOption("--scores needs --total-pairs N, the total number of pairs, positives included")
    evaluation = al_ray.evaluate_scores(options.scores, options.total_pairs)
    print_evaluation(evaluation)
    write_result(options.out, evaluation.as_dict())
