"""Both kinds of search over shards: the same pairs whatever the shards and blocks, and those a double loop finds."""

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.pool.sharded_retriever import PoolSearch, Query, warn_of_index
from al_ray.cluster.run import RunWorkers
from al_ray.cluster.services import deploy_pool
from al_ray.core.candidates import HIGHEST, Candidates, Order
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import Precision
from al_ray.core.config.sections import EvaluationConfig, SearchConfig
from al_ray.core.errors import BadOption, NoPlacement
from al_ray.core.pairs import NO_KEYS
from al_ray.datasets.task_folder import read_task, write_task

ORDERS = {"highest": HIGHEST, "lowest": Order(float("-inf")), "middle": Order(0.85)}


def asked(task: Path, vectors: Precision = "fp32", **search) -> RunConfig:
    return RunConfig(
        task=str(task), encoder="random-bert", encoder_layers=1, max_length=24, encoder_batch=8, threads=1,
        vectors=vectors, search=SearchConfig(**search),
    )  # fmt: skip


KINDS = ["two-sided", "symmetric, ruled"]
KINDS += [pytest.param(kind, marks=pytest.mark.slow) for kind in ("symmetric", "two-sided, ruled")]


@pytest.fixture(scope="module", params=KINDS)
def place(request, make_task, make_ruled, tmp_path_factory) -> Path:
    """A task folder; one text stands in it nine times, so that many pairs have one cosine."""
    folder, make = tmp_path_factory.mktemp("task"), make_ruled if "ruled" in request.param else make_task
    write_task(make(True, twins=9) if "symmetric" in request.param else make(False), folder / "task", {})
    return folder / "task"


@contextmanager
def pool_of(config: RunConfig, shards: int, out: Path, **where):
    task, cluster = read_task(Path(config.task)), ClusterConfig(shards=shards, timeout=600, **where)
    with deploy_pool(config, cluster, task, out, lambda *_: None) as pool:
        yield pool


def least(pool: ShardedPool, order: Order, count: int, labelled=NO_KEYS) -> Candidates:
    return PoolSearch(pool, pool.task.split("train")).least(pool.untrained(), order, count, labelled)


def by_loops(pool: ShardedPool, order: Order, count: int, labelled) -> list[int]:
    """The keys that a sort of all pairs of the pool gives."""
    split = pool.task.split("train")
    keys = np.sort(split.space.at(np.arange(split.space.total)))
    keys = keys[~np.isin(keys, labelled)]
    costs = order.cost(pool.scores(pool.untrained(), split, split.space.pairs(keys)))
    return keys[np.lexsort((keys, costs))[:count]].tolist()


def test_exact_finds_what_a_double_loop_finds(in_process, place, tmp_path):
    with pool_of(asked(place, kind="exact", block=7), 2, tmp_path) as pool:
        space = pool.task.split("train").space
        labelled = np.sort(space.at(np.arange(0, space.total, 3)))
        for order in ORDERS.values():
            for count in (1, 40, space.total):
                found = least(pool, order, count, labelled)
                assert found.keys.tolist() == by_loops(pool, order, count, labelled)
        assert len(least(pool, HIGHEST, 0)) == 0
        assert len(least(pool, HIGHEST, 5, np.sort(space.at(np.arange(space.total))))) == 0


@pytest.mark.parametrize(
    ("vectors", "index", "kinds"),
    [
        ("fp32", {}, ("exact", "knn")),
        ("fp32", {"index": "IVF4,Flat", "nprobe": 2}, ("knn",)),
        pytest.param("fp16", {}, ("exact",), marks=pytest.mark.slow),
        pytest.param("fp16", {"index": "IVF4,SQfp16", "nprobe": 2}, ("knn",), marks=pytest.mark.slow),
    ],
    ids=["exact and knn", "ivf", "exact-fp16", "ivf-fp16"],
)
def test_the_same_pairs_whatever_the_shards_blocks_and_vectors(either_way, place, tmp_path, vectors, index, kinds):
    if index and read_task(place).rule is not None:
        with pytest.raises(BadOption, match=r"cannot match \(`same='country'` `different='source'`\), which an index"):
            pool_of(asked(place, vectors, **index), 1, tmp_path).__enter__()
        return
    found: dict[tuple[str, str], list[tuple[list[int], list[float]]]] = {}
    # And wherever vectors are: in memory, mapped, kept.
    for shards, block, where in ((1, 1024, {}), (2, 16, {"mapped_above": 0}), (3, 7, {"keep_vectors": True})):
        config = asked(place, vectors, neighbours=5, block=block, **index)
        with pool_of(config, shards, tmp_path / str(shards), **where) as pool:
            for kind in kinds:
                search = PoolSearch(pool, pool.task.split("train"), config=replace(config.search, kind=kind))
                for name, order in ORDERS.items():
                    best = search.least(pool.untrained(), order, 60, NO_KEYS)
                    found.setdefault((kind, name), []).append((best.keys.tolist(), best.cosines.tolist()))
    for one, two, three in found.values():
        assert len(one[0]) == 60
        assert one == two == three


