"""The world of a run on Ray (core/ports.py): shard actors, a trainer actor, an oracle and the run folder."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from al_ray.cluster.actors import deployed
from al_ray.cluster.evaluator import PoolEvaluator
from al_ray.cluster.metrics import LABELS, SECONDS, counted
from al_ray.cluster.pool import ShardedPool, Watch
from al_ray.cluster.prepare import parts_of, pool_folder, prepared
from al_ray.cluster.search import PoolSearch
from al_ray.cluster.session import refuse_unshared
from al_ray.cluster.trainers import Training, deployed_training
from al_ray.cluster.trial import SeededSearch, Trial, room_of, shared_by
from al_ray.core.config import ClusterConfig, RunConfig
from al_ray.core.errors import BadOption
from al_ray.core.evalset import EvaluationSet
from al_ray.core.evaluation import Evaluation
from al_ray.core.heuristics import Stated
from al_ray.core.ports import Oracle, Retriever
from al_ray.core.records import Labelled, Model
from al_ray.core.task import Task
from al_ray.data.evaluation_sets import EvaluationSets
from al_ray.data.run_folder import RunFolder
from al_ray.model.nearest import SPARE, WIDEST
from al_ray.model.pool import PoolShard, ShardSpec
from al_ray.model.trainer import TrainerSpec
from al_ray.storage.places import Place, place


class TrainerActor:
    """The Trainer of the loop: actors that write models into the run folder."""

    def __init__(self, training: Training, pool: ShardedPool, journal: RunFolder, watch: Watch) -> None:
        """What trains, by one actor or several."""
        self.training, self.pool, self.journal, self.watch = training, pool, journal, watch

    def untrained(self) -> Model:
        """The pre-trained encoder."""
        return self.pool.untrained()

    def train(self, labelled: Labelled, number: int, start: Model | None) -> Model:
        """A model of round `number`."""
        folder = (self.journal.round(number) / "model").resolve()
        made = None
        # To its very end: Ray takes a stream that is left before it for a task that failed.
        for news in self.training(labelled, number, start, str(folder)):
            if isinstance(news, Model):
                made = news
            else:
                self.watch("train", news.step, news.steps)
        assert made is not None
        return made


class RunWorld:
    """All that a run's loop asks for."""

    def __init__(
        self,
        config: RunConfig,
        pool: ShardedPool,
        trainer: TrainerActor,
        journal: RunFolder,
        oracle: Oracle,
        trial: Trial | None = None,
    ) -> None:
        """Put the parts together."""
        self.pool, self.trainer, self.journal, self.oracle = pool, trainer, journal, oracle
        search = PoolSearch(pool, journal.task.split("train"), journal.keep_recall)
        self.retriever: Retriever = search if trial is None else SeededSearch(search, config, journal, trial.shared)
        self.evaluator = evaluator(config, journal, pool)
        # Those of complete rounds: what people said before any actor was started counts as the round's all the same.
        self.labels = sum(line["labels"] for line in journal.complete_rounds()[-1:])

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the seconds of a stage to the round's record, and tell them; after label, the labels that came, too."""
        started = time.monotonic()
        try:
            yield
        finally:
            took, seconds = time.monotonic() - started, self.journal.seconds
            seconds[name] = seconds.get(name, 0.0) + took
            SECONDS.inc(took, {"stage": name, "run": self.journal.path.name})
        if name == "label":
            before, self.labels = self.labels, self.journal.labels
            LABELS.inc(self.labels - before, {"run": self.journal.path.name})

    def embed(self, model: Model, splits: Iterable[str]) -> None:
        """See to it that the shards hold the vectors of these splits."""
        with self.stage("embed"):
            self.pool.embed(model, splits)


def evaluator(config: RunConfig, journal: RunFolder, pool: ShardedPool) -> PoolEvaluator:
    """What measures a run's models, on evaluation sets of the task or, where it has not the ones wanted, its own."""
    sets = EvaluationSets([place(config.task), journal.path])
    return PoolEvaluator(pool, journal.task, config, sets)


