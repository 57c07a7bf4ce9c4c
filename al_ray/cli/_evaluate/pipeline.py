"""Evaluate a run or a cross-encoder; print and write."""

from dataclasses import replace
from typing import Any, Literal

from al_ray.api import evaluation as api
from al_ray.api.cross_encoders import is_cross_encoder, open_cross_encoder
from al_ray.api.evaluation_values import Comparison, Evaluation
from al_ray.api.files import StoragePath
from al_ray.api.run_reading import Run, load_run
from al_ray.cli._evaluate.calibration import choose_and_write, parse_rules, print_reliability
from al_ray.cli._evaluate.checks import check_options, check_options_of_stated_pairs
from al_ray.cli._evaluate.options import EvaluateCommand
from al_ray.cli._evaluate.printout import print_difference, print_evaluation, print_metrics
from al_ray.cli._shared.option_types import with_guarantee
from al_ray.cli._shared.progress import Progress
from al_ray.cli._shared.results import write_result
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.errors import BadOption


def run_command(options: EvaluateCommand) -> None:
    """Evaluate, print and write."""
    check_options(options)
    rules = parse_rules(with_guarantee(options.threshold_for, options.guarantee), options.measured)
    if options.run is not None and is_cross_encoder(options.run):
        evaluate_cross_encoder(options, options.run)
    elif options.heuristic:
        metrics, out = evaluate_stated_pairs(options)
        print_metrics(metrics)
        write_result(out, metrics)
    elif options.run is not None and options.against is not None:
        comparison, out = compare_runs(options, options.run, options.against)
        print_difference(comparison, f"{options.run}{_in_words(options)}", str(options.against))
        write_result(out, comparison.as_dict())
    else:
        assert options.run is not None
        evaluation, out = evaluate_run(options, options.run)
        print_evaluation(evaluation)
        if options.estimate and evaluation.exact:
            print("--estimate: its sample has every pair, as there are so few; with fewer --random-pairs it has not")
        content = evaluation.as_dict()
        if options.round is None:
            print_other_model(options.run)
        if rules:
            run = load_run(options.run)
            number = run.complete_round(options.round)
            content["thresholds"] = choose_and_write(rules, evaluation, run, number)
        write_result(out, content)
        if out is not None and evaluation.reliability is not None:
            print_reliability(evaluation.reliability, evaluation, out, _by_scores(options))


def print_other_model(path: StoragePath) -> None:
    """Print which model a run hands over, if that is not its last one, which is measured by default."""
    choice = load_run(path).other_choice()
    if choice is not None:
        print(
            f"this is round {choice.last}; match, serve and export take {choice.words}, and --round {choice.round} "
            "measures it"
        )


def evaluate_cross_encoder(options: EvaluateCommand, path: StoragePath) -> None:
    """Evaluate a cross-encoder, print and write."""
    if options.round is not None or options.exact or options.threshold_for or options.neighbourhood is not None:
        raise BadOption(
            f"{path} holds a cross-encoder: leave out --round, --exact, --threshold-for and --neighbourhood"
        )
    other = None if options.against is None else load_run(options.against)
    if other is not None:
        api.trained_round(other, None)
    model = open_cross_encoder(path, options.measured, options.random_pairs, options.cluster, Progress())
    if options.heuristic:
        content, name = model.evaluate_stated(), "heuristic-{}"
        print_metrics(content)
    elif other is None:
        evaluation, name = model.evaluate(), "evaluation-{}"
        print_evaluation(evaluation)
        content = evaluation.as_dict()
    else:
        comparison = model.compare(other)
        print_difference(comparison, str(path), str(other.path))
        content, name = comparison.as_dict(), f"evaluation-{{}}-against-{other.path.resolve().name}"
    write_result(options.out or path / f"{name.format(options.measured)}.json", content)


def evaluate_run(options: EvaluateCommand, path: StoragePath) -> tuple[Evaluation, StoragePath]:
    """Evaluate a round of a run; return the evaluation and the file to write it to."""
    run = load_run(path)
    if options.threshold_for and not run.complete_round(options.round):
        raise BadOption(f"--threshold-for writes to a round's scorer.json, and round 0 of {path} has none")
    evaluation = api.evaluate(
        _scored(options, run), options.measured, round=options.round, evaluation=sampling(options, run),
        cluster=options.cluster, on_progress=Progress(),
    )  # fmt: skip
    name = f"evaluation-{options.measured}{_by_scores(options)}{'-exact' if evaluation.exact else ''}.json"
    return evaluation, options.out or folder_of(options, run) / name


def compare_runs(options: EvaluateCommand, path: StoragePath, other: StoragePath) -> tuple[Comparison, StoragePath]:
    """Compare a round of two runs of a task; return the difference and the file to write it to."""
    run = load_run(path)
    comparison = api.compare(
        _scored(options, run), load_run(other), options.measured, round=options.round,
        evaluation=sampling(options, run), cluster=options.cluster, on_progress=Progress(),
    )  # fmt: skip
    name = f"evaluation-{options.measured}{_by_scores(options)}-against-{other.resolve().name}.json"
    return comparison, options.out or folder_of(options, run) / name


def _scored(options: EvaluateCommand, run: Run) -> Run:
    """Return the run, which is ranked by the scores that are asked for."""
    if options.neighbourhood is None:
        return run
    return run.with_neighbourhood(options.neighbourhood, options.neighbourhood_sides)


def _in_words(options: EvaluateCommand) -> str:
    """Return which scores are asked for; empty for the run's own."""
    if options.neighbourhood is None:
        return ""
    if not options.neighbourhood:
        return " by the cosine"
    sides = {"both": " of both sides", "left": " of the left side", None: ""}[options.neighbourhood_sides]
    return f" by scores with a = {options.neighbourhood:g}{sides}"


def _by_scores(options: EvaluateCommand) -> str:
    """Return the part of a file's name that tells of scores other than the run's own."""
    if options.neighbourhood is None:
        return ""
    sides = "" if options.neighbourhood_sides is None else f"-{options.neighbourhood_sides}"
    return f"-neighbourhood-{options.neighbourhood:g}{sides}"


def sampling(options: EvaluateCommand, run: Run) -> EvaluationConfig:
    """Return the options of the run's evaluation, with those of the command line."""
    if options.exact and options.estimate:
        raise BadOption("--exact and --estimate exclude each other; give one of them, or neither")
    mode: Literal["auto", "exact", "estimate"] = (
        "exact" if options.exact else "estimate" if options.estimate else "auto"
    )
    config = run.config.evaluation
    if options.exact and options.random_pairs is not None:
        raise BadOption("--random-pairs goes with an estimate, and --exact counts every pair; leave one of them out")
    pairs = config.random_pairs if options.random_pairs is None else options.random_pairs
    return replace(config, mode=mode, random_pairs=pairs)


def folder_of(options: EvaluateCommand, run: Run) -> StoragePath:
    """Return the folder to which evaluations of a run are written."""
    return run.path if options.round is None else run.folder.round(run.complete_round(options.round))


def evaluate_stated_pairs(options: EvaluateCommand) -> tuple[dict[str, Any], StoragePath]:
    """Evaluate stated pairs; return the metrics and the file to write them to."""
    check_options_of_stated_pairs(options)
    assert options.run is not None
    run = load_run(options.run)
    metrics = api.evaluate_stated_pairs(
        run, options.measured, round=options.round, cluster=options.cluster, on_progress=Progress()
    )
    return metrics, options.out or folder_of(options, run) / f"heuristic-{options.measured}.json"
