"""Train a cross-encoder on existing labels, and evaluate it, alone and as the second stage after a bi-encoder."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.apps.cross_encoder import sharded_scorer
from al_ray.apps.cross_encoder.folder import CrossEncoderFolder
from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.apps.cross_encoder.sharded_scorer import CrossEncoderJob, ShardedPairScorer
from al_ray.cluster.places import Places
from al_ray.cluster.pool.sharded_evaluator import make_evaluator
from al_ray.cluster.pool.sharded_retriever import PoolSearch
from al_ray.cluster.services import check_task_fits, start_pool
from al_ray.cluster.session import session
from al_ray.cluster.workers import placement
from al_ray.core.candidates import HIGHEST, Candidates
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.labels import Labelled
from al_ray.core.pairs import NO_KEYS
from al_ray.core.progress import OnProgress
from al_ray.core.rng import generator
from al_ray.core.task import Task
from al_ray.encoders.cross_encoder import PairShard
from al_ray.metrics.evaluation import Comparison, Evaluation, compare
from al_ray.metrics.two_stage import evaluate_reranking
from al_ray.runs.other_runs import trained
from al_ray.runs.run_folder import RunFolder
from al_ray.search.shard import PoolShard
from al_ray.storage.files import write_json
from al_ray.storage.lock import locked
from al_ray.storage.uri import StoragePath


@dataclass(frozen=True)
class Retriever:
    """A run whose last model retrieves the `top` most similar pairs, which the cross-encoder then ranks."""

    config: RunConfig
    folder: RunFolder
    top: int

    @staticmethod
    def open(path: StoragePath | None, top: int, task: Task) -> "Retriever | None":
        """Open a run folder; BadOption unless it is of this task and has a model; None without a folder."""
        if path is None:
            return None
        config, folder = trained(path, task, "rerank")
        return Retriever(config, folder, top)


@dataclass(frozen=True)
class TwoStages:
    """Results of retrieval and re-ranking: of `both` stages, of the first `alone`, and their difference.

    difference is None if the first stage was estimated from a sample, and so on other pairs.
    """

    retriever: Retriever
    both: Evaluation
    alone: Evaluation
    difference: Comparison | None

    def as_dict(self) -> dict[str, Any]:
        """Return the content of rerank-SPLIT.json."""
        folder = self.retriever.folder
        content = {"run": str(folder.path), "round": folder.last, "top": self.retriever.top, **self.both.as_dict()}
        if self.difference is not None:
            content |= {"first_stage": self.alone.as_dict(), "difference": self.difference.as_dict()}
        return content


def train_and_evaluate(
    config: TrainConfig,
    task: Task,
    labelled: Labelled,
    out: StoragePath,
    cluster: ClusterConfig,
    retriever: Retriever | None,
    watch: OnProgress,
) -> Iterator[tuple[Evaluation, TwoStages | None]]:
    """Train unless the folder has the model, evaluate each split, write its files, and yield its results.

    Training starts with the first call of next().
    """
    with locked(out):
        folder = CrossEncoderFolder(out)
        folder.bind(config, task, labelled)
        job = CrossEncoderJob(folder, config, task, cluster, watch)
        # One at a time: the trainer, shards, scorers; with --rerank scorers and shards together.
        with session(cluster, trainers=0, scorers=0 if retriever is None else cluster.shards):
            sharded_scorer.train_on_texts(job, sharded_scorer.texts_of(task, labelled.pairs), labelled.labels)
            if not config.evaluation.splits:
                return
            sets = sharded_scorer.make_evaluation_sets(job, config.evaluation.splits)
            if retriever is not None:
                check_task_fits(retriever.config, cluster, task, retriever.folder.path)
            # All places at once: two jobs that hold their scorers and wait for their pools would wait for each other.
            kinds = (PairShard, PoolShard) if retriever is not None else (PairShard,)
            with (
                placement({kind.__name__: cluster.shards for kind in kinds}, cluster) as places,
                sharded_scorer.deploy_scorer(job, places.slots(PairShard.__name__)) as scorer,
            ):
                for split, stored in sets.items():
                    evaluation = sharded_scorer.evaluate_model(job, scorer, split, stored)
                    write_json(out / f"evaluation-{split}.json", evaluation.as_dict())
                    stages = None if retriever is None else evaluate_two_stages(job, scorer, retriever, places, split)
                    if stages is not None:
                        write_json(out / f"rerank-{split}.json", stages.as_dict())
                    yield evaluation, stages


def evaluate_two_stages(
    job: CrossEncoderJob, scorer: ShardedPairScorer, retriever: Retriever, places: Places, name: str
) -> TwoStages:
    """Evaluate retrieval and re-ranking on a split: the retriever's best pairs, ordered by the cross-encoder's scores.

    places: with those of the pool's shards. The bi-encoder searches exactly, whatever kind of search its run used, so
    that the rank of every pair is known.
    """
    # A finished run is measured: texts that its encoder does not know are not refused any more.
    run, split = replace(retriever.config, most_unknown=1.0), job.task.measurable(name)
    with start_pool(run, places, job.task, retriever.folder.path, job.watch) as pool:
        first = retriever.folder.model(retriever.folder.last)
        search = PoolSearch(pool, split, config=replace(pool.search, kind="exact", ordered_pairs=False))
        keys = search.least(first, HIGHEST, min(retriever.top, split.space.total), NO_KEYS).keys
        pairs = split.space.pairs(keys)
        retrieved = Candidates(keys, pool.scores(first, split, pairs))
        cosines = pool.scores(first, split, split.positives)
        rng, count = generator(job.config.seed, f"interval-{name}"), partial(pool.count_negatives, first, split)
        both = evaluate_reranking(split, retrieved, scorer.scores(split, pairs), cosines, count, rng)
        alone = make_evaluator(run, retriever.folder, pool).evaluate(first, name)
    return TwoStages(retriever, both, alone, compare(both, alone) if alone.exact else None)
