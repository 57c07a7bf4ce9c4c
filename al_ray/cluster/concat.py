"""Concatenation models on Ray: a trainer, scorers of pairs that go on slice by slice, and what is measured by them."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from al_ray.cluster.actors import deployed, gathered, streamed
from al_ray.cluster.evaluator import PoolEvaluator
from al_ray.cluster.pool import ShardedPool, Watch
from al_ray.cluster.search import PoolSearch
from al_ray.cluster.world import deployed_pool
from al_ray.core.config import ClusterConfig, RunConfig, generator
from al_ray.core.errors import BadFile
from al_ray.core.estimate import estimated
from al_ray.core.evalset import EvaluationSet
from al_ray.core.evaluation import Comparison, Evaluation, comparison
from al_ray.core.heuristics import Stated
from al_ray.core.pairs import NO_KEYS, Keys, Pairs, distinct
from al_ray.core.records import Labelled, Model
from al_ray.core.rerank import reranked
from al_ray.core.scoring import Floats, Labels
from al_ray.core.strategy import HIGHEST, Candidates
from al_ray.core.supervised import TrainConfig
from al_ray.core.task import Split, Task
from al_ray.data.concat_folder import ConcatFolder
from al_ray.data.evaluation_sets import EvaluationSets
from al_ray.data.run_folder import RunFolder, bound_config
from al_ray.model.crossencoder import PairShard, PairShardSpec, Texts
from al_ray.model.pairtrainer import PairTrainer, PairTrainerSpec
from al_ray.model.trainer import read_model
from al_ray.model.training import Step
from al_ray.storage.places import place

AHEAD = 2  # Slices that each actor has before it.


@dataclass(frozen=True)
class Bench:
    """What all work on a concatenation model needs: its folder and task, the cluster, and who hears of progress."""

    folder: ConcatFolder
    config: TrainConfig
    task: Task
    cluster: ClusterConfig
    watch: Watch

    def model(self) -> Model:
        """The model of the folder; BadFile where it is not there."""
        made = read_model(self.folder.model)
        if made is None or not list(self.folder.model.glob("*.safetensors")):
            raise BadFile(f"{self.folder.path} has no model; make it by python -m jobs.train, or restore it")
        return made


def trained(bench: Bench, labelled: Labelled) -> Model:
    """The concatenation model of these labels, trained by one actor unless it is there."""
    return trained_on(bench, texts(bench.task, labelled.pairs), labelled.labels)


def trained_on(bench: Bench, pairs: Texts, labels: Labels | Floats) -> Model:
    """The same of (n,) pairs of texts; the (n,) labels may be any numbers from 0 to 1."""
    config, cluster = bench.config, bench.cluster
    encoding = config.run(1).encoding
    spec = PairTrainerSpec(encoding, config.recipe, config.seed, cluster.device, cluster.checkpoint_seconds)
    with deployed(PairTrainer, [spec], cluster) as (actor,):
        stream = actor.train.options(num_returns="streaming").remote(pairs, labels, str(bench.folder.model))
        return followed(stream, lambda step: bench.watch("train", step.step, step.steps))


def followed(stream: Any, told: Callable[[Step], None]) -> Model:
    """The model that a training's stream ends with; `told` hears of every step."""
    made = None
    # To its very end: Ray takes a stream that is left before it for a task that failed.
    for news in streamed(stream):
        if isinstance(news, Model):
            made = news
        else:
            told(news)
    assert made is not None
    return made


class ShardedPairScorer:
    """The PairScorer of a concatenation model over actors, in slices that are kept: what is done is not done again.

    The slices and the batches in them depend on the pairs alone. A score is a logit. In a symmetric task a pair is
    scored in one order, the lower row first.
    """

    def __init__(self, shards: Sequence[Any], model: Model, bench: Bench) -> None:
        """shards: actors of PairShard."""
        self.shards, self.model, self.bench = list(shards), model, bench

    def scores(self, split: Split, pairs: Pairs) -> Floats:
        """(n, 2) pairs of a split -> (n,) logits."""
        wanted = split.space.keys(pairs)
        keys = distinct(wanted)
        found = np.empty(len(keys))
        for start, part in self._slices(split, keys):
            found[start : start + len(part)] = part
            self.bench.watch("score", start + len(part), len(keys))
        return found[np.searchsorted(keys, wanted)]

    def logits(self, scores: Floats) -> Floats:
        """(n,) scores -> (n,) log-odds, which they are."""
        return scores

    def _slices(self, split: Split, keys: Keys) -> Iterator[tuple[int, Floats]]:
        """Sorted keys -> the scores of each slice and where it begins; those that are kept, and those just made."""
        folder, size = self.bench.folder, self.bench.config.slice_pairs
        waiting: deque[tuple[int, Keys, Any]] = deque()
        asked = 0
        for start in range(0, len(keys), size):
            part = keys[start : start + size]
            kept = folder.scores(self.model.digest, part)
            if kept is not None:
                yield start, kept
                continue
            shard = self.shards[asked % len(self.shards)]
            asked += 1
            waiting.append(
                (start, part, shard.scores.remote(self.model, texts(self.bench.task, split.space.pairs(part))))
            )
            if len(waiting) > AHEAD * len(self.shards):
                yield self._kept(*waiting.popleft())
        while waiting:
            yield self._kept(*waiting.popleft())

    def _kept(self, start: int, keys: Keys, call: Any) -> tuple[int, Floats]:
        scores = gathered(call)
        self.bench.folder.keep_scores(self.model.digest, keys, scores)
        return start, scores


