"""Queries of a pool embed what they need: the same answers, each part once per model, and seconds under "embed"."""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.cluster.candidates.owning import pool_actor
from al_ray.cluster.pool.ring import GROUPS
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.pool.sharded_retriever import PoolSearch
from al_ray.cluster.services import deploy_pool, deploy_services
from al_ray.cluster.token_store import parts_of, prepare_pool
from al_ray.cluster.workers import deploy
from al_ray.core.candidates import HIGHEST
from al_ray.core.chunks import vector_chunks
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig, SearchConfig
from al_ray.core.labels import Model
from al_ray.core.pairs import NO_KEYS, Rows
from al_ray.core.scorer import Scorer
from al_ray.core.vectors import Vectors
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.metrics.estimator import request_counts
from al_ray.oracles.simulated import SimulatedOracle
from al_ray.runs.run_folder import opened
from al_ray.search.shard import PoolShard
from al_ray.search.shard_spec import ShardSpec

SHARDS = ClusterConfig(shards=2, timeout=600)
# Of a two-sided task: the left texts of a split, and the right texts, which all splits share.
SIDES, LEFT = 2, 1


@dataclass
class Progress:
    """The stages that were reported complete, in order."""

    complete: list[str] = field(default_factory=list)

    def __call__(self, stage: str, done: int, total: int) -> None:
        if done == total:
            self.complete.append(stage)


def search(pool: ShardedPool) -> object:
    split = pool.task.split("train")
    found = PoolSearch(pool, split).least(pool.untrained(), HIGHEST, 20, NO_KEYS)
    return found.keys.tolist(), found.cosines.tolist()


def count(pool: ShardedPool) -> object:
    split = pool.task.split("train")
    request = request_counts(split, np.linspace(0.5, 1.0, 20))
    return pool.count_negatives(pool.untrained(), split, request).above.tolist()


def cosines(pool: ShardedPool) -> object:
    split = pool.task.split("train")
    return pool.scores(pool.untrained(), split, split.positives).tolist()


def config_of(folder: Path) -> RunConfig:
    return RunConfig(
        task=str(folder), encoder="random-bert", encoder_layers=1, max_length=24, encoder_batch=8, threads=1,
        search=SearchConfig(neighbours=5, block=16, index="IVF4,Flat", nprobe=4),
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(make_task, tmp_path_factory) -> Path:
    """A two-sided task."""
    path = tmp_path_factory.mktemp("task") / "task"
    write_task(make_task(False), path, {})
    return path


@contextmanager
def pool_of(folder: Path, out: Path) -> Iterator[tuple[ShardedPool, Progress]]:
    progress = Progress()
    with deploy_pool(config_of(folder), SHARDS, read_task(folder), out, progress) as pool:
        yield pool, progress


@pytest.mark.parametrize("query", [search, count, cosines])
def test_a_query_embeds_first_and_answers_as_after_an_embedding(in_process, folder, tmp_path, query: Callable):
    with pool_of(folder, tmp_path / "before") as (pool, progress):
        pool.embed(pool.untrained(), ["train"])
        assert progress.complete == ["embed"] * SIDES
        expected = query(pool)
    with pool_of(folder, tmp_path / "lazy") as (pool, progress):
        assert query(pool) == expected
        # Every text is embedded before the first block is asked for, and reported.
        assert progress.complete[:SIDES] == ["embed"] * SIDES
        assert progress.complete.count("embed") == SIDES


def test_vectors_are_embedded_once_per_model_and_split(in_process, folder, tmp_path):
    with pool_of(folder, tmp_path / "out") as (pool, progress):
        for query in (search, count, cosines, search):
            query(pool)
        assert progress.complete.count("embed") == SIDES
        model, dev = pool.untrained(), pool.task.split("dev")
        pool.scores(model, dev, dev.positives)
        assert progress.complete.count("embed") == SIDES + LEFT
        # A scorer changes no vector.
        scored = replace(model, scorer=Scorer(9.0, -8.0))
        pool.scores(scored, dev, dev.positives)
        assert progress.complete.count("embed") == SIDES + LEFT
        # Shards hold vectors of one model at a time.
        pool.embed(replace(model, digest="0" * 64), [])
        cosines(pool)
        assert progress.complete.count("embed") == SIDES + LEFT + SIDES


class Late(PoolShard):
    """A shard of which the last begins when the others have encoded all that it can leave to them."""

    def _chunk(self, model: Model, part: str, chunk: int, batches: list[Rows]) -> Generator[int, None, Vectors]:
        last, until = self.spec.shards - 1, time.monotonic() + 300
        chunks = vector_chunks(len(self._order(part)), self.spec.encoder.encoder_batch)
        while self.spec.shard == chunk == last and len(self._store.missing(part, chunks)[last]) > 1:
            assert time.monotonic() < until, "nobody has encoded them"
            time.sleep(0.1)
        return super()._chunk(model, part, chunk, batches)


def test_a_shard_that_is_late_finds_its_chunks_encoded_by_others(local_ray, folder, tmp_path):
    task, encoder, search = read_task(folder), config_of(folder).encoding, SearchConfig()
    pool_of_run = str(prepare_pool(folder, task, encoder, tmp_path / "run", SHARDS))
    specs = [ShardSpec(pool_of_run, encoder, search, number, 2, keep_vectors=True) for number in range(2)]
    with deploy(pool_actor(Late), specs, SHARDS, groups=GROUPS) as actors:
        pool = ShardedPool(actors, parts_of(task), task, search, Progress())
        pool.embed(pool.untrained(), ["train"])
        own = [len(shard._chunks(pool.parts["train", "right"])) for shard in map(Late, specs)]
    assert min(own) > 1


@pytest.mark.slow
def test_seconds_of_an_embedding_are_recorded_as_embed_and_not_as_the_stage_that_needed_it(
    in_process, folder, tmp_path
):
    # Nothing is measured before the first round, which would embed.
    config = replace(config_of(folder), evaluation=EvaluationConfig(splits=()))
    task, progress = read_task(folder), Progress()
    oracle = SimulatedOracle(task.split("train"))
    with (
        opened(tmp_path / "run", task) as journal,
        deploy_services(config, SHARDS, journal, oracle, progress) as world,
    ):
        model = replace(world.trainer.untrained(), scorer=Scorer(9.0, -8.0))
        started = time.monotonic()
        with world.stage("search"):
            world.retriever.least(model, HIGHEST, 20, NO_KEYS)
        elapsed, seconds = time.monotonic() - started, dict(journal.seconds)
        assert list(seconds) == ["embed", "search"]
        # A pool embeds before anything else, which here takes far longer than a millisecond.
        assert seconds["embed"] == world.pool.embedding_seconds > 0.001
        assert 0 < seconds["search"] <= elapsed - seconds["embed"]
        # Neither a stage that buys nothing nor one that queries nothing fails, and neither embeds.
        for stage in ("label", "search"):
            with world.stage(stage):
                pass
        assert journal.seconds["embed"] == seconds["embed"]
        with world.stage("evaluate"):
            world.evaluator.evaluate(model, "dev")
        assert list(journal.seconds) == ["embed", "search", "label", "evaluate"]
        assert journal.seconds["embed"] == pytest.approx(world.pool.embedding_seconds)
        assert journal.seconds["embed"] > seconds["embed"] + 0.001
