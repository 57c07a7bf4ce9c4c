"""Two people whose commands share one cluster: who waits says for what, and what ends one of them leaves the other."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from al_ray.core.task import Task
from al_ray.datasets.task_folder import write_task
from tests.cluster.outcomes import results
from tests.cluster.processes import await_end

pytestmark = pytest.mark.faults

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 600.0
# Each user has an own module of this name. It labels when it may go on: until then its run holds its places.
JUDGE = """
import time
from pathlib import Path

def label(left, right):
    Path("holds").touch()
    deadline = time.monotonic() + {patience}
    while not Path("go").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    if Path("go").read_text():
        raise ValueError("nobody labels today")
    with Path("asked.txt").open("a") as asked:
        asked.writelines(f"{{one}} | {{other}}\\n" for one, other in zip(left, right))
    return [len(set(one) & set(other)) > {alike} * len(set(one)) for one, other in zip(left, right)]
"""
# Both users have the same task, whose folder takes the evaluation sets, and give the same --out, in their folders.
OPTIONS = (
    *("--out", "run", "--oracle", "judge:label", "--rounds", "2", "--first-batch", "16", "--encoder", "random-bert"),
    *("--encoder-layers", "1", "--max-length", "24", "--encoder-batch", "8", "--threads", "1"),
    *("--search.neighbours", "5", "--training.epochs", "1", "--training.batch", "4", "--training.worst-loss", "100"),
    *("--evaluation.mode", "estimate", "--evaluation.near-neighbours", "2", "--evaluation.random-pairs", "20"),
    "--shared-storage",
)
WAITS = "waiting for places for 1 Trainer and 1 PoolShard workers of 1.0 CPUs and 0.0 GPUs, all at once, up to 17"
ROOM = "the cluster has 1 nodes (3 CPUs, 0 GPUs), of which 1 CPUs and 0 GPUs are free and the rest is in use"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A node with room for one run and a half: a run has two actors of a CPU each."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 3, "object_store_memory": 10**8})
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


class User:
    """Somebody with a folder, a module that labels, and a command that runs on the cluster."""

    def __init__(self, folder: Path, task: Path, alike: float, address: str) -> None:
        folder.mkdir(parents=True)
        (folder / "judge.py").write_text(JUDGE.format(patience=PATIENCE, alike=alike))
        self.folder, self.task, self.address = folder, task, address
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the command."""
        (self.folder / "holds").unlink(missing_ok=True)
        path = os.pathsep.join([str(ROOT), str(self.folder)])
        with (self.folder / "log.txt").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jobs.run", "--task", str(self.task), *OPTIONS], cwd=self.folder, stdout=log,
                stderr=log, env={**os.environ, "PYTHONPATH": path, "RAY_ADDRESS": self.address},
            )  # fmt: skip

    @property
    def log(self) -> str:
        """What the command has printed."""
        return (self.folder / "log.txt").read_text()

    def until(self, is_so: Callable[[], Any]) -> None:
        """Wait until something is so, while the command runs."""
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            assert self.process is not None
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            threading.Event().wait(0.05)

    def hold(self) -> None:
        """Wait until the run has its actors and asks for labels."""
        self.until((self.folder / "holds").exists)

    def go(self, word: str = "") -> None:
        """Let it label; with a word, let that fail."""
        (self.folder / "go").write_text(word)

    def end(self) -> int:
        """Wait for the end of the command and return its exit code."""
        assert self.process is not None
        return self.process.wait(PATIENCE)

    @property
    def outcome(self) -> tuple[list[Any], list[dict[str, Any]], list[Any]]:
        """Labels, figures and models of the run, which bought no pair twice."""
        asked = (self.folder / "asked.txt").read_text().splitlines()
        assert len(asked) == len(set(asked)) == 40
        records = sorted(self.folder.glob("run/round-*/record.json"))
        return *results(self.folder / "run"), [json.loads(path.read_text())["model"] for path in records]


@pytest.fixture(scope="module")
def quiet(cluster, make_task, tmp_path_factory) -> dict[float, Any]:
    """What the run of each user comes to when it has the cluster for itself."""
    outcomes = {}
    for alike in (0.7, 0.5):
        folder = tmp_path_factory.mktemp("quiet")
        write_task(make_task(True), folder / "task", {})
        user = User(folder / "user", folder / "task", alike, cluster.address)
        user.go()
        user.start()
        assert user.end() == 0, user.log
        assert "waiting for places" not in user.log
        outcomes[alike] = user.outcome
        await_end("PoolShard", "Trainer")
    assert outcomes[0.7] != outcomes[0.5]
    return outcomes


@pytest.fixture
def users(cluster, make_task: Callable[[bool], Task], tmp_path) -> Iterator[tuple[User, User]]:
    """Two users with one task."""
    write_task(make_task(True), tmp_path / "task", {})
    both = (
        User(tmp_path / "first", tmp_path / "task", 0.7, cluster.address),
        User(tmp_path / "second", tmp_path / "task", 0.5, cluster.address),
    )
    yield both
    for user in both:
        if user.process is not None and user.process.poll() is None:
            user.process.kill()
            user.process.wait(60)


def places() -> tuple[int, int]:
    """How many placement groups have their places, and how many wait for them."""
    states = [group["state"] for group in ray.util.placement_group_table().values()]
    return states.count("CREATED"), states.count("PENDING")


def test_who_waits_gets_the_places_of_one_who_is_killed_or_fails_and_all_come_to_what_a_quiet_run_does(quiet, users):
    first, second = users
    first.start()
    first.hold()
    second.start()
    second.until(lambda: WAITS in second.log)
    assert ROOM in second.log
    assert places() == (1, 1), "it holds nothing while it waits"
    first.process.send_signal(signal.SIGKILL)
    assert first.end() == -signal.SIGKILL
    second.hold()
    assert "workers of 1.0 CPUs and 0.0 GPUs have their places now" in second.log
    assert places() == (1, 0), "nothing is left of the first"

    first.go()
    first.start()
    first.until(lambda: WAITS in first.log)
    assert places() == (1, 1)
    second.go("fails")
    assert second.end() != 0
    assert "nobody labels today" in second.log
    assert first.end() == 0, first.log
    assert first.outcome == quiet[0.7]

    second.go()
    second.start()
    assert second.end() == 0, second.log
    assert second.outcome == quiet[0.5]
    await_end("PoolShard", "Trainer")
    assert places() == (0, 0)


def test_two_runs_side_by_side_come_to_what_each_does_alone(quiet, users, cluster):
    node = cluster.add_node(num_cpus=1, object_store_memory=10**8)
    for user in users:
        user.start()
    for user in users:
        user.hold()
    assert places() == (2, 0)
    for user in users:
        user.go()
    for user in users:
        assert user.end() == 0, user.log
        assert "waiting for places" not in user.log
    assert [user.outcome for user in users] == [quiet[0.7], quiet[0.5]]
    await_end("PoolShard", "Trainer")
    cluster.remove_node(node)
