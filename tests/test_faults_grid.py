"""A grid whose trial, node or driver dies: it ends with the table of one in which nobody does.

Nodes are made up (ray.cluster_utils), processes and their deaths are real.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray.cluster_utils import Cluster

from al_ray.cluster.grid import run_grid
from al_ray.core.grid import Cell
from al_ray.core.summary import Outcome
from al_ray.data.run_folder import RunFolder
from al_ray.data.tables import read_task, write_task
from jobs.grid_options import parsed

pytestmark = pytest.mark.faults

HERE = Path(__file__).resolve().parent
OPTIONS = (
    *("--rounds", "2", "--first-batch", "16", "--encoder", "random-bert", "--encoder-layers", "1"),
    *("--max-length", "24", "--encoder-batch", "8", "--threads", "1", "--search.neighbours", "5"),
    *("--search.block", "16", "--training.epochs", "1", "--training.batch", "8", "--training.learning-rate", "1e-3"),
    *("--training.worst-loss", "100", "--train-every-budget", "--timeout", "120", "--shared-storage"),
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


def ended(task: Path, out: Path, strike: Strike) -> list[Outcome]:
    return run_grid(parsed(line(task, out)).grid, lambda *_: None, strike)


def nobody(cell: Cell, line: Mapping[str, Any]) -> None:
    """Nobody dies."""


def table(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """Rows without clocks, every round's figures, and all labels in the order bought."""
    return [
        {
            **{name: value for name, value in outcome.row.items() if name != "seconds"},
            "lines": [{name: value for name, value in one.items() if name != "seconds"} for one in outcome.lines],
        }
        for outcome in outcomes
    ]


def labels(task: Path, out: Path) -> list[list]:
    grid = parsed(line(task, out)).grid
    states = [RunFolder(out / "runs" / cell.name, read_task(task)).state() for cell in grid.cells]
    return [[state.labelled.pairs.tolist(), state.labelled.labels.tolist()] for state in states]


@pytest.fixture(scope="module")
def quiet(cluster, task, tmp_path_factory) -> tuple[list, list]:
    out = tmp_path_factory.mktemp("quiet") / "grid"
    outcomes = ended(task, out, nobody)
    assert [outcome.standing for outcome in outcomes] == ["complete", "complete"]
    return table(outcomes), labels(task, out)


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


def test_a_trial_whose_process_is_killed_goes_on_in_another(cluster, task, quiet, tmp_path):
    once = Once(killed)
    outcomes = ended(task, tmp_path / "grid", once)
    assert (table(outcomes), labels(task, tmp_path / "grid")) == quiet
    # Every round is told of once.
    assert sorted(once.rounds) == [(name, number) for name in ("static-s0", "uncertainty-s0") for number in (1, 2)]


def test_a_trial_whose_node_is_lost_goes_on_elsewhere(cluster, task, quiet, tmp_path):
    lost = list[Any]()

    def unplug(pid: int) -> None:
        parents = {parent.pid for parent in psutil.Process(pid).parents()}
        (node,) = [node for node in cluster.worker_nodes if node.all_processes["raylet"][0].process.pid in parents]
        cluster.remove_node(node, allow_graceful=False)
        lost.append(node)

    outcomes = ended(task, tmp_path / "grid", Once(unplug))
    assert len(lost) == 1
    assert (table(outcomes), labels(task, tmp_path / "grid")) == quiet
    cluster.add_node(num_cpus=2, object_store_memory=10**8)


def test_a_grid_whose_driver_is_killed_is_restored_by_the_same_command(cluster, task, quiet, tmp_path):
    out = tmp_path / "grid"
    command = [sys.executable, "-m", "jobs.grid", *line(task, out), "--concurrent", "1"]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as driver:
        assert driver.stdout is not None
        next(said for said in driver.stdout if "uncertainty-s0: round 1 of 2" in said)
        driver.kill()
    assert driver.returncode == -signal.SIGKILL
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "uncertainty-s0: round 2 of 2" in done.stdout
    assert "static-s0: round" not in done.stdout, "it was done"
    # Nothing is left to be run: only what is there is looked at.
    outcomes = ended(task, out, nobody)
    assert (table(outcomes), labels(task, out)) == quiet
