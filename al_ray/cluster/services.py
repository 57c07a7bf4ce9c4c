"""The services of a run on Ray (active_learning/ports.py): shard actors, trainer actors, oracle and run folder."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.ports import DevSampler, Oracle, Retriever
from al_ray.cluster.candidates.matcher_trainer import MatcherTrainer
from al_ray.cluster.candidates.owning import pool_actor
from al_ray.cluster.candidates.sharded_candidates import ShardedCandidates
from al_ray.cluster.mixed_hardware import check_same_hardware
from al_ray.cluster.peak_memory import peak_memory
from al_ray.cluster.places import Places
from al_ray.cluster.pool.ring import GROUPS
from al_ray.cluster.pool.score_fit import check_scoring, uses_neighbours
from al_ray.cluster.pool.sharded_evaluator import make_evaluator
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.pool.sharded_retriever import PoolSearch, check_index_cells, check_index_kind, warn_of_index
from al_ray.cluster.presumed import PresumedPairs
from al_ray.cluster.score_sample import draw_dev_pairs
from al_ray.cluster.session import require_shared_folders
from al_ray.cluster.token_store import check_same_encoder, parts_of, pool_folder, prepare_pool
from al_ray.cluster.trainer_actor import TrainerActor
from al_ray.cluster.training_group import Training, deploy_training
from al_ray.cluster.trial import SeededSearch, Trial, artifact_folder, run_places
from al_ray.cluster.workers import add_to_counter, deploy, get_results, in_this_process, peak_of_workers, placement
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadOption
from al_ray.core.progress import OnProgress
from al_ray.core.task import Task
from al_ray.running.dev_sampler import FolderDevSampler
from al_ray.runs.planned import WHOLE
from al_ray.runs.run_folder import RunFolder
from al_ray.runs.stage_seconds import write_seconds
from al_ray.runs.untrained_figures import read_untrained, write_untrained
from al_ray.search.faiss_index import GPU_NEIGHBOURS, check_index_on_device
from al_ray.search.flat_index import is_flat_on_gpu
from al_ray.search.knn_merge import SPARE
from al_ray.search.shard import PoolShard
from al_ray.search.shard_spec import ShardSpec
from al_ray.storage.uri import StoragePath, storage_path
from al_ray.training.trainer import Trainer, TrainerSpec

# Stages that query the pool; the pool embeds before it answers.
QUERYING = ("search", "train", "evaluate", "examples")


class RayRunServices:
    """Retriever, trainer, oracle, evaluator and run folder of a run: the RunServices of the loop."""

    def __init__(
        self,
        config: RunConfig,
        pool: ShardedPool,
        trainer: TrainerActor | MatcherTrainer,
        journal: RunFolder,
        oracle: Oracle,
        trial: Trial | None = None,
        dev: DevSampler | None = None,
    ) -> None:
        """trial: the run's part of a grid, if it is one; trials share their seed sets."""
        self.pool, self.trainer, self.journal, self.oracle, self.dev = pool, trainer, journal, oracle, dev
        self.spread, self.explain = trainer.spread, trainer.explain
        search = PoolSearch(pool, journal.task.split("train"), journal.keep_recall)
        self.retriever: Retriever = search if trial is None else SeededSearch(search, config, journal, trial.shared)
        self.evaluator = make_evaluator(config, journal, pool)
        # Labels of complete rounds only: labels of an open round that were read before the start are counted with it.
        self.labels = sum(line["labels"] for line in journal.complete_rounds()[-1:])

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Record the seconds of a stage, less those spent on embedding, which are recorded as "embed".

        After the stage "label" the new labels are counted, too.
        """
        started, before = time.monotonic(), self.pool.embedding_seconds
        try:
            yield
        finally:
            embedding = self.pool.embedding_seconds - before
            if name in QUERYING:
                self._record("embed", embedding)
            self._record(name, time.monotonic() - started - embedding)
        if name == "label":
            labels_before, self.labels = self.labels, self.journal.labels
            # Ray's counters refuse 0: no pair is labelled when the candidates ran out.
            if self.labels > labels_before:
                add_to_counter("labels_bought", self.labels - labels_before, {"run": self.journal.path.name})

    def make_sets(self) -> None:
        """Make the evaluation sets that are missing, and record the seconds of all work before the first round."""
        started, before, evaluating = time.monotonic(), self.pool.embedding_seconds, 0.0
        try:
            self.evaluator.make_sets(self.evaluator.config.splits)
            evaluating = self._measure_untrained()
            self.trainer.prepare(self.evaluator)
        finally:
            embedding = self.pool.embedding_seconds - before
            searching = time.monotonic() - started - embedding - evaluating
            seconds = {"prepare": self.pool.preparing_seconds, "embed": embedding, "search": searching}
            write_seconds(self.journal.path, {**seconds, "evaluate": evaluating})

    def _measure_untrained(self) -> float:
        """Measure what the encoder is worth without labels, before the first round; return the seconds it took."""
        splits, started, before = self.evaluator.config.splits, time.monotonic(), self.pool.embedding_seconds
        # Until the first pair is chosen a run may get other options, such as another encoder: it is measured again.
        stored = read_untrained(self.journal.path) if self.journal.ledger.rounds else {}
        if self.journal.last or set(splits) <= set(stored):
            return 0.0
        untrained = self.trainer.untrained()
        evaluations = {name: self.evaluator.evaluate(untrained, name) for name in splits}
        write_untrained(self.journal.path, untrained.digest, evaluations)
        return time.monotonic() - started - (self.pool.embedding_seconds - before)

    def peak_memory(self) -> dict[str, int | None]:
        """Return the peak memory in bytes of the driver, and of the shard and the trainer that have the highest.

        Where workers are in this process, it is that of the one process.
        """
        if in_this_process():
            return {WHOLE: peak_memory()}
        shard, trainer = peak_of_workers(self.pool.shards), peak_of_workers(self.trainer.actors)
        return {"driver": peak_memory(), "shard": shard, "trainer": trainer}

    def _record(self, stage: str, seconds: float) -> None:
        self.journal.add_seconds(stage, seconds)
        # Ray's counters refuse 0: nothing is embedded for candidates that a grid shares.
        if seconds > 0:
            add_to_counter("stage_seconds", seconds, {"stage": stage, "run": self.journal.path.name})


@contextmanager
def deploy_pool(
    config: RunConfig,
    cluster: ClusterConfig,
    task: Task,
    out: StoragePath,
    watch: OnProgress,
    trial: Trial | None = None,
    known: StoragePath | None = None,
) -> Iterator[ShardedPool]:
    """Start the shards of a run on the Ray of this process, without trainers; they end with the context.

    known: folder of vectors of known texts, which are not encoded again, and to which those that are encoded are added.
    """
    check_task_fits(config, cluster, task, out)
    with (
        placement({PoolShard.__name__: cluster.shards}, cluster) as places,
        start_pool(config, places, task, out, watch, trial, known) as pool,
    ):
        yield pool


def check_task_fits(config: RunConfig, cluster: ClusterConfig, task: Task, out: StoragePath) -> None:
    """Raise BadOption, before any wait for resources, if shards cannot work as the options say."""
    require_shared_folders((storage_path(config.task), out), cluster)
    check_index_kind(config.search, task)
    check_scoring(config.scoring, task)
    check_index_cells(config, task)
    if cluster.gpus_per_shard and not is_flat_on_gpu(config.search.index, cluster.device):
        _check_gpu_limits(config, task)


def _uses_index(config: RunConfig, task: Task) -> tuple[bool, bool, bool]:
    """Whether an index searches the pool, finds near pairs of an evaluation set, and neighbours for scores."""
    totals = [task.splits[name].space.total for name in config.evaluation.splits if name in task.splits]
    near = not all(map(config.evaluation.counts_all, totals))
    return config.search.kind == "knn", near, uses_neighbours(config.scoring, task)


def _check_gpu_limits(config: RunConfig, task: Task) -> None:
    """Raise BadOption for more neighbours or cells than Faiss on a GPU can search."""
    search, most = config.search, GPU_NEIGHBOURS - SPARE - 1
    pool, near, scored = _uses_index(config, task)
    if pool and search.neighbours > most:
        raise BadOption(
            f"Faiss on a GPU gives {most:,} neighbours at most, and {search.neighbours:,} are searched: leave out "
            "`gpus_per_shard`, or give `al_ray.run` (or `al_ray.match`) fewer `search.neighbours`, "
            "`search.index='Flat'`, which has no such limit, or `search.kind='exact'`"
        )
    if near and config.evaluation.near_neighbours > most:
        raise BadOption(
            f"Faiss on a GPU gives {most:,} neighbours at most, and an evaluation set needs "
            f"{config.evaluation.near_neighbours:,}: leave out `gpus_per_shard`, or give fewer "
            "(`RunConfig.evaluation.near_neighbours`), or `search.index='Flat'`, or count all pairs "
            "(`evaluation.mode='exact'`)"
        )
    if (pool or near or scored) and "IVF" in search.index and search.nprobe > GPU_NEIGHBOURS:
        raise BadOption(
            f"Faiss on a GPU searches {GPU_NEIGHBOURS:,} cells at most for a query, and `al_ray.run` (or "
            f"`al_ray.match`) `search.nprobe` is {search.nprobe:,}: leave out `gpus_per_shard`, or give a lower one"
        )


def _check_index_on_device(index: str, device: str, _: object) -> None:
    """See check_index_on_device; called on a shard."""
    check_index_on_device(index, device)


@contextmanager
def start_pool(
    config: RunConfig,
    places: Places,
    task: Task,
    out: StoragePath,
    watch: OnProgress,
    trial: Trial | None = None,
    known: StoragePath | None = None,
) -> Iterator[ShardedPool]:
    """Tokenise if needed and start the shards, in their places; they end with the context.

    For what needs other actors beside the pool: all places must be reserved at once, because two jobs that each hold
    some of their actors and wait for the others can wait for each other. Call check_task_fits before.
    """
    cluster, slots = places.config, places.slots(PoolShard.__name__)
    # The shards do not run yet, so their places are free.
    source, to, started = storage_path(config.task), artifact_folder(trial, out), time.monotonic()
    folder = prepare_pool(source, task, config.encoding, to, cluster, slots, watch)
    seconds = time.monotonic() - started
    where = cluster.device, cluster.mapped_above, cluster.keep_vectors, "" if trial is None else trial.name
    texts = "" if known is None else str(known.resolve())
    spec = ShardSpec(
        str(folder), config.encoding, config.search, 0, cluster.shards, *where, texts, str(source.resolve())
    )
    specs = [replace(spec, shard=number) for number in range(cluster.shards)]
    warn_of_index(config.search, config.vectors == "fp16", cluster.shards, uses_neighbours(config.scoring, task))
    with deploy(pool_actor(PoolShard), specs, cluster, slots, GROUPS) as shards:
        check_same_hardware(get_results([shard.hardware.remote() for shard in shards]), cluster.mixed_hardware)
        if cluster.gpus_per_shard and any(_uses_index(config, task)):
            check = partial(_check_index_on_device, config.search.index, cluster.device)
            get_results([shard.__ray_call__.remote(check) for shard in shards])
        pool = ShardedPool(shards, parts_of(task), task, config.search, watch)
        pool.preparing_seconds = seconds
        # Whatever scores with a model that has a matcher: the pool finds candidates when they are first needed.
        pool.find_candidates = lambda model, splits: ShardedCandidates(pool, config, folder, model).prepare(splits)
        yield pool


@contextmanager
def deploy_services(
    config: RunConfig,
    cluster: ClusterConfig,
    journal: RunFolder,
    oracle: Oracle,
    watch: OnProgress,
    trial: Trial | None = None,
    dev_oracle: Oracle | None = None,
) -> Iterator[RayRunServices]:
    """Start all actors of a run; they end with the context. dev_oracle: labels drawn pairs of dev, if any are asked."""
    task = journal.task
    check_task_fits(config, cluster, task, journal.path)
    with (
        run_places(config, cluster, trial) as places,
        start_pool(config, places, task, journal.path, watch, trial) as pool,
    ):
        folder = str(pool_folder(task, config.encoding, artifact_folder(trial, journal.path)))
        draw = partial(draw_dev_pairs, pool, config, journal.dev_labels)
        dev = None if dev_oracle is None else FolderDevSampler(config, journal, dev_oracle, draw)
        with _deploy_encoder_training(config, cluster, task, folder, places) as training:
            trainer: TrainerActor | MatcherTrainer
            if config.matcher == "on":
                trainer = MatcherTrainer(config, pool, storage_path(folder), journal, watch, training)
            else:
                assert training is not None
                scores = config.scoring if uses_neighbours(config.scoring, task) else None
                presumed = PresumedPairs(pool, journal, config.training, config.seed)
                trainer = TrainerActor(training, pool, journal, watch, scores, presumed)
            check_same_encoder(storage_path(folder), config.encoding, trainer.untrained(), journal.path)
            services = RayRunServices(config, pool, trainer, journal, oracle, trial, dev)
            # Before any training, while the shards hold vectors of the untrained encoder, which finds the near pairs.
            services.make_sets()
            yield services


@contextmanager
def _deploy_encoder_training(
    config: RunConfig, cluster: ClusterConfig, task: Task, folder: str, places: Places
) -> Iterator[Training | None]:
    """Start the actors that train the encoder of a run; none if its rounds do not train it. folder: of the pool."""
    if not config.trains_encoder:
        yield None
        return
    spec = TrainerSpec(
        folder,
        config.encoding,
        config.training,
        config.seed,
        task.symmetric,
        cluster.device,
        cluster.checkpoint_seconds,
    )
    with deploy_training(spec, cluster, places.slots(Trainer.__name__)) as training:
        yield training