def test_pairs_above_a_cutoff_and_best_partners_are_those_of_a_sort_whatever_the_shards(in_process, place, tmp_path):
    found = list[tuple[list[int], list[int], list[dict[int, int]]]]()
    for shards, block in ((1, 1024), (3, 7)):
        with pool_of(asked(place, kind="exact", block=block), shards, tmp_path / str(shards)) as pool:
            split, model = pool.task.split("train"), pool.untrained()
            keys = np.sort(split.space.at(np.arange(split.space.total)))
            excluded, keys = keys[::5], np.delete(keys, np.s_[::5])
            pairs = split.space.pairs(keys)
            scores = pool.scores(model, split, pairs)
            search = PoolSearch(pool, split)
            cutoff = float(np.sort(scores)[-50])
            above = search.least_of_each(model, [Query(HIGHEST, 10_000, excluded, -cutoff)])[0]
            assert sorted(above.keys.tolist()) == keys[scores >= cutoff].tolist()
            some, ends = split.space.left[::3], pairs[scores >= cutoff]
            counts = search.count_partners(model, some, cutoff, excluded)
            sides = ends if pool.task.symmetric else ends[:, :1]
            assert counts.tolist() == [int((sides == row).sum()) for row in some]
            assert counts.sum() > 0
            best = [
                dict(zip(side.rows.tolist(), side.partners.tolist(), strict=True))
                for side in search.best_of_each(model, excluded)
            ]
            ends = np.concatenate([pairs, pairs[:, ::-1]]) if pool.task.symmetric else pairs
            every = np.tile(scores, 2) if pool.task.symmetric else scores
            for side, one in zip(best, (0, 0) if pool.task.symmetric else (0, 1), strict=True):
                rows, partners = ends[:, one], ends[:, 1 - one]
                # By text, then by score, then by partner: the first of each text is its best.
                order = np.lexsort((partners, -every, rows))
                texts, first = np.unique(rows[order], return_index=True)
                assert side == dict(zip(texts.tolist(), partners[order][first].tolist(), strict=True))
            found.append((above.keys.tolist(), counts.tolist(), best))
    assert found[0] == found[1]


