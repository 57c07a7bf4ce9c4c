"""A driver killed in the middle of any stage: the same command goes on, and no label is lost or bought twice."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from al_ray.data.tables import write_task

pytestmark = pytest.mark.faults

HERE = Path(__file__).resolve().parent
# In the order in which they come. An actor may outlive its driver for a moment, and end a training that was nearly
# done: then the next one is that of the second round, which is why a training's end comes before a beginning.
DEATHS = [
    *(("embed", "first"), ("embed", "last"), ("search", "first"), ("search", "last"), ("label", "first")),
    *(("label", "last"), ("train", "last"), ("train", "first"), ("score", "first"), ("score", "last")),
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
    *("--training.epochs", "1", "--training.batch", "4", "--training.worst-loss", "100"),
)


@pytest.fixture
def place(tmp_path, make_task) -> Path:
    """Where a run is to be: a task and a module that labels."""
    write_task(make_task(True), tmp_path / "task", {})
    (tmp_path / "judge.py").write_text(JUDGE)
    return tmp_path


def ended(place: Path, *command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(HERE.parent), str(place)])
    return subprocess.run(
        [sys.executable, *command, *OPTIONS],
        cwd=place, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


def finished(place: Path) -> tuple[list, list]:
    """Labels and figures of a run that has ended."""
    done = ended(place, "-m", "jobs.run")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (place / "run" / "metrics.jsonl").read_text().splitlines()]
    figures = [{name: value for name, value in line.items() if name != "seconds"} for line in lines]
    records = [json.loads(path.read_text())["model"] for path in sorted(place.glob("run/round-*/record.json"))]
    labels = [pq.ParquetFile(path).read().to_pylist() for path in sorted(place.glob("run/round-*/labels.parquet"))]
    return labels, [*figures, *records]


def test_a_driver_killed_in_every_stage_ends_with_what_a_quiet_one_has(place, tmp_path_factory, make_task):
    quiet = tmp_path_factory.mktemp("quiet")
    write_task(make_task(True), quiet / "task", {})
    (quiet / "judge.py").write_text(JUDGE)
    wanted = finished(quiet)
    assert [len(labels) for labels in wanted[0]] == [16, 24]
    for stage, when in DEATHS:
        log = place / f"{stage}-{when}.txt"
        done = ended(place, str(HERE / "dying.py"), stage, when, str(log))
        assert done.returncode == -signal.SIGKILL, (stage, when, done.stderr)
        name, blocks, total = log.read_text().split()
        assert name == stage
        assert 0 < int(blocks) < int(total), "it died inside"
    assert finished(place) == wanted
    for run in (quiet, place):
        asked = (run / "asked.txt").read_text().splitlines()
        assert len(asked) == len(set(asked)) == 40, "each label is bought once"
