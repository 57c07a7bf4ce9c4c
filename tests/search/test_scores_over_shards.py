"""Scores that compare across texts, over shards: those of a slow twin, with the same bits for any shards."""

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.pool.sharded_retriever import PoolSearch
from al_ray.cluster.services import deploy_pool
from al_ray.core.candidates import HIGHEST, Order
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import Precision
from al_ray.core.config.sections import ScoringConfig, SearchConfig
from al_ray.core.errors import BadOption
from al_ray.core.labels import Model
from al_ray.core.neighbourhood import NEIGHBOURS
from al_ray.core.pairs import NO_KEYS
from al_ray.core.scorer import Floats, Scorer
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.metrics.average_precision import counts_above
from al_ray.metrics.estimator import request_counts

SCORER = Scorer(9.0, -4.0, neighbourhood=0.5)
BOTH = replace(SCORER, both_sides=True)
ORDERS = [HIGHEST, Order(float("-inf")), Order(0.45)]


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["any pair", "ruled"])
def place(request, make_task, make_ruled, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("task") / "task"
    write_task((make_ruled if request.param else make_task)(False), folder, {})
    return folder


@pytest.fixture(scope="module", params=["two sets", pytest.param("ruled", marks=pytest.mark.slow), "one set"])
def place_of_both(request, make_task, make_ruled, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("task") / "task"
    write_task((make_ruled if request.param == "ruled" else make_task)(request.param == "one set"), folder, {})
    return folder


@contextmanager
def pool_of(place: Path, out: Path, shards: int, vectors: Precision = "fp32", **search):
    config = RunConfig(
        task=str(place), encoder="random-bert", encoder_layers=1, max_length=24, encoder_batch=8, threads=1,
        vectors=vectors, search=SearchConfig(**search),
    )  # fmt: skip
    task, cluster = read_task(place), ClusterConfig(shards=shards, timeout=600)
    with deploy_pool(config, cluster, task, out, lambda *_: None) as pool:
        yield pool, replace(pool.untrained(), scorer=SCORER)


def every_key(pool: ShardedPool) -> np.ndarray:
    space = pool.task.split("train").space
    return np.sort(space.at(np.arange(space.total)))


def scores_by_loops(pool: ShardedPool, model: Model) -> Floats:
    """The scores of all pairs of the pool that can match, from their cosines."""
    split, keys = pool.task.split("train"), every_key(pool)
    pairs = split.space.pairs(keys)
    cosines = pool.scores(replace(model, scorer=None), split, pairs)
    # Of one set of texts a text is on either side.
    sides = [[pairs], [pairs[:, ::-1]]] if not split.space.symmetric else [[pairs, pairs[:, ::-1]]] * 2
    assert model.scorer is not None
    offsets = np.zeros((2, len(keys)))
    for side in range(1 + model.scorer.both_sides):
        rows = np.concatenate([turned[:, 0] for turned in sides[side]])
        every = np.tile(cosines, len(sides[side]))
        for row in np.unique(pairs[:, side]):
            nearest = sorted(every[rows == row].tolist(), reverse=True)[:NEIGHBOURS]
            offsets[side, pairs[:, side] == row] = 0.5 * (sum(nearest) / len(nearest))
    return cosines - (offsets[0] + offsets[1])


def test_each_stage_takes_the_scores_of_a_slow_twin(in_process, place, tmp_path):
    check_each_stage(place, tmp_path, SCORER)


def test_each_stage_takes_the_scores_of_both_sides_of_a_slow_twin(in_process, place_of_both, tmp_path):
    check_each_stage(place_of_both, tmp_path, BOTH)


def check_each_stage(place: Path, tmp_path: Path, scorer: Scorer) -> None:
    with pool_of(place, tmp_path, 2, neighbours=10_000, block=7) as (pool, model):
        model = replace(model, scorer=scorer)
        split, keys = pool.task.split("train"), every_key(pool)
        scores = scores_by_loops(pool, model)
        assert pool.scores(model, split, split.space.pairs(keys)).tolist() == scores.tolist()
        for kind in ("exact", "knn"):
            search = PoolSearch(pool, split, config=replace(pool.search, kind=kind))
            for order in ORDERS:
                found = search.least(model, order, 40, keys[::3])
                left = ~np.isin(keys, keys[::3])
                wanted = np.lexsort((keys[left], order.cost(scores[left])))[:40]
                assert found.keys.tolist() == keys[left][wanted].tolist()
                assert found.cosines.tolist() == scores[left][wanted].tolist()
        rows, cutoff = split.space.left[::2], float(np.sort(scores)[-60])
        pairs = split.space.pairs(keys[(scores >= cutoff) & ~np.isin(keys, keys[::3])])
        above = pairs.ravel() if split.space.symmetric else pairs[:, 0]
        counts = PoolSearch(pool, split).count_partners(model, rows, cutoff, keys[::3])
        assert counts.tolist() == [int((above == row).sum()) for row in rows]
        request = request_counts(split, pool.scores(model, split, split.positives))
        negatives = ~np.isin(keys, split.positive_keys)
        counted = pool.count_negatives(model, split, request)
        assert counted.above.tolist() == counts_above(request.thresholds, scores[negatives]).tolist()
        pairs, symmetric = split.space.pairs(keys), split.space.symmetric
        for side, found in enumerate(PoolSearch(pool, split).best_of_each(model, NO_KEYS)):
            own = [(pairs == row).any(axis=1) if symmetric else pairs[:, side] == row for row in found.rows.tolist()]
            assert found.scores.tolist() == [scores[one].max() for one in own]


def test_the_nearest_by_score_of_both_sides_are_found(in_process, place_of_both, tmp_path):
    """Of two neighbours of each text, which are other texts than the two of the highest cosine."""
    with pool_of(place_of_both, tmp_path, 3, neighbours=2, block=7) as (pool, model):
        model = replace(model, scorer=BOTH)
        split, keys, scores = pool.task.split("train"), every_key(pool), scores_by_loops(pool, model)
        pairs, found = split.space.pairs(keys), set[int]()
        for row in range(len(pool.task.left)):
            own = np.flatnonzero((pairs == row).any(axis=1) if split.space.symmetric else pairs[:, 0] == row)
            found |= set(keys[own[np.lexsort((pairs[own].sum(axis=1), -scores[own]))[:2]]].tolist())
        search = PoolSearch(pool, split, config=replace(pool.search, kind="knn"))
        assert set(search.least(model, HIGHEST, 10_000, NO_KEYS).keys.tolist()) == found


def test_scores_have_the_same_bits_for_any_shards_and_blocks(either_way, place, tmp_path):
    check_bits(place, tmp_path, SCORER)


def test_scores_of_both_sides_have_the_same_bits_for_any_shards_and_blocks(either_way, place_of_both, tmp_path):
    check_bits(place_of_both, tmp_path, BOTH)


def check_bits(place: Path, tmp_path: Path, scorer: Scorer) -> None:
    found = []
    for number, (shards, block) in enumerate([(1, 1000), (2, 7), (3, 1)]):
        with pool_of(place, tmp_path / str(number), shards, "fp16", block=block) as (pool, model):
            model = replace(model, scorer=scorer)
            split = pool.task.split("train")
            means = pool.means_of_nearest(model, split)
            scores = pool.scores(model, split, split.space.pairs(every_key(pool)))
            # Those of an evaluation too, whose texts are others.
            dev = pool.task.split("dev")
            of_dev = pool.scores(model, dev, dev.positives)
            found.append((means.rows.tolist(), means.means.tolist(), scores.tolist(), of_dev.tolist()))
            assert len(PoolSearch(pool, split).least(model, HIGHEST, 5, NO_KEYS)) == 5
    assert found[0] == found[1] == found[2]


def test_one_set_of_texts_is_refused_before_any_work(in_process, make_task, tmp_path):
    write_task(make_task(True), tmp_path / "task", {})
    task, config = read_task(tmp_path / "task"), RunConfig(task="t", scoring=ScoringConfig(0.5))
    with (
        pytest.raises(
            BadOption, match=r"a neighbourhood of 0\.5 \(`RunConfig.scoring.neighbourhood.* one set of texts"
        ),
        deploy_pool(config, ClusterConfig(), task, tmp_path / "out", lambda *_: None),
    ):
        pass
    assert not (tmp_path / "out").exists()