def test_ordered_pairs_are_both_found(in_process, make_task, tmp_path):
    write_task(make_task(True), tmp_path / "task", {})
    with pool_of(asked(tmp_path / "task", kind="exact", ordered_pairs=True, block=16), 2, tmp_path) as pool:
        found = least(pool, HIGHEST, 30)
    width = len(pool.task.right)
    assert {(key % width) * width + key // width for key in found.keys.tolist()} == set(found.keys.tolist())


@pytest.mark.parametrize(
    ("index", "halves", "warns"),
    [
        *(("Flat", False, False), ("IVF64,Flat", False, False), ("IVF64,SQfp16", True, False), ("SQfp16", True, False)),
        *(("IVF64,SQfp16", False, True), ("IVF64,SQ8", True, True), ("HNSW32", False, True), ("IVF64,PQ8", True, True)),
        *(("IVF64_HNSW32,Flat", False, True), ("NSG32", False, True), ("LSH", False, True)),
    ],
)
def test_an_index_whose_answers_depend_on_the_shards_is_warned_of(caplog, index, halves, warns):
    config = SearchConfig(index=index)
    warn_of_index(config, halves, 2)
    assert ("depends on the number of shards" in caplog.text) == warns
    caplog.clear()
    warn_of_index(config, halves, 1)
    warn_of_index(replace(config, kind="exact"), halves, 2)
    assert caplog.text == ""


def test_an_index_that_cannot_find_the_error_examples_is_refused_before_any_label_is_bought(make_task):
    task = make_task(False)
    texts = len(task.split("dev").space.right)
    config = RunConfig(task="task", search=SearchConfig(index=f"IVF{texts},Flat"))
    RunWorkers(ClusterConfig()).check_task_fits(config, task)
    config = replace(config, search=SearchConfig(index=f"IVF{texts + 1},Flat"))
    with pytest.raises(BadOption, match=rf"more cells than the {texts} right texts of dev.*evaluation.examples=0`"):
        RunWorkers(ClusterConfig()).check_task_fits(config, task)
    # Where no example is searched, or not by the index, it is not in the way.
    RunWorkers(ClusterConfig()).check_task_fits(replace(config, evaluation=EvaluationConfig(examples=0)), task)
    RunWorkers(ClusterConfig()).check_task_fits(replace(config, evaluation=EvaluationConfig(splits=())), task)
    RunWorkers(ClusterConfig()).check_task_fits(replace(config, search=replace(config.search, kind="exact")), task)


@pytest.mark.parametrize(("pairs", "kind"), [(20_000_000_000, "exact"), (20_000_000_001, "knn")])
def test_auto_is_decided_by_the_size_of_the_pool_alone(pairs, kind):
    config = RunConfig(task="task", search=SearchConfig(kind="auto"))
    assert config.settled(pairs).search == replace(config.search, kind=kind)
    assert RunConfig(task="task").settled(pairs) == RunConfig(task="task")


@pytest.mark.parametrize("place", ["symmetric", "two-sided"], indirect=True)
def test_an_index_is_measured_and_a_bad_one_told_of(in_process, place, tmp_path, caplog):
    found = {}
    for nprobe in (4, 1):
        search = {"neighbours": 5, "index": "IVF4,Flat", "nprobe": nprobe, "least_recall": 0.99}
        with pool_of(asked(place, **search), 2, tmp_path / str(nprobe)) as pool, caplog.at_level("WARNING"):
            heard: list[float] = []
            PoolSearch(pool, pool.task.split("train"), heard.append).least(pool.untrained(), HIGHEST, 10, NO_KEYS)
            (found[nprobe],) = heard
        assert ("raise `search.nprobe`" in caplog.text) == (nprobe == 1)
    assert 0.2 < found[1] < 0.99 < found[4] <= 1


@pytest.mark.parametrize(
    ("search", "evaluation", "message"),
    [
        ({"neighbours": 2040, "index": "IVF8,Flat"}, {}, "2,039 neighbours at most, and 2,040 are searched"),
        (
            {"kind": "exact", "index": "IVF8,Flat"},
            {"mode": "estimate", "near_neighbours": 2040},
            "and an evaluation set needs 2,040: .*evaluation.near_neighbours`",
        ),
        ({"index": "IVF4096,Flat", "nprobe": 2049}, {}, "searches 2,048 cells at most for a query, and .* is 2,049"),
        ({"kind": "exact", "nprobe": 2049, "index": "IVF4096,Flat"}, {"mode": "estimate"}, "searches 2,048 cells"),
    ],
)
def test_more_than_a_gpu_can_search_is_refused_before_any_actor(
    in_process, make_task, tmp_path, search, evaluation, message
):
    write_task(make_task(False), tmp_path / "task", {})
    config = replace(asked(tmp_path / "task", **search), evaluation=EvaluationConfig(**evaluation))
    task = read_task(tmp_path / "task")
    with (
        pytest.raises(BadOption, match=message),
        deploy_pool(config, ClusterConfig(gpus_per_shard=1), task, tmp_path, print),
    ):
        pass


def test_flat_on_a_gpu_has_no_limit_of_neighbours(local_ray, make_task, tmp_path):
    write_task(make_task(False), tmp_path / "task", {})
    config = replace(asked(tmp_path / "task", neighbours=5000), evaluation=EvaluationConfig(near_neighbours=5000))
    task, cluster = read_task(tmp_path / "task"), ClusterConfig(gpus_per_shard=1, timeout=1)
    # It gets as far as to ask Ray for a GPU, which is not there.
    with pytest.raises(NoPlacement), deploy_pool(config, cluster, task, tmp_path, print):
        pass
