"""Evaluation sets that shards draw, against make_evaluation_set of all near pairs, also where shards restart."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from al_ray.cluster.candidates.owning import OwnsCandidates
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.pool.sharded_retriever import PoolSearch
from al_ray.cluster.workers import get_results
from al_ray.core.candidates import HIGHEST
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.labels import Model
from al_ray.core.pairs import NO_KEYS
from al_ray.datasets.task_folder import write_task
from al_ray.metrics.strata import EvaluationSet, make_evaluation_set, split_by_cosine
from al_ray.search.shard import PoolShard
from al_ray.search.shard_spec import ShardSpec
from tests.cluster.drawn_sets import drawn_set
from tests.cluster.test_stages_by_shards import BANDS, MODEL, pool_of, task_of
from tests.search.test_search_over_shards import asked
from tests.search.test_search_over_shards import pool_of as encoded_pool_of

# Of some 700 pairs most draws are accepted; near pairs are all of each band or a few; 10^6 random pairs are all others.
CONFIGS = [
    EvaluationConfig(near_neighbours=3, random_pairs=40),
    EvaluationConfig(near_neighbours=3, near_pairs=20, bands=(0.95, 0.8), random_pairs=60, seed=3),
    EvaluationConfig(near_neighbours=100, near_pairs=50, random_pairs=10**6),
]


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "two-sided"])
@pytest.mark.parametrize("make", ["make_task", "make_ruled"])
def test_shards_draw_the_set_of_one_process(either_way, request, tmp_path, make, symmetric):
    task = request.getfixturevalue(make)(symmetric, twins=9 * symmetric)
    write_task(task, tmp_path / "task", {})
    with encoded_pool_of(asked(tmp_path / "task", block=16), 3, tmp_path) as pool:
        model = pool.untrained()
        for config in CONFIGS:
            found = drawn_set(PoolSearch(pool, pool.task.split("train")), model, config, tmp_path)
            assert as_lists(found) == as_lists(in_one_process(pool, model, config))


def in_one_process(pool: ShardedPool, model: Model, config: EvaluationConfig) -> EvaluationSet:
    """The evaluation set from the keys of all near pairs."""
    split = pool.task.split("train")
    search = PoolSearch(pool, split, config=replace(pool.search, kind="knn", neighbours=config.near_neighbours))
    near = np.sort(search.least(model, HIGHEST, split.space.total, NO_KEYS).keys)
    parts = split_by_cosine(near, pool.scores(model, split, split.space.pairs(near)), config.bands)
    return make_evaluation_set(split, parts, config.near_pairs, config.random_pairs, config.seed)


def as_lists(evalset: EvaluationSet) -> list[Any]:
    strata = [(one.name, one.keys.dtype, one.keys.tolist(), one.population) for one in evalset.strata]
    return [evalset.split, strata, evalset.positives.tolist(), evalset.total_pairs]


def test_an_evaluation_set_is_made_again_where_a_shard_lost_its_pairs(in_process, monkeypatch, caplog, tmp_path):
    with pool_of(task_of(1000), 3) as (pool, handles):
        wanted, stage = as_lists(in_one_process(pool, MODEL, BANDS)), pool.on_all
        lost = [("_near_by_owner", "own_near"), *(("_strata", stage) for stage in ("ask_strata", "store_strata"))]
        for state, before in (*lost, ("", "")):
            calls = Counter[str]()

            def forgetful(*arguments: Any, state=state, before=before, calls=calls, **options: Any) -> list[Any]:
                method = arguments[3]
                if method == before and not calls[method]:
                    # What a restart leaves.
                    get_results(handles[1].actor.__ray_call__.remote(lambda shard: setattr(shard, state, None)))
                calls[method] += 1
                return stage(*arguments, **options)

            monkeypatch.setattr(pool, "on_all", forgetful)
            caplog.clear()
            found = drawn_set(PoolSearch(pool, pool.task.split("train")), MODEL, BANDS, tmp_path / f"{state}-{before}")
            assert as_lists(found) == wanted
            assert calls["find_near"] == 1 + bool(state)
            said = [record.message for record in caplog.records if record.name.startswith("al_ray.")]
            assert ["a shard restarted" in message for message in said] == [True] * bool(state)


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.parametrize(
    "method",
    [
        *("find_near", "ask_strata", "sample_of"),
        *(pytest.param(method, marks=pytest.mark.long) for method in ("own_near", "near_of", "store_strata")),
    ],
)
def test_a_shard_that_dies_while_an_evaluation_set_is_made_changes_nothing(local_ray, tmp_path, method):
    dying = dying_once(method, tmp_path / "flag")

    def actor(shard: type[PoolShard]) -> Callable[[ShardSpec], OwnsCandidates]:
        def make(spec: ShardSpec) -> OwnsCandidates:
            return dying(shard(spec))

        return make

    with pool_of(task_of(1000), 3, make=actor) as (pool, _):
        found = drawn_set(PoolSearch(pool, pool.task.split("train")), MODEL, BANDS, tmp_path)
        assert (tmp_path / "flag").exists()
        assert as_lists(found) == as_lists(in_one_process(pool, MODEL, BANDS))


def dying_once(method: str, flag: Path) -> type[OwnsCandidates]:
    """Actors of which that of shard 1 dies the first time that a method is called."""

    def call(self: Any, *arguments: Any) -> Any:
        if self.spec.shard == 1 and not flag.exists():
            flag.touch()
            os._exit(1)
        return getattr(OwnsCandidates, method)(self, *arguments)

    def stage(self: Any, *arguments: Any) -> Iterator[Any]:
        yield from call(self, *arguments)

    return type("Dying", (OwnsCandidates,), {method: call if method.endswith("_of") else stage})
