"""Evaluate a round of a run over all pairs of a split, and compare two runs."""

from dataclasses import replace
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.api.run_reading import Run
from al_ray.api.runs import CLUSTER
from al_ray.cluster.measurement import evaluate_labelled_pairs, evaluate_rounds
from al_ray.cluster.pool.score_fit import check_scoring
from al_ray.cluster.session import session
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.errors import BadOption
from al_ray.core.progress import OnProgress, no_progress
from al_ray.metrics.evaluation import Comparison, Evaluation
from al_ray.metrics.evaluation import compare as compare_evaluations
from al_ray.metrics.handover import RoundName
from al_ray.runs.run_folder import RunFolder, bound_config


def evaluate(
    run: Run,
    split: str = "dev",
    *,
    round: RoundName = None,
    evaluation: EvaluationConfig | None = None,
    cluster: ClusterConfig = CLUSTER,
    on_progress: OnProgress = no_progress,
) -> Evaluation:
    """Evaluate a round of a run over all pairs of a split: average precision and P@R20, each with a 95% interval.

    round: the last complete one by default and for "last"; 0 is the untrained encoder. evaluation: mode and sizes of
    the samples; the run's own by default. Only a sample of pairs that was drawn for it is written, into the run folder
    (evaluation/), so that the next call takes the same. Works in this process, or on Ray (docs/api.md).

    Examples:
        >>> evaluation = al_ray.evaluate(al_ray.load_run(folder / "run"), "test")
        >>> evaluation.exact, evaluation.total_pairs
        (True, 1378)
        >>> bool(0 <= evaluation.average_precision.low <= evaluation.average_precision.value <= 1)
        True

    Raises:
        MissingSplit: if the task has no positive pair in the split.
        BadOption: if the round is not complete.
        BadFile: if the model of the round is missing or damaged.
    """
    of_run = _open_round(run, split, round, evaluation)
    with session(cluster, trainers=0):
        return evaluate_rounds([of_run], cluster, split, on_progress)[0]


def compare(
    run: Run,
    other: Run,
    split: str = "dev",
    *,
    round: RoundName = None,
    evaluation: EvaluationConfig | None = None,
    cluster: ClusterConfig = CLUSTER,
    on_progress: OnProgress = no_progress,
) -> Comparison:
    """Compute the average precision of a run minus that of another run of the same task, on the same pairs.

    The other run is evaluated with the options of the first; see `evaluate` for the arguments.

    Examples:
        >>> run = al_ray.load_run(folder / "run")
        >>> al_ray.compare(run, run, "test").difference
        0.0

    Raises:
        BadOption: if the runs are of different tasks, or the round is not complete in both.
    """
    rounds = [_open_round(one, split, round, evaluation) for one in (run, other)]
    if run.folder.task.digest != other.folder.task.digest:
        raise BadOption(f"{run.path} and {other.path} are runs of different tasks; compare two runs of the same task")
    with session(cluster, trainers=0):
        return compare_evaluations(*evaluate_rounds(rounds, cluster, split, on_progress))


def evaluate_stated_pairs(
    run: Run,
    split: str = "dev",
    *,
    round: RoundName = None,
    cluster: ClusterConfig = CLUSTER,
    on_progress: OnProgress = no_progress,
) -> dict[str, Any]:
    """Evaluate a round of a run on the stated pairs of a split alone; return the metrics by name.

    MAP, MRR and a-F1 of questions and their candidates; accuracy and F1 of a symmetric task.

    Raises:
        BadOption: if the round is not complete.
        MissingSplit: if the split has no stated pairs.
    """
    number = trained_round(run, round)
    run.folder.task.stating(split)
    with session(cluster, trainers=0):
        return evaluate_labelled_pairs(run.config, cluster, run.folder, split, number, on_progress)


def trained_round(run: Run, round: RoundName) -> int:
    """Return the number of a complete round, the last one by default, after a check that its model is there."""
    number = run.complete_round(round)
    if number:
        run.folder.model(number)
        run.folder.check_weights_exist(number)
    return number


def _open_round(
    run: Run, split: str, round: RoundName, evaluation: EvaluationConfig | None
) -> tuple[RunConfig, RunFolder, int]:
    """Return a complete round as `evaluate_rounds` takes it, after a check that the split has positives."""
    number = trained_round(run, round)
    run.folder.task.measurable(split)
    config = run.config if evaluation is None else replace(run.config, evaluation=evaluation)
    if not number and config.scoring.weight and config.scoring != bound_config(run.path).scoring:
        raise BadOption(
            "a neighbourhood (`al-ray evaluate ... --neighbourhood`) needs a trained model, and round 0 is the "
            "untrained encoder; leave one of them out"
        )
    check_scoring(config.scoring, run.folder.task)
    return config, run.folder, number
