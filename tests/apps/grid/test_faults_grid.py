"""A grid whose trial, node or driver dies: it ends with the table of one in which nobody does.

Nodes are made up (ray.cluster_utils), processes and their deaths are real.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray.cluster_utils import Cluster

from al_ray.apps.grid import ray_tune
from al_ray.apps.grid.runner import run_grid
from al_ray.apps.grid.spec import Cell
from al_ray.apps.reporting.run_records import Round, Run
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.runs.run_folder import RunFolder, last_round
from tests.apps.grid.parsed import parsed_grid
from tests.cluster.processes import kill_all

pytestmark = pytest.mark.faults

HERE = Path(__file__).resolve().parent
OPTIONS = (
    *("--rounds", "2", "--first-batch", "16", "--encoder", "random-bert", "--encoder-layers", "1"),
    *("--max-length", "24", "--encoder-batch", "8", "--threads", "1", "--search.neighbours", "5"),
    *("--search.block", "16", "--training.epochs", "1", "--training.batch", "8", "--training.learning-rate", "1e-3"),
    *("--training.worst-loss", "100", "--train-every-budget", "--timeout", "600", "--shared-storage"),
    *("--strategies", "static,uncertainty", "--seeds", "0"),
)
Strike = Callable[[Cell, Mapping[str, Any]], None]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A head without room for actors, and two nodes with room for a run each."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 10**8})
    for _ in range(2):
        made.add_node(num_cpus=2, object_store_memory=10**8)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="module")
def task(make_task, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tasks") / "task"
    write_task(make_task(True), folder, {})
    return folder


def line(task: Path, out: Path) -> list[str]:
    return ["--task", str(task), "--out", str(out), *OPTIONS]


def ended(task: Path, out: Path, strike: Strike) -> list[Run]:
    return run_grid(parsed_grid(line(task, out)), lambda *_: None, strike)


def nobody(cell: Cell, line: Mapping[str, Any]) -> None:
    """Nobody dies."""


def figures(runs: list[Run]) -> list[tuple[str, str, list[Round]]]:
    """Name, status and rounds of each run, without the seconds that these took."""
    return [(run.name, run.status, [replace(one, seconds={}) for one in run.rounds]) for run in runs]


def labels(task: Path, out: Path) -> list[list]:
    grid = parsed_grid(line(task, out))
    states = [RunFolder(out / "runs" / cell.name, read_task(task)).state() for cell in grid.cells]
    return [[state.labelled.pairs.tolist(), state.labelled.labels.tolist()] for state in states]


@pytest.fixture(scope="module")
def quiet(cluster, task, tmp_path_factory) -> tuple[list, list]:
    out = tmp_path_factory.mktemp("quiet") / "grid"
    runs = ended(task, out, nobody)
    assert [run.status for run in runs] == ["complete", "complete"]
    return figures(runs), labels(task, out)


@pytest.fixture(autouse=True)
def processes(monkeypatch):
    """The metrics of a round with the process of its trial, which Tune tells and al_ray leaves out."""
    metrics = ray_tune.round_metrics
    monkeypatch.setattr(ray_tune, "round_metrics", lambda result: {**metrics(result), "pid": result["pid"]})


class Once:
    """Strikes at the first round that is told of, while its trial waits to go on."""

    def __init__(self, strike: Callable[[int], None]) -> None:
        self.strike, self.rounds = strike, list[tuple[str, int]]()

    def __call__(self, cell: Cell, line: Mapping[str, Any]) -> None:
        self.rounds.append((cell.name, line["round"]))
        if len(self.rounds) == 1:
            assert line["round"] == 1, "it died inside"
            self.strike(line["pid"])


def killed(pid: int) -> None:
    """A trial's process gone. Only one of this test's own."""
    victim = psutil.Process(pid)
    assert psutil.Process() in victim.parents()
    os.kill(pid, signal.SIGKILL)


@pytest.mark.long
def test_a_trial_whose_process_is_killed_goes_on_in_another(cluster, task, quiet, tmp_path):
    once = Once(killed)
    runs = ended(task, tmp_path / "grid", once)
    assert (figures(runs), labels(task, tmp_path / "grid")) == quiet
    # Every round is told of once.
    assert sorted(once.rounds) == [(name, number) for name in ("static-s0", "uncertainty-s0") for number in (1, 2)]


@pytest.mark.long
def test_a_trial_whose_node_is_lost_goes_on_elsewhere(cluster, task, quiet, tmp_path):
    lost = list[Any]()

    def unplug(pid: int) -> None:
        parents = {parent.pid for parent in psutil.Process(pid).parents()}
        (node,) = [node for node in cluster.worker_nodes if node.all_processes["raylet"][0].process.pid in parents]
        cluster.remove_node(node, allow_graceful=False)
        lost.append(node)

    runs = ended(task, tmp_path / "grid", Once(unplug))
    assert len(lost) == 1
    assert (figures(runs), labels(task, tmp_path / "grid")) == quiet
    cluster.add_node(num_cpus=2, object_store_memory=10**8)


def test_a_grid_whose_driver_is_killed_is_restored_by_the_same_command(cluster, task, quiet, tmp_path):
    out = tmp_path / "grid"
    command = [sys.executable, "-m", "jobs.grid", *line(task, out), "--concurrent", "1"]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[2])}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as driver:
        assert driver.stdout is not None
        next(said for said in driver.stdout if "uncertainty-s0: round 1 of 2" in said)
        its = psutil.Process(driver.pid)
        kill_all([its, *its.children(recursive=True)])
    assert driver.returncode == -signal.SIGKILL
    # A trial that had time to end its run has nothing left to do.
    left = last_round(out / "runs" / "uncertainty-s0") < 2
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    assert ("uncertainty-s0: round 2 of 2" in done.stdout) == left
    assert "static-s0: round" not in done.stdout, "it was done"
    # Nothing is left to be run: only what is there is looked at.
    runs = ended(task, out, nobody)
    assert (figures(runs), labels(task, out)) == quiet
