"""An evaluation set drawn, stored and read by the shards: the driver gets numbers and a few hashes, but no pairs."""

import logging
from collections.abc import Mapping
from typing import Any

from al_ray.cluster.pool.ring import MAX_UPDATES
from al_ray.cluster.pool.sharded_pool import ShardedPool, StoredStratum
from al_ray.cluster.pool.sharded_retriever import PoolSearch
from al_ray.cluster.workers import get_results, put
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.labels import Model
from al_ray.core.task import Split
from al_ray.metrics.owned_strata import StrataRequest, cut_samples
from al_ray.runs.evaluation_sets import StoredSet
from al_ray.storage.uri import StoragePath

logger = logging.getLogger(__name__)


class _StrataLost(Exception):
    """A shard restarted and has lost what it knew of the strata."""


def store_evaluation_set(
    search: PoolSearch, model: Model, config: EvaluationConfig, place: StoragePath, made_from: Mapping[str, Any]
) -> None:
    """Draw the evaluation set of a split, near pairs under a model and random pairs, and store it in a folder.

    If a shard restarts meanwhile, all shards begin again.
    """
    while True:
        try:
            return _store(search, model, config, place, made_from)
        except _StrataLost:
            logger.warning("a shard restarted: the evaluation set of %s is made again", search.split.name)


def _store(
    search: PoolSearch, model: Model, config: EvaluationConfig, place: StoragePath, made_from: Mapping[str, Any]
) -> None:
    pool, split = search.pool, search.split

    def on_all(method: str, *arguments: Any) -> list[Any]:
        answers = pool.on_all(model, split, "score", method, *arguments, whole=MAX_UPDATES * len(pool.shards))
        if any(answer is None for answer in answers):
            raise _StrataLost
        return answers

    def ask(method: str, *arguments: Any) -> list[Any]:
        return on_all("ask_strata", method, *arguments)

    search.find_near(model, config.near_neighbours)
    space = split.space
    request = StrataRequest(split.name, split.positive_keys, config.bands, config.seed, space.width, space.symmetric)
    sizes = on_all("own_near", put(request))
    cuts = cut_samples(split, config.bands, sizes, config.most_near_pairs, config.random_pairs, ask)
    on_all("store_strata", cuts, place, dict(made_from))
    pool.on_all(model, split, "score", "drop_strata", whole=MAX_UPDATES * len(pool.shards))


def load_strata(pool: ShardedPool, stored: StoredSet, split: Split) -> list[StoredStratum]:
    """Have a shard read a stored set and check it, for all shards; BadFile for a damaged one."""
    read = pool.shards[0].read_strata.options(num_returns=1 + len(stored.strata))
    summaries, *keys = read.remote(stored, split.name, put(split.positive_keys), split.space.total)
    return [StoredStratum(*of_stratum) for of_stratum in zip(get_results(summaries), keys, strict=True)]
