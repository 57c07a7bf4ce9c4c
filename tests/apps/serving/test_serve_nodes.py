"""jobs.serve on several nodes: nodes are killed and drained, and replicas added, while requests come and go.

Nodes are made up (ray.cluster_utils), processes and their deaths are real. Answers are compared as in
test_serve_killed.py, and failed requests are sent again, as docs/serve.md tells clients to do.
"""

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from ray.cluster_utils import Cluster

from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.store import StoreWriter, read_store
from tests.apps.audit.test_audit_job import run_folder
from tests.apps.serving.serving_process import ServingProcess
from tests.apps.serving.test_serve_killed import TOKEN, Load, known_scores, write_known
from tests.cluster.processes import kill_all

pytestmark = [pytest.mark.faults, pytest.mark.long]
logger = logging.getLogger(__name__)
STORE = 10**8
PATIENCE = 240.0


class PatientLoad(Load):
    """A load whose clients send a request again until it is answered with 200.

    failed: the code and the answer of each request that was not. longest: seconds of a request, with all times that it
    was sent again.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.failed, self.longest = list[tuple[int, Any]](), 0.0

    def call(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        began = time.monotonic()
        while (answer := super().call(method, path, body))[0] != 200 and not self.ended.wait(0.1):
            self.failed.append(answer)
        self.longest = max(self.longest, time.monotonic() - began)
        return answer


class Service:
    """jobs.serve with a known table on a cluster, and the load on it."""

    def __init__(self, here: Path, store: Path, *more: str, address: str = "") -> None:
        columns = ["--text-columns", "words", "--id-column", "key"]
        line = ["--model", str(here / "may/run"), "--known", str(here / "k.csv"), *columns, "--store", str(store)]
        self.store = store
        self.server = ServingProcess([*line, "--limit", "10000", *more], TOKEN, address)
        self.base = {one: known.text for one, known in read_store(store).texts.items()}
        own = ServeOptions(model=here / "may/run", known=here / "k.csv", store=store)
        self.scores = dict([known_scores(here / "may/run", own, self.base)])

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *_: object) -> None:
        if self.server.process.poll() is None:
            self.server.kill_everything()

    def load(self, readers: int = 1) -> PatientLoad:
        return PatientLoad(self.server, self.base, self.scores, readers=readers)

    def end(self, load: Load) -> None:
        """Stop the service; its store has what was acknowledged, and nothing else."""
        assert self.server.stop() == 0
        acknowledged = {one: text for one, text in load.acknowledged.items() if text is not None}
        assert {one: known.text for one, known in read_store(self.store).texts.items()} == {**self.base, **acknowledged}
        # The lock is free.
        StoreWriter(self.store).close()


class Nodes:
    """A head without CPUs, and nodes with one each."""

    def __init__(self, count: int) -> None:
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": STORE})
        for _ in range(count):
            self.add()

    def add(self) -> None:
        self.cluster.add_node(num_cpus=1, object_store_memory=STORE)

    @property
    def all(self) -> list[Any]:
        return [self.cluster.head_node, *self.cluster.worker_nodes]

    def of(self, name: str) -> list[Any]:
        """The nodes on which replicas of a deployment are, one for each replica."""
        return [node for node in self.all for _ in processes(node, f"ServeReplica:al_ray:{name}")]

    def lose(self, node: Any) -> None:
        """SIGKILL to the raylet of a node and to all of its processes."""
        kill_all(processes(node))
        self.cluster.remove_node(node, allow_graceful=False)

    def drain(self, node: Any) -> None:
        """Have Ray move what runs on a node, which goes in 10 minutes."""
        command = [
            *(str(Path(sys.executable).parent / "ray"), "drain-node", "--address", self.cluster.address),
            *("--node-id", node.node_id, "--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "spot"),
            *("--deadline-remaining-seconds", "600"),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


def processes(node: Any, name: str = "") -> list[psutil.Process]:
    """The raylet of a node and the processes that it started, those with this name."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    found = list[psutil.Process]()
    for process in (raylet, *raylet.children(recursive=True)):
        with suppress(psutil.Error):
            if name in " ".join(process.cmdline()):
                found.append(process)
    return found


def wait_until(is_so: Callable[[], bool], load: Load) -> None:
    """Wait for a state of other processes, which tell nobody."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert not load.problems
        assert time.monotonic() < deadline
        threading.Event().wait(0.1)


def note(event: str, began: float, load: PatientLoad) -> None:
    """Log how long it took, and the longest request meanwhile: figures of docs/serve.md."""
    logger.info("%s: %.1f s; longest request %.1f s", event, time.monotonic() - began, load.longest)


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    started = Nodes(3)
    yield started
    started.cluster.shutdown()


@pytest.fixture(scope="module")
def here(make_task, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("serve")
    task = make_task(True, clusters=10, members=4)
    run_folder(root / "may", task)
    write_known(task, root / "k.csv")
    return root


def test_nodes_that_are_killed_or_drained_lose_no_change_and_fail_no_request(nodes, here, tmp_path):
    options = ("--replicas", "2", "--shared-storage")
    head = nodes.cluster.head_node
    with Service(here, tmp_path / "store", *options, address=nodes.cluster.address) as service:
        assert len(nodes.of("Matcher")) == len(set(nodes.of("Matcher")) - {head}) == 2
        with service.load() as load:
            load.wait_for(3, 3)
            began = time.monotonic()
            nodes.lose(nodes.of("Matcher")[0])
            wait_until(lambda: len(nodes.of("Matcher")) == 2, load)
            load.wait_for(5, 5)
            note("a node was killed, and another one has its replica", began, load)
            nodes.add()
            began, load.longest, drained = time.monotonic(), 0.0, nodes.of("Matcher")[0]
            nodes.drain(drained)
            # The other one may only have begun.
            wait_until(lambda: drained not in nodes.of("Matcher") and len(nodes.of("Matcher")) == 2, load)
            nodes.lose(drained)
            load.wait_for(5, 5)
            note("a node was drained, and went", began, load)
        assert load.failed == []
        service.end(load)


def test_more_replicas_are_started_under_load_and_answer_alike(here, tmp_path):
    with Service(here, tmp_path / "store", "--most-replicas", "3", "--batch", "1") as service:
        first = service.server.replica("Matcher")
        with service.load(readers=6) as load:
            load.wait_for(3, 3)
            began = time.monotonic()
            wait_until(lambda: len(service.server.replicas("Matcher")) == 3, load)
            note("three replicas", began, load)
            load.wait_for(20, 20)
            # From now on the others answer.
            first.kill()
            load.wait_for(20, 20)
        assert load.failed == []
        service.end(load)