@contextmanager
def deployed_scorer(bench: Bench) -> Iterator[ShardedPairScorer]:
    """Start the scorers of the folder's model; they end with the context."""
    model, config, cluster = bench.model(), bench.config, bench.cluster
    spec = PairShardSpec(config.encoder_batch, config.threads, cluster.device, config.arithmetic)
    with deployed(PairShard, [spec] * cluster.shards, cluster) as shards:
        yield ShardedPairScorer(shards, model, bench)


def evaluation_sets(bench: Bench, splits: Sequence[str]) -> dict[str, EvaluationSet]:
    """The evaluation set of each split, its near negatives found by the run that the config names, or as by one."""
    like = bench.config.run(1) if bench.config.like is None else bound_config(place(bench.config.like))
    config = replace(like, task=bench.config.task, evaluation=bench.config.evaluation)
    shelf = EvaluationSets([place(config.task), bench.folder.path])
    with deployed_pool(config, bench.cluster, bench.task, bench.folder.path, bench.watch) as pool:
        measure, made = PoolEvaluator(pool, bench.task, config, shelf), dict[str, EvaluationSet]()
        for split in splits:
            made[split] = measure.evaluation_set(bench.task.measurable(split))
    return made


def measured(bench: Bench, scorer: ShardedPairScorer, evalset: EvaluationSet, compared: bool = False) -> Evaluation:
    """The evaluation of the model by a weighted sample of the pairs of a split."""
    rng = generator(bench.config.seed, f"interval-{evalset.split}")
    return estimated(scorer, bench.task.measurable(evalset.split), evalset, rng, compared)


def scored_stated(bench: Bench, scorer: ShardedPairScorer, splits: Sequence[str]) -> dict[str, Stated]:
    """The stated pairs of splits with their logits; a pair's query is its left text."""
    found: dict[str, Stated] = {}
    for split in map(bench.task.stating, splits):
        pairs = np.concatenate([split.positives, split.stated_negatives])
        labels = np.repeat(np.array([1, 0], dtype=np.uint8), [len(split.positives), len(split.stated_negatives)])
        found[split.name] = Stated(scorer.scores(split, pairs), labels, pairs[:, 0])
    return found


def two_stages(
    scorer: ShardedPairScorer, pool: ShardedPool, first: Model, split: Split, top: int, seed: int
) -> Evaluation:
    """The evaluation of both stages: the `top` highest of all pairs by a bi-encoder, in the order of the scorer.

    The bi-encoder looks at every pair, whatever kind of search its run had; so every pair's place is known.
    """
    search = PoolSearch(pool, split)
    search.config = replace(search.config, kind="exact", ordered_pairs=False)
    pool.embed(first, [split.name])
    keys = search.least(first, HIGHEST, min(top, split.space.total), NO_KEYS).keys
    pairs = split.space.pairs(keys)
    retrieved = Candidates(keys, pool.cosines(first, split, pairs))
    cosines = pool.cosines(first, split, split.positives)
    rng = generator(seed, f"interval-{split.name}")
    return reranked(
        split, retrieved, scorer.scores(split, pairs), cosines, lambda asked: pool.count(first, split, asked), rng
    )


def difference(
    bench: Bench, scorer: ShardedPairScorer, run: RunConfig, folder: RunFolder, number: int, split: str
) -> Comparison:
    """The AP of the model less that of a round of a run, both by the same weighted sample of pairs."""
    evalset = evaluation_sets(bench, [split])[split]
    one = measured(bench, scorer, evalset, compared=True)
    estimating = replace(run, evaluation=replace(run.evaluation, mode="estimate"))
    with deployed_pool(estimating, bench.cluster, bench.task, folder.path, bench.watch) as pool:
        model = folder.model(number) if number else pool.untrained()
        measure = PoolEvaluator(pool, bench.task, estimating, EvaluationSets([folder.path]))
        measure.sets = {split: evalset}
        pool.embed(model, [split])
        return comparison(one, measure.evaluate(model, split, compared=True))


def texts(task: Task, pairs: Pairs) -> list[tuple[str, str]]:
    """(n, 2) pairs -> their texts."""
    return [(task.left.texts[left], task.right.texts[right]) for left, right in pairs.tolist()]
