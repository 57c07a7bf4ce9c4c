"""What the driver sends and receives in a stage grows with the shards, and not with the texts."""

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest

from al_ray.cluster.candidates.owning import OwnsCandidates, pool_actor
from al_ray.cluster.pool import sharded_cells, sharded_pool, sharded_strata
from al_ray.cluster.pool.ring import GROUPS, MAX_UPDATES
from al_ray.cluster.pool.sharded_cells import learn_cells
from al_ray.cluster.pool.sharded_pool import ShardedPool, StoredStratum
from al_ray.cluster.pool.sharded_retriever import PoolSearch
from al_ray.cluster.pool.sharded_strata import load_strata
from al_ray.cluster.token_store import parts_of
from al_ray.cluster.workers import deploy, get_results, put, stream_results
from al_ray.core.candidates import HIGHEST, Order
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import EvaluationConfig, SearchConfig
from al_ray.core.labels import Model
from al_ray.core.pairs import NO_KEYS
from al_ray.core.progress import no_progress
from al_ray.core.scorer import Scorer
from al_ray.core.task import Corpus, Task
from al_ray.core.vectors import Block
from al_ray.datasets.splitting import symmetric_task
from al_ray.metrics.estimator import request_counts
from al_ray.metrics.strata import make_evaluation_set
from al_ray.search.kmeans import ITERATIONS, first_rows, next_centroids, sum_by_cell
from al_ray.search.shard import PoolShard
from al_ray.search.shard_spec import ShardSpec
from tests.cluster.drawn_sets import stored_set
from tests.ways import HERE, ON_RAY

MODEL = Model("", "drawn", Scorer(9.0, -5.0))
STRATA = EvaluationConfig(near_neighbours=4, near_pairs=300, random_pairs=1000)
CELLS = 16
BANDS = replace(STRATA, bands=(0.95,))
# Calls to each shard: all find near pairs, and own them; of each stratum hashes or rejected draws; and all merge.
CALLS = {
    "strata": {"find_near": 1, "own_near": 1, "ask_strata": 2, "store_strata": 1, "drop_strata": 1},
    "bands": {"find_near": 1, "own_near": 1, "ask_strata": 3, "store_strata": 1, "drop_strata": 1},
}


class DrawnVectors(PoolShard):
    """A shard whose vectors are drawn: row i has those of seed i."""

    def rows(self, part: str) -> np.ndarray:
        """Every `shards`-th of the texts."""
        return np.arange(self.spec.shard, int(self.spec.folder), self.spec.shards)

    def embed(self, model: Model, part: str):
        """Draw the vectors."""
        self._use(model)
        rows = self.rows(part)
        self._vectors[part] = Block(rows, vectors_of(rows))
        yield len(rows)


def vectors_of(rows: np.ndarray) -> np.ndarray:
    """(n,) rows -> (n, 8) unit vectors."""
    angles = rows[:, None] * np.array([1.0, 0.7, 0.3, 0.11])
    return (np.concatenate([np.sin(angles), np.cos(angles)], axis=1) / 2).astype(np.float32)


@dataclass
class Counted:
    """A handle of an actor that counts the calls that the driver makes; others get the handle itself."""

    actor: Any
    calls: Counter = field(default_factory=Counter)

    def __reduce__(self):
        return _itself, (self.actor,)

    def __getattr__(self, name: str) -> Any:
        return _Method(self, name, getattr(self.actor, name))


def _itself(actor: Any) -> Any:
    return actor


@dataclass
class _Method:
    handle: Counted
    name: str
    method: Any

    def options(self, **options: Any) -> "_Method":
        return _Method(self.handle, self.name, self.method.options(**options))

    def remote(self, *arguments: Any) -> Any:
        self.handle.calls[self.name] += 1
        return self.method.remote(*arguments)


