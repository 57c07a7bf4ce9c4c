"""Waits that no answer will end: a node gone for good, memory that is never enough. The run says so, and can go on.

Nodes and GPUs are made up (ray.cluster_utils).
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster

from al_ray.active_learning.config import RunConfig
from al_ray.cli import run as run_job
from al_ray.cli import run as run_pipeline
from al_ray.cli._shared import entry
from al_ray.cli._shared.progress import Progress
from al_ray.cluster import services as world
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import SearchConfig, TrainingConfig
from al_ray.core.errors import NoPlacement
from al_ray.datasets.task_folder import write_task
from al_ray.search.shard import PoolShard
from tests.cluster.outcomes import results
from tests.running import run

pytestmark = pytest.mark.faults

WHERE = ClusterConfig(shards=2, timeout=300, checkpoint_seconds=0, shared_storage=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A head with room for the trainer or so, and a node with room for all actors."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 10**8})
    made.add_node(num_cpus=3, num_gpus=3, object_store_memory=10**8)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="module")
def asked(make_task, tmp_path_factory) -> RunConfig:
    folder = tmp_path_factory.mktemp("task")
    write_task(make_task(True), folder / "task", {})
    return RunConfig(
        task=str(folder / "task"), rounds=1, first_batch=16, encoder="random-bert", encoder_layers=1, max_length=24,
        encoder_batch=8, threads=1, search=SearchConfig(neighbours=5, block=8),
        training=TrainingConfig(epochs=1, batch=4, learning_rate=1e-3, worst_loss=100.0),
    )  # fmt: skip


def test_actors_that_no_node_has_room_for_are_told_of(cluster, asked, tmp_path):
    with pytest.raises(
        NoPlacement,
        match=r"1 Trainer and 2 PoolShard workers of 9.0 CPUs and 0.0 GPUs were not placed in 1 s; the cluster has 2",
    ):
        run(asked, replace(WHERE, cpus_per_shard=9.0, timeout=1), tmp_path / "run")


def test_a_gpu_that_torch_does_not_see_is_told_of(cluster, asked, tmp_path):
    with pytest.raises(NoPlacement, match=r"Ray gave PoolShard the GPUs \[\d\] of a node where torch .* sees no CUDA"):
        run(asked, replace(WHERE, gpus_per_shard=1.0), tmp_path / "run")


@pytest.mark.long
def test_a_node_that_is_gone_for_good_ends_the_run_and_another_lets_it_go_on(cluster, asked, tmp_path, monkeypatch):
    quiet = run(asked, WHERE, tmp_path / "quiet")
    told, where = list[tuple[int, int]](), replace(WHERE)

    class Removing(Progress):
        def __call__(self, stage: str, done: int, total: int) -> None:
            super().__call__(stage, done, total)
            if stage == "search" and 0 < done < total and not told:
                told.append((done, total))
                cluster.remove_node(
                    next(n for n in cluster.list_all_nodes() if n != cluster.head_node), allow_graceful=False
                )
                # Actors had time to start; now the wait for a place need not be long.
                object.__setattr__(where, "timeout", 10)

    monkeypatch.setattr(run_pipeline, "Progress", Removing)
    with pytest.raises(
        NoPlacement, match=r"2 PoolShard workers of 1.0 CPUs .* the cluster has 1 nodes \(1 CPUs, 0 GPUs\)"
    ):
        run(asked, where, tmp_path / "run")
    assert told, "it went in mid-search"
    cluster.add_node(num_cpus=3, num_gpus=3, object_store_memory=10**8)
    done = run(asked, WHERE, tmp_path / "run")
    assert results(tmp_path / "run") == results(Path(str(quiet.path)))
    assert done.last == quiet.last


@pytest.mark.long
def test_memory_that_is_never_enough_ends_the_run_with_its_fix(cluster, asked, tmp_path, monkeypatch, capsys):
    # Made here, so that workers get it by value: they know no tests.
    def nearest(self, *_: object) -> np.ndarray:
        return np.ones(2**50)

    hungry = type("PoolShard", (PoolShard,), {**vars(PoolShard), "nearest": nearest})
    monkeypatch.setattr(world, "PoolShard", hungry)
    line = f"run --task {asked.task} --out {tmp_path / 'run'} --encoder random-bert --encoder-layers 1 --max-length 24"
    monkeypatch.setattr(sys, "argv", [*line.split(), "--first-batch", "16", "--timeout", "300", "--shared-storage"])
    with pytest.raises(SystemExit) as stop:
        entry.job(run_job.main)
    assert stop.value.code == 2
    (said,) = capsys.readouterr().err.splitlines()[-1:]
    assert "PoolShard died" in said
    assert "out of memory in PoolShard.nearest (Unable to allocate 8.00 PiB" in said
    assert "more `shards`" in said