@contextmanager
def deployed_pool(
    config: RunConfig, cluster: ClusterConfig, task: Task, out: Place, watch: Watch, trial: Trial | None = None
) -> Iterator[ShardedPool]:
    """Start the shards of a run on the Ray of this process; they end with the context."""
    texts, search = place(config.task), config.search
    refuse_unshared((texts, out), cluster)
    if cluster.gpus_per_shard and search.kind == "knn" and search.neighbours > WIDEST - SPARE - 1:
        raise BadOption(
            f"--search.neighbours is {search.neighbours:,}, and Faiss on a GPU gives {WIDEST:,}, {SPARE + 1} of them "
            f"spare: give at most {WIDEST - SPARE - 1:,}, or --search.kind exact, or leave out --gpus-per-shard"
        )
    # Before there are shards the first one's place is free.
    first = room_of(trial, 0, 1)
    folder = prepared(texts, task, config.encoding, shared_by(trial, out), cluster, first)
    where = cluster.device, cluster.mapped_above, cluster.keep_vectors, "" if trial is None else trial.name
    spec = ShardSpec(str(folder), config.encoding, config.search, 0, cluster.shards, *where)
    specs = [replace(spec, shard=number) for number in range(cluster.shards)]
    with deployed(counted(PoolShard), specs, cluster, room_of(trial, 0, cluster.shards)) as shards:
        yield ShardedPool(shards, parts_of(task), task, config.search, watch)


@contextmanager
def deployed_world(
    config: RunConfig,
    cluster: ClusterConfig,
    journal: RunFolder,
    oracle: Oracle,
    watch: Watch,
    trial: Trial | None = None,
) -> Iterator[RunWorld]:
    """Start all actors of a run; they end with the context."""
    task = journal.task
    with deployed_pool(config, cluster, task, journal.path, watch, trial) as pool:
        folder = str(pool_folder(task, config.encoding, shared_by(trial, journal.path)))
        spec = TrainerSpec(
            folder,
            config.encoding,
            config.training,
            config.seed,
            task.symmetric,
            cluster.device,
            cluster.checkpoint_seconds,
        )
        room = room_of(trial, cluster.shards, config.training.workers)
        with deployed_training(spec, cluster, room) as training:
            world = RunWorld(config, pool, TrainerActor(training, pool, journal, watch), journal, oracle, trial)
            # Before any training: the near pairs are the untrained encoder's, whose vectors the first search needs too.
            world.evaluator.make_sets(config.evaluation.splits)
            yield world


def measured(
    config: RunConfig, cluster: ClusterConfig, folder: RunFolder, split: str, number: int, watch: Watch
) -> Evaluation:
    """The evaluation of a complete round of a run, or of the untrained encoder (round 0), on a split."""
    return measured_alike([(config, folder, number)], cluster, split, watch)[0]


def measured_alike(
    rounds: Sequence[tuple[RunConfig, RunFolder, int]], cluster: ClusterConfig, split: str, watch: Watch
) -> list[Evaluation]:
    """Rounds of runs of one task, all measured as the first run measures: on the same pairs, and so comparable."""
    made: list[Evaluation] = []
    sets: dict[str, EvaluationSet] = {}
    first, _, _ = rounds[0]
    for config, folder, number in rounds:
        task = folder.task
        task.measurable(split)
        with deployed_pool(config, cluster, task, folder.path, watch) as pool:
            model = folder.model(number) if number else pool.untrained()
            measure = evaluator(first, folder, pool)
            measure.sets = sets
            measure.make_sets([split])
            pool.embed(model, [split])
            made.append(measure.evaluate(model, split, compared=len(rounds) > 1))
    return made


def evaluation_sets(
    config: RunConfig, cluster: ClusterConfig, task: Task, splits: Iterable[str], watch: Watch
) -> Iterator[EvaluationSet]:
    """The evaluation sets of a task's splits, each made unless it is there, and kept in the task's folder."""
    folder = place(config.task)
    with deployed_pool(config, cluster, task, folder / "evaluation", watch) as pool:
        measure = PoolEvaluator(pool, task, config, EvaluationSets([folder]))
        for split in splits:
            yield measure.evaluation_set(task.measurable(split))


def scored_stated(
    config: RunConfig, cluster: ClusterConfig, folder: RunFolder, splits: Iterable[str], number: int, watch: Watch
) -> dict[str, Stated]:
    """The stated pairs of splits with their logits by a complete round; with cosines by the untrained encoder (0).

    A pair's query is its left text: of two sides, the candidates of a question are those that are stated with it.
    """
    found: dict[str, Stated] = {}
    with deployed_pool(config, cluster, folder.task, folder.path, watch) as pool:
        model = folder.model(number) if number else pool.untrained()
        for split in map(folder.task.stating, splits):
            pool.embed(model, [split.name])
            pairs = np.concatenate([split.positives, split.stated_negatives])
            labels = np.repeat(np.array([1, 0], dtype=np.uint8), [len(split.positives), len(split.stated_negatives)])
            cosines = pool.cosines(model, split, pairs)
            scores = cosines if model.scorer is None else model.scorer.logit(cosines)
            found[split.name] = Stated(scores, labels, pairs[:, 0])
    return found