def task_of(texts: int) -> Task:
    """Texts of which eight and eight match."""
    names = tuple(map(str, range(texts)))
    negatives, split_of = np.empty((0, 2), dtype=np.int64), np.zeros(texts, dtype=np.int64)
    return symmetric_task("drawn", Corpus(names, names), np.arange(texts) // 2 % 500, negatives, split_of)


@contextmanager
def pool_of(
    task: Task,
    shards: int,
    shard: type[PoolShard] = DrawnVectors,
    make: Callable[[type[PoolShard]], Callable[[ShardSpec], OwnsCandidates]] = pool_actor,
    index: str = "Flat",
):
    encoder, search = EncoderConfig("random-bert", 1, 24, 8, 1), SearchConfig(block=256, neighbours=40, index=index)
    specs = [ShardSpec(str(len(task.left)), encoder, search, number, shards) for number in range(shards)]
    with deploy(make(shard), specs, ClusterConfig(shards=shards, timeout=600), groups=GROUPS) as actors:
        counted = [Counted(actor) for actor in actors]
        pool = ShardedPool(counted, parts_of(task), task, search, no_progress)
        pool.embed(MODEL, ["train"])
        pool.sizes(pool.parts["train", "left"])
        yield pool, counted


def stages(pool: ShardedPool, folder: Path) -> dict[str, Any]:
    """Searches, and an evaluation at as many positives and sampled pairs whatever the number of texts."""
    split = pool.task.split("train")
    positives = split.positives[:: len(split.positives) // 400][:400]
    scores = pool.scores(MODEL, split, positives)
    request = request_counts(split, scores)
    drawn = make_evaluation_set(split, {}, None, 1000, 0)
    shared = [StoredStratum(stratum.summary, put(stratum.keys)) for stratum in drawn.strata]
    searches = {kind: PoolSearch(pool, split, config=replace(pool.search, kind=kind)) for kind in ("exact", "knn")}
    found = {kind: search.least(MODEL, HIGHEST, 300, NO_KEYS) for kind, search in searches.items()}
    assert all(len(candidates) == 300 for candidates in found.values())

    def sampled(config: EvaluationConfig) -> int:
        stored = stored_set(searches["knn"], MODEL, config, Path(mkdtemp(dir=folder)))
        sizes = [stratum.summary.size for stratum in load_strata(pool, stored, split)]
        strata = stored.read_for(split).strata
        assert sizes == [len(one.keys) for one in strata]
        return sum(int(one.keys.sum()) for one in strata)

    return {
        "strata": lambda: sampled(STRATA),
        "larger": lambda: sampled(replace(STRATA, near_pairs=1200, random_pairs=10_000)),
        # Of more texts the nearest are nearer; each band has more pairs than are sampled.
        "bands": lambda: sampled(replace(STRATA, bands=(1 - 50 / len(pool.task.left),))),
        "exact": lambda: searches["exact"].least(MODEL, HIGHEST, 300, NO_KEYS).cosines.sum(),
        "knn": lambda: searches["knn"].least(MODEL, HIGHEST, 300, NO_KEYS).cosines.sum(),
        "score": lambda: pool.scores(MODEL, split, positives).sum(),
        "sample": lambda: pool.count_sampled_negatives(MODEL, split, shared, request)[0].above[-1],
        "count": lambda: pool.count_negatives(MODEL, split, request).above[-1],
        "cells": lambda: learn_cells(pool.shards, MODEL, pool.parts["train", "right"], split.space.right, CELLS).sum(),
    }


@dataclass(frozen=True)
class Traffic:
    """What a stage made the driver do: calls by name, words and bytes that it received; and the result."""

    calls: dict[str, int]
    words: int
    received: int
    result: float


def traffic(texts: int, shards: int, folder: Path) -> dict[str, Traffic]:
    """The traffic of each stage."""
    measured, values = {}, list[Any]()

    def noted(stream: Any) -> Iterator[Any]:
        for value in stream_results(stream):
            values.append(value)
            yield value

    def noted_results(refs: Any) -> Any:
        found = get_results(refs)
        values.extend(found if isinstance(refs, list) else [found])
        return found

    with pool_of(task_of(texts), shards) as (pool, handles), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharded_pool, "stream_results", noted)
        for module in (sharded_cells, sharded_strata):
            patch.setattr(module, "get_results", noted_results)
        for name, stage in stages(pool, folder).items():
            values.clear()
            for handle in handles:
                handle.calls.clear()
            result = float(stage())
            calls = sum((handle.calls for handle in handles), Counter())
            received = sum(len(pickle.dumps(value)) for value in values)
            measured[name] = Traffic(dict(calls), len(values), received, result)
    return measured


@pytest.fixture(scope="module", params=[HERE, pytest.param(ON_RAY, marks=pytest.mark.more)])
def measured(request, tmp_path_factory) -> dict[tuple[int, int], dict[str, Traffic]]:
    if request.param == ON_RAY:
        request.getfixturevalue("local_ray")
    folder = tmp_path_factory.mktemp("sets")
    return {(texts, shards): traffic(texts, shards, folder) for texts in (1000, 4000) for shards in (2, 4)}


@pytest.mark.parametrize("stage", ["strata", "larger", "bands"])
def test_an_evaluation_set_is_made_by_calls_and_bytes_that_do_not_grow_with_texts_or_samples(measured, stage):
    for shards in (2, 4):
        few, many = (measured[texts, shards][stage] for texts in (1000, 4000))
        # One shard is asked whether the index must be trained, and one to read the set.
        every = CALLS["bands" if stage == "bands" else "strata"]
        wanted = {"sample_size": 1, **{name: shards * count for name, count in every.items()}, "read_strata": 1}
        assert few.calls == many.calls == wanted
        assert many.words <= shards * (2 * MAX_UPDATES + 10)
        # 200 to 400 hashes of each near stratum, and at most 200 numbers of rejected draws. The samples are stored by a
        # shard: in "larger" they are 11,200 keys, 90 kB.
        for one in (few, many):
            assert one.received < 6000 + 100 * one.words
    for texts in (1000, 4000):
        assert measured[texts, 2][stage].result == measured[texts, 4][stage].result


@pytest.mark.parametrize("stage", ["exact", "knn", "score", "sample", "count"])
def test_calls_and_bytes_grow_with_shards_and_not_with_texts(measured, stage):
    for shards in (2, 4):
        few, many = (measured[texts, shards][stage] for texts in (1000, 4000))
        assert few.calls == many.calls
        # A search by neighbours asks one shard whether the index must be trained.
        assert sum(many.calls.values()) == shards + (stage == "knn")
        assert many.words <= shards * (MAX_UPDATES + 1)
        # Words are a few bytes each.
        assert many.received <= 1.05 * few.received + 100 * many.words
    assert measured[4000, 4][stage].received <= 2.1 * measured[4000, 2][stage].received
    for texts in (1000, 4000):
        assert measured[texts, 2][stage].result == pytest.approx(measured[texts, 4][stage].result, rel=1e-12)


def test_cells_are_learned_by_calls_and_bytes_that_do_not_grow_with_texts(measured):
    for shards in (2, 4):
        few, many = (measured[texts, shards]["cells"] for texts in (1000, 4000))
        # In each iteration all shards add their texts, and two of them the sums.
        calls = {"vectors_of": shards, "sum_cells": shards * ITERATIONS, "add_cells": 2 * ITERATIONS}
        assert few.calls == many.calls == calls
        # 8 numbers of 4 bytes for each cell, and 8 bytes more: first a row, and then ten times a count.
        for one in (few, many):
            assert CELLS * 440 <= one.received <= CELLS * 440 + 1000 * one.words
    for texts in (1000, 4000):
        for shards in (2, 4):
            assert measured[texts, shards]["cells"].result == cells_of_one(texts)


def cells_of_one(texts: int) -> float:
    """What one process learns from all texts."""
    vectors = vectors_of(np.arange(texts))
    centroids = vectors[np.sort(first_rows(np.arange(texts), CELLS))]
    for _ in range(ITERATIONS):
        sums = sum_by_cell(vectors, np.arange(texts), centroids)
        centroids = next_centroids([(sums.counts, sums.centroids())])
    return float(centroids.sum())


@pytest.mark.parametrize("index", ["IVF8,SQ8", "IVF8_HNSW4,Flat"])
def test_indexes_whose_cells_or_codes_faiss_learns_find_the_pairs_too(in_process, index):
    with pool_of(task_of(1000), 2, index=index) as (pool, _):
        split, kinds = pool.task.split("train"), ("exact", "knn")
        searches = [PoolSearch(pool, split, config=replace(pool.search, kind=kind)) for kind in kinds]
        exact, found = (search.least(MODEL, HIGHEST, 300, NO_KEYS).keys for search in searches)
    assert len(found) == 300
    assert len(np.intersect1d(exact, found)) > 290


@pytest.mark.slow
def test_neighbours_are_asked_for_again_of_the_shard_that_has_them_alone(in_process, tmp_path):
    # 1,000 texts in four groups, each of which is a shard's own where there are four.
    class Noting(DrawnVectors):
        def embed(self, model: Model, part: str):
            self._use(model)
            every = np.arange(int(self.spec.folder))
            vectors = np.eye(8)[every % 4] + 0.05 * np.random.default_rng(0).standard_normal((len(every), 8))
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            own = self.rows(part)
            self._vectors[part] = Block(own, vectors[own].astype(np.float32))
            yield len(own)

        def nearest(self, *arguments: Any, **options: Any) -> Any:
            answer = super().nearest(*arguments, **options)
            portion = type(arguments[5]).__name__
            with (tmp_path / f"{self.spec.shards}-{self.spec.shard}").open("a") as notes:
                notes.write(f"{portion} {answer[1].size}\n")
            return answer

    task, found, notes = task_of(1000), [], {}
    for shards in (1, 4):
        with pool_of(task, shards, Noting) as (pool, _):
            knn = replace(pool.search, kind="knn", neighbours=40)
            # The farthest of the nearest: where texts are missed, it has others.
            best = PoolSearch(pool, task.split("train"), config=knn).least(MODEL, Order(-np.inf), 300, NO_KEYS)
            found.append((best.keys.tolist(), best.cosines.tolist()))
        lines = [(tmp_path / f"{shards}-{shard}").read_text().split() for shard in range(shards)]
        notes[shards] = [line[::2] for line in lines], sum(int(size) for line in lines for size in line[1::2])
    assert found[0] == found[1]
    # One block of 250 texts a shard: each is asked for some of each block's, and for more of its own.
    assert notes[1][0] == [["NoneType"] * 4]
    assert [sorted(each) for each in notes[4][0]] == [["First"] * 4 + ["Rest"]] * 4
    # 10.25 + 4 * 3.2 = 23.1, so 25 of each shard and at most 49 of one; 49 each in one round.
    assert notes[4][1] <= 1000 * (4 * 25 + 49) < 1000 * 4 * 49


def test_the_cells_of_a_query_are_found_by_its_own_shard(in_process, tmp_path):
    class Noting(DrawnVectors):
        def probed(self, *arguments: Any, **options: Any) -> Any:
            self.note("probed", arguments[2])
            return super().probed(*arguments, **options)

        def nearest(self, *arguments: Any, **options: Any) -> Any:
            self.note(type(arguments[2]).__name__, arguments[2])
            return super().nearest(*arguments, **options)

        def note(self, what: str, queries: Block) -> None:
            with (tmp_path / f"{self.spec.shards}-{self.spec.shard}").open("a") as notes:
                notes.write(f"{what} {len(queries.rows)}\n")

    for index, kind in (("Flat", "Block"), ("IVF8,Flat", "ProbedBlock")):
        with pool_of(task_of(1000), 2, Noting, index=index) as (pool, _):
            split = pool.task.split("train")
            PoolSearch(pool, split, config=replace(pool.search, kind="knn")).least(MODEL, HIGHEST, 300, NO_KEYS)
        for shard in range(2):
            lines = Counter((tmp_path / f"2-{shard}").read_text().splitlines())
            # Two blocks a shard: its own are asked about, and all are answered.
            assert lines == {"probed 256": 1, "probed 244": 1, f"{kind} 256": 2, f"{kind} 244": 2}
            (tmp_path / f"2-{shard}").unlink()


def hungry_once(method: str, flag: Path) -> type:
    """A shard that runs out of memory the first time that a method of shard 1 is called."""

    def call(self: Any, *arguments: Any) -> Any:
        if self.spec.shard == 1 and not flag.exists():
            flag.touch()
            np.ones(2**50)
        return getattr(DrawnVectors, method)(self, *arguments)

    return type("Hungry", (DrawnVectors,), {method: call})


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.parametrize(
    ("method", "stage"),
    [
        ("nearest", "knn"),
        ("block", "exact"),
        ("sum_cells", "cells"),
        *(pytest.param(*case, marks=pytest.mark.long) for case in [("cosines", "knn"), ("vectors_of", "score")]),
        pytest.param("add_cells", "cells", marks=pytest.mark.long),
    ],
)
def test_memory_that_runs_out_beside_a_stage_costs_time_alone(local_ray, tmp_path, method, stage):
    # The stage waits for this very call, in the same process: both must end before Ray starts the shard anew.
    task, results = task_of(1000), []
    for shard in (DrawnVectors, hungry_once(method, tmp_path / "flag")):
        with pool_of(task, 2, shard) as (pool, _):
            every = stages(pool, tmp_path) if stage != "score" else {}
            split = task.split("train")
            run = every.get(stage, lambda pool=pool, split=split: pool.scores(MODEL, split, split.positives).sum())
            results.append(run())
    assert (tmp_path / "flag").exists()
    assert results[0] == results[1]
