"""Inputs that the trials of a grid share: token ids, untrained vectors, seed sets and evaluation sets."""

from collections.abc import Sequence

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.apps.grid.spec import Cell
from al_ray.cluster.pool.sharded_evaluator import PoolEvaluator
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.pool.sharded_retriever import PoolSearch
from al_ray.cluster.services import deploy_pool
from al_ray.cluster.trial import Trial, seed_provenance
from al_ray.core.candidates import HIGHEST
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.pairs import NO_KEYS
from al_ray.core.progress import OnProgress
from al_ray.core.task import Task
from al_ray.runs.evaluation_sets import EvaluationSets
from al_ray.runs.seed_sets import SeedSet, SeedSets
from al_ray.storage.uri import StoragePath, storage_path


def share(cells: Sequence[Cell], cluster: ClusterConfig, task: Task, shared: StoragePath, watch: OnProgress) -> None:
    """Compute what is missing of the shared inputs of the cells, for each of their encoders."""
    for encoder in dict.fromkeys(cell.config.encoder for cell in cells):
        own = [cell.config.settled(task.split("train").space.total) for cell in cells if cell.config.encoder == encoder]
        # As a trial does: in the shared folder, where the vectors of the untrained encoder are stored.
        with deploy_pool(own[0], cluster, task, shared, watch, Trial("shared", shared)) as pool:
            _share_seeds(own, pool, shared)
            _share_sets(own[0], pool)
            _share_candidates(own[0], pool)


def _share_seeds(configs: Sequence[RunConfig], pool: ShardedPool, shared: StoragePath) -> None:
    """Compute the largest seed set that a run needs: it does not depend on the seed, and others are prefixes of it."""
    count = max(map(seeds_of, configs), default=0)
    if not count:
        return
    seeds, untrained = SeedSets(shared), pool.untrained()
    made_from = seed_provenance(configs[0], pool.task, untrained)
    # Also if the seed set is cached, because trials need the vectors themselves.
    pool.embed(untrained, ["train"])
    cached = seeds.read(made_from)
    # A cached set with fewer pairs than its search requested has all pairs that there are.
    if cached is None or (cached.count < count and len(cached.candidates) >= cached.count):
        recalls: list[float] = []
        search = PoolSearch(pool, pool.task.split("train"), recalls.append)
        candidates = search.least(untrained, HIGHEST, count, NO_KEYS)
        seeds.write(SeedSet(candidates, count, recalls[-1] if recalls else None), made_from)


def _share_sets(config: RunConfig, pool: ShardedPool) -> None:
    """Compute the evaluation sets of estimated splits; they are stored in the task folder."""
    sets = EvaluationSets([storage_path(config.task)])
    measure = PoolEvaluator(pool, pool.task, config, sets)
    for split in map(pool.task.split, config.evaluation.splits):
        if not config.evaluation.counts_all(split.space.total):
            # Also if the set is cached, because trials need the vectors themselves.
            pool.embed(pool.untrained(), [split.name])
            measure.stored_set(split)


def _share_candidates(config: RunConfig, pool: ShardedPool) -> None:
    """Find the candidates of all splits that a run with a matcher ranks."""
    if config.matcher == "on":
        names = dict.fromkeys(("train", *config.evaluation.splits, *(("dev",) if config.dev_labels else ())))
        # Also if they are stored, because trials need the vectors themselves.
        pool.embed(pool.untrained(), names)
        for name in names:
            pool.candidates_of(pool.untrained(), pool.task.split(name))


def seeds_of(config: RunConfig) -> int:
    """Return how many pairs a run labels in the order of the untrained encoder."""
    strategy = STRATEGIES[config.strategy]
    if not strategy.uses_model:
        return sum(config.batches) if strategy.searches else 0
    # A run with a matcher spreads its seed set over a ranking of its own.
    return config.batches[0] if config.seeding == "retrieval" and config.matcher == "off" else 0
