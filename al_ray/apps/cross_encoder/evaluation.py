"""Evaluate a trained cross-encoder: over all pairs, on labelled pairs alone, and against a bi-encoder."""

from dataclasses import replace
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.apps.cross_encoder import sharded_scorer
from al_ray.apps.cross_encoder.folder import CrossEncoderFolder
from al_ray.apps.cross_encoder.sharded_scorer import CrossEncoderJob, deploy_scorer
from al_ray.cluster.measurement import deploy_measured, labelled_pair_metrics, score_stated, splits_to_score
from al_ray.cluster.pool.sharded_evaluator import PoolEvaluator
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadOption
from al_ray.core.progress import OnProgress
from al_ray.datasets.task_folder import read_task
from al_ray.metrics.evaluation import Comparison, Evaluation, compare
from al_ray.runs.evaluation_sets import EvaluationSets
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.files import read_json
from al_ray.storage.uri import StoragePath, storage_path


def open_job(
    path: StoragePath, cluster: ClusterConfig, watch: OnProgress, random_pairs: int | None = None
) -> CrossEncoderJob:
    """Open the folder of a cross-encoder with its options and task; random_pairs replaces that option."""
    folder = CrossEncoderFolder(path)
    config = folder.config
    task = read_task(storage_path(config.task))
    if read_json(path / "config.json", ["task_digest"])["task_digest"] != task.digest:
        raise BadOption(f"{path} was made for another task than {config.task} now holds; restore that task")
    if random_pairs is not None:
        config = replace(config, evaluation=replace(config.evaluation, random_pairs=random_pairs))
    job = CrossEncoderJob(folder, config, task, cluster, watch)
    job.model()
    return job


def evaluate_over_all_pairs(job: CrossEncoderJob, split: str) -> Evaluation:
    """Estimate average precision over all pairs of a split from a weighted sample."""
    job.task.measurable(split)
    stored = sharded_scorer.make_evaluation_sets(job, [split])[split]
    with deploy_scorer(job) as scorer:
        return sharded_scorer.evaluate_model(job, scorer, split, stored)


def evaluate_on_labelled_pairs(job: CrossEncoderJob, split: str) -> dict[str, Any]:
    """Evaluate on the labelled pairs of a split; thresholds are chosen on dev if it has labelled pairs."""
    job.task.stating(split)
    with deploy_scorer(job) as scorer:
        scored = score_stated(map(job.task.stating, splits_to_score(job.task, split)), scorer.scores)
    return labelled_pair_metrics(scored, split, job.task, 0.0)


def compare_with_run(job: CrossEncoderJob, run: RunConfig, folder: RunFolder, number: int, split: str) -> Comparison:
    """Compute the AP of the model minus that of a round of a run, both on the same weighted sample of pairs."""
    if folder.task.digest != job.task.digest:
        raise BadOption(f"{job.folder.path} and {folder.path} are of different tasks; give a run of the same task")
    job.task.measurable(split)
    stored = sharded_scorer.make_evaluation_sets(job, [split])[split]
    with deploy_scorer(job) as scorer:
        cross_encoder = sharded_scorer.evaluate_model(job, scorer, split, stored, compared=True)
    config = replace(run, evaluation=replace(run.evaluation, mode="estimate"))
    with deploy_measured(config, job.cluster, job.task, folder.path, job.watch) as pool:
        model = folder.model(number) if number else pool.untrained()
        evaluator = PoolEvaluator(pool, job.task, config, EvaluationSets([folder.path]), {split: stored})
        return compare(cross_encoder, evaluator.evaluate(model, split, compared=True))
