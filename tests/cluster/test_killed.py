"""A driver killed in the middle of any stage: the same command goes on, and no label is lost or bought twice."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from al_ray.core.task import Task
from al_ray.datasets.task_folder import write_task
from tests.cluster.outcomes import results
from tests.cluster.processes import await_end

pytestmark = pytest.mark.faults

HERE = Path(__file__).resolve().parent
# In the order in which they come.
DEATHS = [
    *(("embed", "first"), ("embed", "last"), ("search", "first"), ("search", "last"), ("label", "first")),
    *(("label", "last"), ("train", "first"), ("train", "last"), ("score", "first"), ("score", "last")),
    *(("count", "first"), ("count", "last")),
]
JUDGE = """
from pathlib import Path

def label(left, right):
    with Path("asked.txt").open("a") as asked:
        asked.writelines(f"{one} | {other}\\n" for one, other in zip(left, right))
    # Much the same letters are a match; of some pairs nobody can be sure.
    return [
        "unsure" if (len(one) + len(other)) % 7 == 0 else len(set(one) & set(other)) > 0.7 * len(set(one))
        for one, other in zip(left, right)
    ]
"""
OPTIONS = (
    *("--task", "task", "--out", "run", "--oracle", "judge:label", "--pairs-per-call", "4", "--rounds", "2"),
    *("--first-batch", "16", "--encoder", "random-bert", "--encoder-layers", "1", "--max-length", "24"),
    *("--encoder-batch", "8", "--threads", "1", "--search.neighbours", "5", "--search.block", "8"),
    *("--training.epochs", "1", "--training.batch", "4", "--training.worst-loss", "100", "--shared-storage"),
)


def furnished(place: Path, task: Task) -> Path:
    """Where a run is to be: a task and a module that labels."""
    write_task(task, place / "task", {})
    (place / "judge.py").write_text(JUDGE)
    return place


@pytest.fixture
def place(tmp_path, make_task) -> Path:
    return furnished(tmp_path, make_task(True))


@pytest.fixture(scope="module")
def quiet(make_task, tmp_path_factory) -> tuple[Path, tuple[list, list]]:
    """A run that nobody kills, and its labels and figures."""
    folder = furnished(tmp_path_factory.mktemp("quiet"), make_task(True))
    return folder, finished(folder)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three nodes; the first has no room for actors, and their GPUs are made up."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 10**8})
    for _ in range(2):
        made.add_node(num_cpus=1, num_gpus=1, object_store_memory=10**8)
    yield made
    made.shutdown()


def ended(place: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(HERE.parents[1]), str(place)])
    return subprocess.run(
        [sys.executable, *command, *OPTIONS], cwd=place, env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True, text=True, check=False, timeout=1800,
    )  # fmt: skip


def died(place: Path, stage: str, when: str, **environment: str) -> None:
    """Run until the driver kills itself inside a stage."""
    log = place / f"{stage}-{when}.txt"
    done = ended(place, str(HERE / "dying.py"), stage, when, str(log), **environment)
    assert done.returncode == -signal.SIGKILL, (stage, when, done.stderr)
    name, blocks, total = log.read_text().split()
    assert name == stage
    assert 0 < int(blocks) < int(total), "it died inside"


def finished(place: Path, **environment: str) -> tuple[list, list]:
    """Labels and figures of a run that has ended."""
    done = ended(place, "-m", "jobs.run", **environment)
    assert done.returncode == 0, done.stderr
    labels, measured = results(place / "run")
    records = [json.loads(path.read_text())["model"] for path in sorted(place.glob("run/round-*/record.json"))]
    return labels, [*measured, *records]


def bought_once(place: Path) -> bool:
    asked = (place / "asked.txt").read_text().splitlines()
    return len(asked) == len(set(asked)) == 40


def test_a_driver_killed_in_every_stage_ends_with_what_a_quiet_one_has(place, quiet):
    undisturbed, wanted = quiet
    assert [len(labels) for labels in wanted[0]] == [16, 24]
    for stage, when in DEATHS:
        died(place, stage, when)
    assert finished(place) == wanted
    assert bought_once(undisturbed)
    assert bought_once(place)


@pytest.mark.long
def test_so_does_one_killed_on_a_cluster_whose_places_are_free_at_once(place, quiet, cluster):
    environment = {"RAY_ADDRESS": cluster.address}
    for stage in ("embed", "search", "label", "train", "count"):
        died(place, stage, "first", **environment)
        # A shard and the trainer take both CPUs: the next start needs those places.
        await_end("PoolShard", "Trainer")
    assert finished(place, **environment) == quiet[1]
    assert bought_once(place)
