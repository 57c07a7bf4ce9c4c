"""An evaluation set drawn by the shards: the driver gets numbers, a few hashes, and the keys of the samples."""

import logging
from typing import Any

from al_ray.cluster.pool.ring import WORDS
from al_ray.cluster.pool.sharded_retriever import PoolSearch
from al_ray.cluster.workers import put
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.labels import Model
from al_ray.metrics.owned_strata import StrataRequest, sample_by_owners
from al_ray.metrics.strata import EvaluationSet

logger = logging.getLogger(__name__)


class _StrataLost(Exception):
    """A shard restarted and has lost what it knew of the strata."""


def draw_evaluation_set(search: PoolSearch, model: Model, config: EvaluationConfig) -> EvaluationSet:
    """Return the evaluation set of a split: near pairs under a model, and random pairs.

    If a shard restarts meanwhile, all shards begin again.
    """
    while True:
        try:
            return _draw(search, model, config)
        except _StrataLost:
            logger.warning("a shard restarted: the evaluation set of %s is made again", search.split.name)


def _draw(search: PoolSearch, model: Model, config: EvaluationConfig) -> EvaluationSet:
    pool, split = search.pool, search.split

    def on_all(method: str, *arguments: Any) -> list[Any]:
        answers = pool.on_all(model, split, "score", method, *arguments, whole=WORDS * len(pool.shards))
        if any(answer is None for answer in answers):
            raise _StrataLost
        return answers

    def ask(method: str, *arguments: Any) -> list[Any]:
        return on_all("ask_strata", method, *arguments)

    search.find_near(model, config.near_neighbours)
    space = split.space
    request = StrataRequest(split.name, split.positive_keys, config.bands, config.seed, space.width, space.symmetric)
    sizes = on_all("own_near", put(request))
    evalset = sample_by_owners(split, config.bands, sizes, config.most_near_pairs, config.random_pairs, ask)
    pool.on_all(model, split, "score", "drop_strata", whole=WORDS * len(pool.shards))
    return evalset
