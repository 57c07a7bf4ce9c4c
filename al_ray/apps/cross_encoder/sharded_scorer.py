"""Train and evaluate cross-encoders on Ray. Pairs are scored in slices, and finished slices are stored."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np

from al_ray.apps.cross_encoder.folder import CrossEncoderFolder
from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.cluster.measurement import deploy_measured
from al_ray.cluster.places import BundleSlots
from al_ray.cluster.pool.sharded_evaluator import PoolEvaluator
from al_ray.cluster.training_group import model_of, training_events
from al_ray.cluster.workers import deploy, get_results
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadFile
from al_ray.core.labels import Model
from al_ray.core.pairs import Keys, Pairs, distinct
from al_ray.core.progress import OnProgress
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, Labels
from al_ray.core.task import Split, Task
from al_ray.encoders.cross_encoder import PairShard, PairShardSpec, Texts
from al_ray.metrics.estimator import evaluate_on_sample
from al_ray.metrics.evaluation import Evaluation
from al_ray.runs.evaluation_sets import EvaluationSets, StoredSet
from al_ray.runs.run_folder import bound_config
from al_ray.storage.uri import storage_path
from al_ray.training.cross_encoder import PairTrainer, PairTrainerSpec
from al_ray.training.saved_model import read_model

AHEAD = 2  # Slices queued for each actor.


@dataclass(frozen=True)
class CrossEncoderJob:
    """What training and evaluation of a cross-encoder need. watch: callback that receives progress."""

    folder: CrossEncoderFolder
    config: TrainConfig
    task: Task
    cluster: ClusterConfig
    watch: OnProgress

    def model(self) -> Model:
        """Return the model of the folder; BadFile if there is none."""
        model = read_model(self.folder.model)
        if model is None or not list(self.folder.model.glob("*.safetensors")):
            raise BadFile(f"{self.folder.path} has no model; make it by `al_ray.train_cross_encoder`, or restore it")
        return model


def train_on_texts(job: CrossEncoderJob, pairs: Texts, labels: Labels | Floats) -> Model:
    """Train on (n,) pairs of texts; the (n,) labels may be any numbers from 0 to 1."""
    config, cluster = job.config, job.cluster
    encoding = config.run(1).encoding
    spec = PairTrainerSpec(encoding, config.concat_training, config.seed, cluster.device, cluster.checkpoint_seconds)
    with deploy(PairTrainer, [spec], cluster) as (actor,):
        begin = partial(actor.train.options(num_returns="streaming").remote, pairs, labels, str(job.folder.model))
        return model_of(training_events(begin), lambda step: job.watch("train", step.step, step.steps))


class ShardedPairScorer:
    """Scores pairs of texts with a cross-encoder on actors (a PairScorer). A score is a logit.

    Each slice of pairs is stored when it is scored, so that a rerun continues after it. Slices and the batches in them
    depend on the pairs alone. In a symmetric task a pair is scored in one order, the lower row first.
    """

    def __init__(self, shards: Sequence[Any], model: Model, job: CrossEncoderJob) -> None:
        """shards: actors of PairShard."""
        self.shards, self.model, self.job = list(shards), model, job

    def scores(self, split: Split, pairs: Pairs) -> Floats:
        """(n, 2) pairs of a split -> (n,) logits."""
        pair_keys = split.space.keys(pairs)
        keys = distinct(pair_keys)
        scores = np.empty(len(keys))
        for start, part in self._slices(split, keys):
            scores[start : start + len(part)] = part
            self.job.watch("score", start + len(part), len(keys))
        return scores[np.searchsorted(keys, pair_keys)]

    def logits(self, scores: Floats) -> Floats:
        """(n,) scores -> (n,) log-odds: the same numbers."""
        return scores

    def _slices(self, split: Split, keys: Keys) -> Iterator[tuple[int, Floats]]:
        """Yield the start and the scores of each slice of the sorted keys, stored ones and new ones."""
        folder, size = self.job.folder, self.job.config.slice_pairs
        waiting: deque[tuple[int, Keys, Any]] = deque()
        shards = cycle(self.shards)
        for start in range(0, len(keys), size):
            part = keys[start : start + size]
            stored = folder.scores(self.model.digest, part)
            if stored is not None:
                yield start, stored
                continue
            texts = texts_of(self.job.task, split.space.pairs(part))
            waiting.append((start, part, next(shards).scores.remote(self.model, texts)))
            if len(waiting) > AHEAD * len(self.shards):
                yield self._store(*waiting.popleft())
        while waiting:
            yield self._store(*waiting.popleft())

    def _store(self, start: int, keys: Keys, call: Any) -> tuple[int, Floats]:
        scores = get_results(call)
        self.job.folder.write_scores(self.model.digest, keys, scores)
        return start, scores


@contextmanager
def deploy_scorer(job: CrossEncoderJob, slots: BundleSlots | None = None) -> Iterator[ShardedPairScorer]:
    """Start actors that score with the folder's model, in these places or in places of their own, for the context."""
    model, config, cluster = job.model(), job.config, job.cluster
    spec = PairShardSpec(config.encoder_batch, config.threads, cluster.device, config.arithmetic)
    with deploy(PairShard, [spec] * cluster.shards, cluster, slots) as shards:
        yield ShardedPairScorer(shards, model, job)


def make_evaluation_sets(job: CrossEncoderJob, splits: Sequence[str]) -> dict[str, StoredSet]:
    """Store the evaluation set of each split; near negatives come from the untrained encoder of `like` or --encoder."""
    like = job.config.run(1) if job.config.like is None else bound_config(storage_path(job.config.like))
    config = replace(like, task=job.config.task, evaluation=job.config.evaluation)
    stored = EvaluationSets([storage_path(config.task), job.folder.path])
    with deploy_measured(config, job.cluster, job.task, job.folder.path, job.watch) as pool:
        evaluator = PoolEvaluator(pool, job.task, config, stored)
        return {split: evaluator.stored_set(job.task.measurable(split)) for split in splits}


def evaluate_model(
    job: CrossEncoderJob, scorer: ShardedPairScorer, name: str, stored: StoredSet, compared: bool = False
) -> Evaluation:
    """Evaluate the model on a weighted sample of the pairs of a split, given its name and its evaluation set."""
    rng, split = generator(job.config.seed, f"interval-{name}"), job.task.measurable(name)
    return evaluate_on_sample(scorer, split, stored.read_for(split), rng, compared)


def texts_of(task: Task, pairs: Pairs) -> list[tuple[str, str]]:
    """(n, 2) pairs -> (n,) pairs of texts."""
    return list(zip(*task.texts_of(pairs), strict=True))
