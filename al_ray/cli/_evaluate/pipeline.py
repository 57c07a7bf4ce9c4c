"""Carry out jobs.evaluate: measure, print and write."""

from dataclasses import replace
from typing import Any, Literal

from al_ray.active_learning.config import RunConfig
from al_ray.apps.cross_encoder import evaluation as cross_encoder_evaluation
from al_ray.apps.cross_encoder.folder import is_cross_encoder
from al_ray.cli._evaluate import calibration as evaluate_calibration
from al_ray.cli._evaluate import labelled_pairs as evaluate_heuristic
from al_ray.cli._evaluate import printout as evaluate_words
from al_ray.cli._evaluate.options import Options
from al_ray.cli._shared.progress import Progress
from al_ray.cluster.measurement import evaluate_labelled_pairs, evaluate_round, evaluate_rounds
from al_ray.cluster.session import refuse_lost, session
from al_ray.core.errors import BadOption
from al_ray.core.rng import generator
from al_ray.datasets.tables.score_tables import read_scores
from al_ray.datasets.task_folder import read_task
from al_ray.metrics.average_precision import StratumSummary, count_scores
from al_ray.metrics.evaluation import Comparison, Evaluation, compare, evaluate_counts
from al_ray.runs.run_folder import RunFolder, bound_config
from al_ray.storage.files import refuse_folder, write_json
from al_ray.storage.uri import StoragePath, storage_path


def carry_out(asked: Options) -> None:
    """Measure, print, write."""
    refuse_mixed(asked)
    rules = evaluate_calibration.rules_of(asked.threshold_for, asked.split)
    if asked.run is not None and is_cross_encoder(asked.run):
        of_concat(asked, asked.run)
        return
    if asked.heuristic:
        evaluate_heuristic.told(*heuristic(asked))
        return
    if asked.run is not None and asked.against is not None:
        found, home_of = of_two(asked, asked.run, asked.against)
        evaluate_words.tell_difference(found)
        write_json(home_of, found.as_dict())
        print(f"wrote {home_of}")
        return
    made, out = of_run(asked, asked.run) if asked.run is not None else of_scores(asked)
    evaluate_words.tell(made)
    content = made.as_dict()
    if asked.run is not None and rules:
        _, folder, number = complete_round(asked, asked.run)
        content["thresholds"] = evaluate_calibration.thresholds(rules, made, folder, number)
    if out is not None:
        write_json(out, content)
        print(f"wrote {out}")
        if made.reliability is not None:
            evaluate_calibration.told(made.reliability, made, out)


def refuse_mixed(asked: Options) -> None:
    """Options that do not go together."""
    if (asked.run is None) == (asked.scores is None):
        raise BadOption("give either --run RUN or --scores FILE; see --help")
    of_runs = asked.round, asked.random_pairs, asked.exact or None, asked.estimate or None
    if asked.scores is not None and of_runs != (None,) * 4:
        raise BadOption("--round, --exact, --estimate and --random-pairs go with --run; leave them out with --scores")
    if asked.run is not None and asked.total_pairs is not None:
        raise BadOption("--total-pairs goes with --scores; leave it out with --run")
    if asked.scores is not None and asked.against is not None:
        raise BadOption("--against goes with --run; leave it out with --scores")
    if asked.out is not None:
        refuse_lost(asked.out)
        refuse_folder("--out", asked.out)
    if asked.threshold_for and (asked.run is None or asked.heuristic or asked.against is not None):
        raise BadOption("--threshold-for goes with --run RUN, and not with --heuristic or --against")
    if asked.heuristic and asked.against is not None:
        raise BadOption("--against compares average precision over all pairs; leave it out with --heuristic")


def of_concat(asked: Options, path: StoragePath) -> None:
    """Evaluate a cross-encoder, print and write the results."""
    if asked.round is not None or asked.exact or asked.threshold_for:
        raise BadOption(f"{path} holds a cross-encoder: leave out --round, --exact and --threshold-for")
    other = None if asked.against is None else complete_round(asked, asked.against)
    bench = cross_encoder_evaluation.open_job(path, asked.cluster, Progress(), asked.random_pairs)
    bench.task.split(asked.split)
    with session(asked.cluster, asked.cluster.shards):
        if asked.heuristic:
            found = cross_encoder_evaluation.evaluate_on_labelled_pairs(bench, asked.split)
            evaluate_heuristic.told(found, asked.out or path / f"heuristic-{asked.split}.json")
            return
        if other is None:
            made = cross_encoder_evaluation.evaluate_over_all_pairs(bench, asked.split)
            evaluate_words.tell(made)
            out = asked.out or path / f"evaluation-{asked.split}.json"
        else:
            made = cross_encoder_evaluation.compare_with_run(bench, *other, asked.split)
            evaluate_words.tell_difference(made)
            out = asked.out or path / f"evaluation-{asked.split}-against-{other[1].path.resolve().name}.json"
    write_json(out, made.as_dict())
    print(f"wrote {out}")


