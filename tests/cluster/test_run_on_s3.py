"""Runs on an object store: what they come to on a disk, with every job; a driver killed there goes on there."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import al_ray
from al_ray.cli import evaluate, labels, run
from al_ray.cli._shared import entry
from al_ray.datasets.task_folder import write_task
from al_ray.runs.run_folder import bound_config
from al_ray.storage import lock
from al_ray.storage.files import write_json
from al_ray.storage.uri import storage_path
from tests.cluster.outcomes import timeless
from tests.storage.s3 import Server, served

HERE = Path(__file__).resolve().parent
LINE = (
    "--rounds 2 --first-batch 16 --encoder random-bert --encoder-layers 1 --max-length 24 --encoder-batch 8 "
    "--threads 1 --search.neighbours 5 --search.block 8 --training.epochs 1 --training.batch 4 "
    "--training.worst-loss 100 --timeout 600 --checkpoint-seconds 0"
)
# The label dies between two pieces of answers, the training between two checkpoints.
DEATHS = [("label", "first"), ("train", "last"), ("count", "first")]
JUDGE = """
def label(left, right):
    return [len(set(one) & set(other)) > 0.7 * len(set(one)) for one, other in zip(left, right)]
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served() as started:
        yield started


def go(job, line: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["job", *shlex.split(line)])
        # An owner that is alive must be heard of in three beats, however busy the machine is.
        patched.setattr(lock, "BEAT", 2.0)
        entry.job(job.main)


def refused(job, line: str, capsys) -> str:
    """What a job says on stderr as it refuses."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        go(job, line)
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert said.startswith("error: ")
    return said


def of_folder(run: Path) -> dict[str, bytes]:
    """A run's files by their names in it."""
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in run.rglob("*") if path.is_file()}


def of_bucket(server: Server, run: str) -> dict[str, bytes]:
    """Likewise."""
    return {name: server.content(f"{run}/{name}") for name in server.names(run)}


def results(files: dict[str, bytes]) -> tuple[list, list, list]:
    """The labels of a run, its figures, times aside, and its models."""
    bought = [files[name] for name in sorted(files) if name.endswith("/labels.parquet")]
    records = [json.loads(files[name]) for name in sorted(files) if name.endswith("/record.json")]
    return (
        [pq.ParquetFile(pa.BufferReader(content)).read().to_pylist() for content in bought],
        timeless(files["metrics.jsonl"].decode()),
        [(record["model"], record["evaluations"]) for record in records],
    )


@pytest.fixture(scope="module")
def runs(in_process, server, make_task, tmp_path_factory) -> dict[str, bytes]:
    """The files of a run on a disk; the same is in the bucket, as `run`, its task too."""
    root = tmp_path_factory.mktemp("on-disk")
    write_task(make_task(True), root / "task", {})
    write_task(make_task(True), storage_path(server.uri("task")), {})
    go(run, f"--task {root / 'task'} --out {root / 'run'} {LINE}")
    go(run, f"--task '{server.uri('task')}' --out '{server.uri('run')}' {LINE}")
    return of_folder(root / "run")


@pytest.mark.slow
def test_a_run_on_s3_is_the_run_on_a_disk(runs, server):
    there = of_bucket(server, "run")
    assert results(there) == results(runs)
    # Beside the events of TensorBoard, whose names tell the time, and the lock, the same files.
    of = [{name for name in files if not name.startswith(("events/", ".lock"))} for files in (there, runs)]
    assert of[0] == of[1]
    assert sum(name.startswith("events/") for name in there) == 2, "one a round"
    written = [line.removeprefix("PUT /bucket/run/") for line in server.requests if line.startswith("PUT /bucket/run/")]
    last = ["record.json", "metrics.jsonl", "state.json", "events"]
    told = [next((name for name in last if name in line), "") for line in written]
    assert [name for name in told if name] == 2 * last, "a round's state is the last of its own files"
    assert not [name for name in there if "training.safetensors" in name]


