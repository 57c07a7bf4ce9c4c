"""Nodes that come late, and nodes that take with them what they stored: the run ends as the quiet one does.

Nodes are made up (ray.cluster_utils), processes and their deaths are real. `make long` runs these.
"""

import json
import os
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import ray
from ray.cluster_utils import Cluster

from al_ray.active_learning.config import RunConfig
from al_ray.cluster import services
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import SearchConfig, TrainingConfig
from al_ray.core.labels import Model
from al_ray.core.pairs import Rows
from al_ray.core.vectors import Vectors
from al_ray.datasets.task_folder import write_task
from al_ray.runs.run_folder import RunFolder
from al_ray.search.shard import PoolShard
from al_ray.storage.uri import storage_path
from tests.cluster.outcomes import results
from tests.cluster.test_run_on_s3 import of_bucket
from tests.cluster.test_run_on_s3 import results as results_on_s3
from tests.running import run
from tests.storage.s3 import served

pytestmark = [pytest.mark.faults, pytest.mark.long]

STORE = 10**8


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A head without room for actors, and no other node."""
    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": STORE})
    ray.init(address=started.address, log_to_driver=False)
    yield started
    ray.shutdown()
    started.shutdown()


def config_of(task: str) -> RunConfig:
    """Two small rounds whose stages have several blocks. A chunk of so few vectors is a batch of the encoder."""
    return RunConfig(
        task=task, rounds=2, first_batch=16, encoder="random-bert", encoder_layers=1, max_length=24, encoder_batch=4,
        threads=1, search=SearchConfig(neighbours=5, block=8),
        training=TrainingConfig(epochs=2, batch=4, learning_rate=1e-3, worst_loss=100.0),
    )  # fmt: skip


@contextmanager
def running(*arguments: Any) -> Iterator[Future[RunFolder]]:
    """A run in a thread, which has ended with the context: Ray adds nodes in the main thread alone."""
    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(run, *arguments)
        yield ended
        ended.result()


def wait_until(state: Callable[[], bool], ended: Future[RunFolder]) -> None:
    """Wait for a state that comes before the end of a run."""
    while not state():
        assert not ended.done(), ended.result()
        threading.Event().wait(0.05)


def noting(folder: Path) -> type[PoolShard]:
    """A class of shards that note the texts of each encoded batch, in `folder`, a file for each process.

    In the third chunk of a part under a trained model, one of them waits for the end of its node, whose temporary
    folder it names in a file `dying`.
    """
    plain, dying = PoolShard._chunk, folder / "dying"

    # Made here, so that workers get it by value: they know no tests.
    def chunk_of(self, model: Model, part: str, chunk: int, batches: list[Rows]) -> Generator[int, None, Vectors]:
        stored = self._store._path(part, chunk)
        if stored is not None and stored.is_file():
            return (yield from plain(self, model, part, chunk, batches))
        chunks = vars(self).setdefault("chunks", Counter())
        chunks[model.digest, part] += 1
        stream = plain(self, model, part, chunk, batches)
        while True:
            try:
                count = next(stream)
            except StopIteration as end:
                return end.value
            with (folder / f"texts-{os.getpid()}").open("a") as file:
                print(json.dumps([model.digest, part, np.concatenate(batches).tolist()]), file=file)
            if model.path and self.spec.shard == 1 and chunks[model.digest, part] == 3 and not dying.exists():
                aside = dying.with_suffix(".new")
                aside.write_text(os.environ["TMPDIR"])
                aside.rename(dying)
                threading.Event().wait()
            yield count

    return type("PoolShard", (PoolShard,), {**vars(PoolShard), "_chunk": chunk_of})


def lose(cluster: Cluster, node: Any) -> list[str]:
    """Kill the raylet of a node, wait for the end of its processes, and return the shards among them."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    processes = raylet.children(recursive=True)
    shards = [word for one in processes for word in one.cmdline() if word.startswith("ray::PoolShard")]
    os.kill(raylet.pid, signal.SIGKILL)
    cluster.remove_node(node, allow_graceful=False)
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert not alive
    return shards


def test_a_node_lost_with_its_temporary_folder_costs_a_chunk_an_actor(cluster, make_task, tmp_path, monkeypatch):
    """Task and run are on S3, and each node has a TMPDIR of its own; so no node reads what another one stored."""
    nodes = {}
    for number in range(3):
        place = tmp_path / f"node-{number}"
        place.mkdir()
        nodes[str(place)] = cluster.add_node(
            num_cpus=4, object_store_memory=STORE, env_vars={"TMPDIR": str(place)}
        )  # fmt: skip
    noted = tmp_path / "noted"
    noted.mkdir()

    where = ClusterConfig(shards=3, timeout=120, checkpoint_seconds=0, keep_vectors=True)
    with served() as server:
        write_task(make_task(True), storage_path(server.uri("task")), {})
        asked = config_of(server.uri("task"))
        run(asked, where, storage_path(server.uri("quiet")))
        monkeypatch.setattr(services, "PoolShard", noting(noted))
        with running(asked, where, storage_path(server.uri("run"))) as ended:
            wait_until((noted / "dying").exists, ended)
            place = (noted / "dying").read_text()
            copies = list(Path(place).glob("al_ray-*/*/"))
            lost = lose(cluster, nodes[place])
            shutil.rmtree(place)
        quiet, found = (results_on_s3(of_bucket(server, name)) for name in ("quiet", "run"))
    assert found == quiet
    assert copies, "token ids and weights were fetched to the node"
    assert lost, "a node with a shard died"
    lines = [json.loads(line) for path in noted.glob("texts-*") for line in path.read_text().splitlines()]
    encoded = Counter((digest, part, row) for digest, part, rows in lines for row in rows)
    again = encoded.total() - len(encoded)
    # The chunk that was lost, and those that two encode at once where others take over.
    assert 0 < again <= asked.encoder_batch * where.shards, "at most a chunk an actor"


def waiting() -> bool:
    """Whether a placement group waits for room."""
    return any(group["state"] == "PENDING" for group in ray.util.placement_group_table().values())


def test_a_run_that_starts_without_nodes_holds_nothing_until_there_is_room_for_all(cluster, make_task, tmp_path):
    write_task(make_task(True), tmp_path / "task", {})
    asked, where = config_of(str(tmp_path / "task")), ClusterConfig(shards=2, timeout=120, shared_storage=True)
    assert ray.cluster_resources().get("CPU", 0) == 0
    with running(asked, where, tmp_path / "run") as ended:
        wait_until(waiting, ended)
        cluster.add_node(num_cpus=2, object_store_memory=STORE)
        # Room for two of three actors: another job gets all of it.
        other = ray.remote(num_cpus=2)(lambda: "another job").remote()
        assert ray.get(other, timeout=60) == "another job"
        assert waiting()
        cluster.add_node(num_cpus=2, object_store_memory=STORE)
    run(asked, where, tmp_path / "quiet")
    assert results(tmp_path / "run") == results(tmp_path / "quiet")
