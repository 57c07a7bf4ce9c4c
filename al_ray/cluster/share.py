"""What the trials of a grid share, made once before them: token ids, untrained vectors, seed sets, evaluation sets."""

from collections.abc import Sequence

from al_ray.cluster.evaluator import PoolEvaluator
from al_ray.cluster.pool import ShardedPool, Watch
from al_ray.cluster.search import PoolSearch
from al_ray.cluster.trial import Trial, seeds_from
from al_ray.cluster.world import deployed_pool
from al_ray.core.config import ClusterConfig, RunConfig
from al_ray.core.grid import Cell
from al_ray.core.pairs import NO_KEYS
from al_ray.core.strategy import HIGHEST
from al_ray.core.task import Task
from al_ray.data.evaluation_sets import EvaluationSets
from al_ray.data.seed_sets import SeedSet, SeedSets
from al_ray.storage.places import Place, place


def share(cells: Sequence[Cell], cluster: ClusterConfig, task: Task, shared: Place, watch: Watch) -> None:
    """See to it that all that cells share is there: of each of their encoders, and what is there stays."""
    for encoder in dict.fromkeys(cell.config.encoder for cell in cells):
        own = [cell.config.settled(task.split("train").space.total) for cell in cells if cell.config.encoder == encoder]
        # As a trial would have it: in the shared folder, with the vectors of the untrained encoder kept.
        with deployed_pool(own[0], cluster, task, shared, watch, Trial("shared", shared)) as pool:
            _share_seeds(own, pool, shared)
            _share_sets(own[0], pool)


def _share_seeds(configs: Sequence[RunConfig], pool: ShardedPool, shared: Place) -> None:
    """The longest seed set that any of these runs asks for; the others' are its beginnings, whatever their seed."""
    count = max(map(seeds_of, configs), default=0)
    if not count:
        return
    seeds, untrained = SeedSets(shared), pool.untrained()
    made_from = seeds_from(configs[0], pool.task, untrained)
    pool.embed(untrained, ["train"])
    kept = seeds.read(made_from)
    if kept is None or (kept.count < count and len(kept.found) == kept.count):
        told: list[float] = []
        search = PoolSearch(pool, pool.task.split("train"), told.append)
        found = search.least(untrained, HIGHEST, count, NO_KEYS)
        seeds.write(SeedSet(found, count, told[-1] if told else None), made_from)


def _share_sets(config: RunConfig, pool: ShardedPool) -> None:
    """The evaluation sets of the splits that are estimated, kept in the task's folder."""
    sets = EvaluationSets([place(config.task)])
    measure = PoolEvaluator(pool, pool.task, config, sets)
    for split in map(pool.task.split, config.evaluation.splits):
        if not measure.exact(split):
            pool.embed(pool.untrained(), [split.name])
            measure.evaluation_set(split)


def seeds_of(config: RunConfig) -> int:
    """How many pairs a run buys in the order of the untrained encoder."""
    if config.strategy == "static":
        return sum(config.batches)
    return config.batches[0] if config.strategy in ("uncertainty", "adaptive") and config.seeding == "retrieval" else 0
