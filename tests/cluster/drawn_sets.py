"""Evaluation sets that shards draw and store, for tests that look at their pairs."""

from pathlib import Path

from al_ray.cluster.pool.sharded_retriever import PoolSearch
from al_ray.cluster.pool.sharded_strata import store_evaluation_set
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.labels import Model
from al_ray.metrics.strata import EvaluationSet
from al_ray.runs.evaluation_sets import EvaluationSets, StoredSet


def stored_set(search: PoolSearch, model: Model, config: EvaluationConfig, folder: Path) -> StoredSet:
    """The set that shards draw, in a folder."""
    sets, made_from = EvaluationSets([folder]), {"split": search.split.name, "config": repr(config)}
    store_evaluation_set(search, model, config, sets.new_place(made_from), made_from)
    found = sets.find(made_from)
    assert found is not None
    return found


def drawn_set(search: PoolSearch, model: Model, config: EvaluationConfig, folder: Path) -> EvaluationSet:
    """The set that shards draw and store, with its pairs."""
    return stored_set(search, model, config, folder).read_for(search.split)