def of_run(asked: Options, path: StoragePath) -> tuple[Evaluation, StoragePath]:
    """Measure a round of a run; the evaluation, and the file it belongs in."""
    config, folder, number = round_of(asked, path)
    if asked.threshold_for and not number:
        raise BadOption(f"--threshold-for is kept in a round's scorer.json, and round 0 of {path} has none")
    with session(asked.cluster):
        made = evaluate_round(config, asked.cluster, folder, asked.split, number, Progress())
    return made, asked.out or home(asked, folder) / f"evaluation-{asked.split}{'-exact' if made.exact else ''}.json"


def of_two(asked: Options, path: StoragePath, other: StoragePath) -> tuple[Comparison, StoragePath]:
    """Compare a round of a run with one of another run of its task; the difference, and the file it belongs in."""
    one, two = round_of(asked, path), round_of(asked, other)
    if one[1].task.digest != two[1].task.digest:
        raise BadOption(f"{path} and {other} are runs of different tasks; --against takes another run of the same task")
    with session(asked.cluster):
        made = compare(*evaluate_rounds([one, two], asked.cluster, asked.split, Progress()))
    name = f"evaluation-{asked.split}-against-{other.resolve().name}.json"
    return made, asked.out or home(asked, one[1]) / name


def round_of(asked: Options, path: StoragePath) -> tuple[RunConfig, RunFolder, int]:
    """The round of a run that is asked for, fit to be measured over all pairs."""
    if asked.exact and asked.estimate:
        raise BadOption("--exact and --estimate exclude one another; give one of them, or neither")
    config, folder, number = complete_round(asked, path)
    mode: Literal["auto", "exact", "estimate"] = "exact" if asked.exact else "estimate" if asked.estimate else "auto"
    folder.task.measurable(asked.split)
    sampled = config.evaluation.random_pairs if asked.random_pairs is None else asked.random_pairs
    return replace(config, evaluation=replace(config.evaluation, mode=mode, random_pairs=sampled)), folder, number


def complete_round(asked: Options, path: StoragePath) -> tuple[RunConfig, RunFolder, int]:
    """The run, and the number of the round that is meant; refused before any actor: it may be damaged."""
    config = bound_config(path)
    folder = RunFolder(path, read_task(storage_path(config.task)))
    last = folder.last
    number = last if asked.round is None else asked.round
    if not 0 <= number <= last:
        raise BadOption(f"--round {number}: {path} has complete rounds 1 to {last}, and 0 is the untrained encoder")
    if number:
        folder.model(number)
    folder.refuse_lost(number)
    return config, folder, number


def home(asked: Options, folder: RunFolder) -> StoragePath:
    """The folder that figures of a run belong in."""
    return folder.path if asked.round is None else folder.round(asked.round)


def heuristic(asked: Options) -> tuple[dict[str, Any], StoragePath | None]:
    """Measure stated pairs; the figures, and the file they belong in."""
    if asked.exact or asked.estimate or asked.total_pairs is not None:
        raise BadOption("--exact, --estimate and --total-pairs are about all pairs; leave them out with --heuristic")
    if asked.run is None:
        assert asked.scores is not None
        return evaluate_heuristic.of_file(asked.scores), asked.out
    config, folder, number = complete_round(asked, asked.run)
    folder.task.stating(asked.split)
    with session(asked.cluster):
        found = evaluate_labelled_pairs(config, asked.cluster, folder, asked.split, number, Progress())
    return found, asked.out or home(asked, folder) / f"heuristic-{asked.split}.json"


def of_scores(asked: Options) -> tuple[Evaluation, StoragePath | None]:
    """Measure scores made elsewhere: near negatives were all taken, random ones stand for all others."""
    assert asked.scores is not None
    if asked.total_pairs is None:
        raise BadOption("--scores needs --total-pairs N: how many pairs there are in all, positives included")
    parts = read_scores(asked.scores)
    others = asked.total_pairs - len(parts["positive"]) - len(parts["near"])
    if others < len(parts["random"]):
        raise BadOption(f"--total-pairs {asked.total_pairs:,} is less than the pairs of {asked.scores}; give all pairs")
    extents = [
        StratumSummary("near", len(parts["near"]), len(parts["near"])),
        StratumSummary("random", len(parts["random"]), others),
    ]
    counts = count_scores(parts["positive"], [parts["near"], parts["random"]])
    made = evaluate_counts(asked.scores.name, counts, extents, None, generator(0, "interval-scores"))
    return made, asked.out