@pytest.mark.slow
def test_a_finished_run_on_s3_is_left_as_it_is_and_its_jobs_find_it(runs, server, capsys):
    before, uri = of_bucket(server, "run"), server.uri("run")
    go(run, f"--config '{uri}' --out '{uri}'")
    assert of_bucket(server, "run") == before
    go(labels, f"status --run '{uri}'")
    said = capsys.readouterr().out
    assert "complete rounds: 2;" in said
    go(labels, f"export --run '{uri}' --out '{server.uri('labels.csv')}'")
    assert len(server.content("labels.csv").splitlines()) == 1 + 40
    go(evaluate, f"--run '{uri}' --round 1 --exact")
    found = json.loads(server.content("run/round-001/evaluation-dev-exact.json"))
    line = json.loads(before["metrics.jsonl"].splitlines()[0])
    assert found["average_precision"]["value"] == line["average_precision"]
    # What `al_ray.run` returns can be written to, though its lease has ended.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lock, "BEAT", 2.0)
        again = al_ray.run(bound_config(storage_path(uri)), uri)
    write_json(again.folder.path / "notes.json", {})
    assert "notes.json" in of_bucket(server, "run")


@pytest.mark.slow
def test_what_a_run_on_s3_cannot_have_is_told_in_one_line(runs, server, make_task, tmp_path, monkeypatch, capsys):
    write_task(make_task(True), tmp_path / "task", {})
    line, uri = f"--task {tmp_path / 'task'} {LINE}", server.uri("another")
    said = refused(run, f"{line} --out '{uri.replace('bucket', 'nowhere', 1)}'", capsys)
    assert "s3://nowhere/another/.lock" in said
    assert "check the bucket, its address and your credentials" in said
    assert "holds no task.json" in refused(run, f"--task '{server.uri('none')}' {LINE} --out '{uri}'", capsys)
    texts = server.uri("task")
    assert "is a task folder or lies in one" in refused(run, f"{line} --out '{texts}'", capsys)
    inside = f"--task '{texts}' {LINE} --out '{server.uri('task/run')}'"
    assert "is a task folder or lies in one" in refused(run, inside, capsys)
    by_people = refused(run, f"{line} --oracle file --out '{uri}'", capsys)
    assert "people label in files of the run folder, which must be on a local disk" in by_people
    assert "holds no config.json" in refused(evaluate, f"--run '{server.uri('none')}'", capsys)
    monkeypatch.setattr(lock, "BEAT", 0.1)
    with lock.locked(storage_path(uri)):
        assert "is being written by process" in refused(run, f"{line} --out '{uri}'", capsys)


def test_a_server_that_is_gone_is_told_of_in_one_line(tmp_path, make_task, capsys):
    write_task(make_task(True), tmp_path / "task", {})
    # Nobody listens at port 1.
    uri = "s3://bucket/run?endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1"
    said = refused(run, f"--task {tmp_path / 'task'} {LINE} --out '{uri}'", capsys)
    assert "s3://bucket/run" in said
    assert "NETWORK_CONNECTION" in said


def ended(folder: Path, server: Server, *command: str) -> subprocess.CompletedProcess[str]:
    line = f"--task task --out '{server.uri('killed')}' --oracle judge:label --pairs-per-call 4 {LINE}"
    return subprocess.run(
        [sys.executable, str(HERE / "dying.py"), *command, *shlex.split(line)], cwd=folder, check=False, timeout=1800,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), str(folder)])}, capture_output=True,
        text=True,
    )  # fmt: skip


@pytest.mark.faults
@pytest.mark.long
def test_a_driver_killed_on_s3_goes_on_and_ends_with_what_a_quiet_one_has(server, make_task, tmp_path):
    write_task(make_task(True), tmp_path / "task", {})
    (tmp_path / "judge.py").write_text(JUDGE)
    for stage, when in DEATHS:
        done = ended(tmp_path, server, stage, when, str(tmp_path / "log.txt"))
        assert done.returncode == -signal.SIGKILL, (stage, done.stderr)
        assert ("is dead: taking over its lock" in done.stderr) == (stage != "label")
        assert ("round-001/training.safetensors" in server.names("killed")) == (stage == "train")
    done = ended(tmp_path, server, "never", "last", "")
    assert done.returncode == 0, done.stderr
    found = of_bucket(server, "killed")
    command = shlex.split(f"--task task --out quiet --oracle judge:label --pairs-per-call 4 {LINE}")
    quiet = subprocess.run(
        [sys.executable, "-m", "jobs.run", *command], cwd=tmp_path, check=False, timeout=1800, capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), str(tmp_path)])}, text=True,
    )  # fmt: skip
    assert quiet.returncode == 0, quiet.stderr
    assert results(found) == results(of_folder(tmp_path / "quiet"))
    assert ".lock" not in found
