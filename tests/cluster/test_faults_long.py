"""What else can happen to a cluster: the run ends as the quiet one does, or says what to do and can be resumed.

Nodes are made up (ray.cluster_utils), processes and their deaths are real. `make long` runs these.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray.cluster_utils import Cluster

from al_ray.active_learning.config import RunConfig
from al_ray.cli import run as run_pipeline
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import SearchConfig, TrainingConfig
from al_ray.datasets.task_folder import write_task
from tests.cluster.test_faults_cluster import Killing, ended

pytestmark = pytest.mark.long

STORE = 10**8
WHERE = ClusterConfig(shards=2, timeout=600, checkpoint_seconds=0, shared_storage=True)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A head without room for actors, and a node with room for all of them."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": STORE})
    made.add_node(num_cpus=4, object_store_memory=STORE)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="module")
def asked(make_task, tmp_path_factory) -> RunConfig:
    """Two small rounds whose stages have several blocks."""
    folder = tmp_path_factory.mktemp("task")
    write_task(make_task(True), folder / "task", {})
    return RunConfig(
        task=str(folder / "task"), rounds=2, first_batch=16, encoder="random-bert", encoder_layers=1, max_length=24,
        encoder_batch=8, threads=1, search=SearchConfig(neighbours=5, block=8),
        training=TrainingConfig(epochs=2, batch=4, learning_rate=1e-3, worst_loss=100.0),
    )  # fmt: skip


# jobs.run of a driver that kills the head's server (the first argument) in its first search.
HEADLESS = """
import os, signal, sys

from al_ray.cli import run
from al_ray.cli import run as pipeline
from al_ray.cli._shared.entry import job
from al_ray.cli._shared.progress import Progress

server = [int(sys.argv.pop(1))]

class Striking(Progress):
    def __call__(self, stage, done, total):
        super().__call__(stage, done, total)
        if stage == "search" and 0 < done < total and server:
            os.kill(server.pop(), signal.SIGKILL)

pipeline.Progress = Striking
job(run.main)
"""


def other_node(cluster: Cluster) -> Any:
    return next(node for node in cluster.list_all_nodes() if node != cluster.head_node)


def in_search(strike: Any) -> type[Killing]:
    """Progress that strikes once, in the middle of a search."""

    class Striking(Killing):
        stage_of_death, deaths = "search", list[tuple[str, int, int]]()

        def strike(self) -> None:
            strike()

    return Striking


def test_a_node_whose_raylet_stands_still_is_replaced(cluster, asked, tmp_path, monkeypatch):
    quiet = ended(asked, tmp_path / "quiet", WHERE)
    node = other_node(cluster)
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)

    def stop() -> None:
        cluster.add_node(num_cpus=4, object_store_memory=STORE)
        raylet.suspend()

    striking = in_search(stop)
    monkeypatch.setattr(run_pipeline, "Progress", striking)
    try:
        assert ended(asked, tmp_path / "run", WHERE) == quiet
    finally:
        raylet.resume()
    assert striking.deaths
    assert sum(node["Alive"] for node in ray.nodes()) == 2, "Ray took the node for dead"


def test_a_drained_node_that_then_goes_costs_time_alone(cluster, asked, tmp_path, monkeypatch):
    keeping = replace(WHERE, keep_vectors=True)
    quiet = ended(asked, tmp_path / "quiet", keeping)
    node = other_node(cluster)

    def drain() -> None:
        cluster.add_node(num_cpus=4, object_store_memory=STORE)
        command = [
            *(str(Path(sys.executable).parent / "ray"), "drain-node", "--address", cluster.address),
            *("--node-id", node.node_id, "--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "spot"),
            *("--deadline-remaining-seconds", "10"),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        cluster.remove_node(node, allow_graceful=False)

    striking = in_search(drain)
    monkeypatch.setattr(run_pipeline, "Progress", striking)
    assert ended(asked, tmp_path / "run", keeping) == quiet
    assert striking.deaths


def test_32_shards_need_no_large_object_store(asked, tmp_path):
    ray.init(num_cpus=4, object_store_memory=STORE, include_dashboard=False, log_to_driver=False)
    try:
        labels, figures = ended(asked, tmp_path / "quiet", WHERE)
        many = replace(WHERE, shards=32, cpus_per_shard=0.1, timeout=300)
        # A calibration error is of rounded cosines, and how a product rounds depends on the size of its blocks.
        name = "calibration_error"
        figures = [{**line, name: pytest.approx(line[name], rel=1e-5)} for line in figures]
        assert ended(asked, tmp_path / "run", many) == (labels, figures)
    finally:
        ray.shutdown()


def test_a_head_that_dies_ends_the_run_and_the_same_command_resumes_it(cluster, asked, tmp_path):
    quiet = ended(asked, tmp_path / "quiet", WHERE)
    line = (
        f"--task {asked.task} --out {tmp_path / 'run'} --rounds 2 --first-batch 16 --encoder random-bert "
        "--encoder-layers 1 --max-length 24 --encoder-batch 8 --threads 1 --search.neighbours 5 --search.block 8 "
        "--training.epochs 2 --training.batch 4 --training.learning-rate 1e-3 --training.worst-loss 100 --shards 2 "
        "--shared-storage"
    )
    server = cluster.head_node.all_processes["gcs_server"][0].process.pid
    # Ray ends a driver that does not reach the head for a minute: this process must be none, and starts one.
    ray.shutdown()
    died = subprocess.run(
        [sys.executable, "-c", HEADLESS, str(server), *line.split()],
        env={**os.environ, "RAY_ADDRESS": cluster.address}, check=False, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert died.returncode != 0
    assert "Failed to connect to GCS" in died.stderr
    cluster.shutdown()
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    assert ended(asked, tmp_path / "run", WHERE) == quiet
