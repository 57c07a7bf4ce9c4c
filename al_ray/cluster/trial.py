"""What a run is given as a trial of a grid: bundles of its trial's placement group, and what all trials share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.cluster.places import BundleSlots, Places, bundle_of
from al_ray.cluster.pool.sharded_retriever import PoolSearch
from al_ray.cluster.workers import placement
from al_ray.core.candidates import HIGHEST, Candidates, Order
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.serialization import as_dict
from al_ray.core.labels import Model
from al_ray.core.pairs import Keys
from al_ray.core.task import Task
from al_ray.runs.run_folder import RunFolder
from al_ray.runs.seed_sets import SeedSets
from al_ray.search.shard import PoolShard
from al_ray.storage.uri import StoragePath
from al_ray.training.trainer import Trainer


def bundles_of(config: ClusterConfig, trainers: int) -> list[dict[str, float]]:
    """Resources that the actors of a run request from Ray, a bundle each: trainers first, then shards."""
    return [bundle_of(config)] * (trainers + config.shards)


@dataclass(frozen=True)
class Trial:
    """A run's part of its grid.

    name: the cell's; shared: the folder of what all trials share; group: the placement group of `bundles_of`, or
    None where the actors are to have a group of their own.
    """

    name: str
    shared: StoragePath
    group: Any = None


def seed_provenance(config: RunConfig, task: Task, untrained: Model) -> dict[str, Any]:
    """All that decides what a search under the untrained encoder finds."""
    search = as_dict(config.search)
    return {"task": task.digest, "encoder": untrained.digest, "vectors": config.vectors, "search": search}


class SeededSearch:
    """The Retriever of a trial: searches with the untrained encoder were done before, once for all trials."""

    def __init__(self, search: PoolSearch, config: RunConfig, journal: RunFolder, shared: StoragePath) -> None:
        """search: does all other searches."""
        self.search, self.config, self.journal, self.seeds = search, config, journal, SeedSets(shared)

    def least(self, model: Model, order: Order, count: int, labelled: Keys) -> Candidates:
        """As PoolSearch.least."""
        if model.scorer is None and order == HIGHEST:
            kept = self.seeds.read(seed_provenance(self.config, self.journal.task, model))
            found = None if kept is None else kept.least(count, labelled)
            if kept is not None and found is not None:
                if kept.recall is not None:
                    self.journal.keep_recall(kept.recall)
                return found
        return self.search.least(model, order, count, labelled)


@contextmanager
def run_places(config: RunConfig, cluster: ClusterConfig, trial: Trial | None) -> Iterator[Places]:
    """Reserve one placement group for all actors of a run, or use its trial's; NoPlacement after the timeout.

    Ray places a group all at once or not at all, so a run that waits for room keeps none of it from another run.
    """
    trainers = config.trainers
    kinds = {**({Trainer.__name__: trainers} if trainers else {}), PoolShard.__name__: cluster.shards}
    slots = None
    if trial is not None and trial.group is not None:
        slots = BundleSlots(trial.group, tuple(range(sum(kinds.values()))))
    # A group has one strategy. Shards are best spread: their memory is no part of a bundle, and a node that dies takes
    # fewer of them. Several trainers exchange gradients at every step, which is quickest within a node.
    with placement(kinds, cluster, "PACK" if config.training.workers > 1 else "SPREAD", slots) as places:
        yield places


def artifact_folder(trial: Trial | None, out: StoragePath) -> StoragePath:
    """The folder with a run's token ids and untrained vectors: its own, or its grid's."""
    return out if trial is None else trial.shared
