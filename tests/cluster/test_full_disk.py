"""A disk that is full, or cannot be written, at any moment of a run: one line, nothing lost; the command goes on."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from al_ray.cli import labels, run
from al_ray.cli._shared import entry
from al_ray.cluster import services as world
from al_ray.cluster.token_store import write_pool
from al_ray.core.errors import AlRayError
from al_ray.core.scorer import Scorer
from al_ray.datasets.task_folder import write_task
from al_ray.encoders.transformer import Encoder
from al_ray.runs import run_folder
from al_ray.runs.ledger import Ledger
from al_ray.runs.run_folder import RunFolder
from al_ray.training.saved_model import write_model

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("local_ray")]

# What a run writes, in this order, and what is called just before; pool, fit and model are written by workers.
MOMENTS = {
    "pool/": (world, "prepare_pool"),
    "round-001/batch.parquet": (Ledger, "add_batch"),
    "round-001/answers-00001.parquet": (Ledger, "add_answers"),
    "round-001/labels.parquet": (Ledger, "seal"),
    "round-001/fit.parquet": (world.TrainerActor, "train"),
    "round-001/examples.parquet": (RunFolder, "record_round"),
    "metrics.jsonl": (run_folder, "write_text"),
}
LINE = (
    "--task task --out disk/run --rounds 1 --first-batch 16 --encoder random-bert --encoder-layers 1 --max-length 24 "
    "--encoder-batch 8 --threads 1 --search.neighbours 5 --training.epochs 1 --training.batch 8 "
    "--training.worst-loss 100 --timeout 600"
)


def mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path, make_task, monkeypatch) -> Iterator[Path]:
    """A disk of 4 MB beside a task."""
    write_task(make_task(True), tmp_path / "task", {})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "disk").mkdir()
    if os.geteuid():
        pytest.skip("only root may mount a tmpfs")
    mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", str(tmp_path / "disk"))
    yield tmp_path / "disk"
    subprocess.run(["umount", "--lazy", str(tmp_path / "disk")], check=False)


def go(monkeypatch, job, line: str) -> None:
    monkeypatch.setattr(sys, "argv", ["job", *shlex.split(line)])
    entry.job(job.main)


def refused(monkeypatch, capsys) -> str:
    """What the run says as it stops."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        go(monkeypatch, run, LINE)
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert said.startswith("error: ")
    return said


@pytest.fixture(scope="module")
def quiet(local_ray, tmp_path_factory, make_task) -> tuple[list, list]:
    """What a run on a good disk makes."""
    place = tmp_path_factory.mktemp("quiet")
    write_task(make_task(True), place / "task", {})
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(place)
        go(patched, run, LINE)
    return made(place / "disk" / "run")


def made(folder: Path) -> tuple[list, list]:
    """What a run bought, trained and measured."""
    bought = pq.ParquetFile(folder / "round-001" / "labels.parquet").read().to_pylist()
    (line,) = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    model = json.loads((folder / "round-001" / "record.json").read_text())["model"]
    return bought, [model, line["average_precision"], line["positives"], line["boundary"]]


def kept(folder: Path) -> dict[str, bytes]:
    """Every file but the lock, what TensorBoard reads, and the times, to which each process adds its own."""
    every = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {
        name: path.read_bytes()
        for name, path in every.items()
        if name not in (".lock", "seconds.json") and "events" not in name
    }


def fill(disk: Path) -> None:
    """Take all the room there is, to the last byte."""
    with (disk / "filler").open("wb", buffering=0) as filler:
        for size in (65536, 4096, 1):
            try:
                while filler.write(b"x" * size) == size:
                    pass
            except OSError:
                continue


def filled(monkeypatch, disk: Path, owner, name: str) -> None:
    """Fill the disk as this is called."""
    old = getattr(owner, name)

    def first_fill(*arguments, **options):
        fill(disk)
        return old(*arguments, **options)

    monkeypatch.setattr(owner, name, first_fill)


def test_a_disk_that_becomes_full_at_any_moment_loses_nothing(disk, quiet, monkeypatch, capsys):
    before: dict[str, bytes] = {}
    for place, moment in MOMENTS.items():
        with monkeypatch.context() as patched:
            filled(patched, disk, *moment)
            said = refused(patched, capsys)
        assert f"disk/run/{place}" in said
        assert "cannot be written (" in said
        assert "make room or give another place, then go on" in said
        now = kept(disk / "run")
        assert {name: now.get(name) for name in before} == before, place
        assert not [name for name in now if Path(name).name.startswith(".")], "nothing half-made takes up room"
        assert not (disk / "run" / "state.json").exists()
        before = now
        (disk / "filler").unlink()
    assert {"round-001/batch.parquet", "round-001/labels.parquet", "round-001/model/scorer.json"} <= set(before)
    go(monkeypatch, run, LINE)
    assert made(disk / "run") == quiet


@pytest.mark.parametrize("what", ["model", "task", "pool"])
def test_however_much_room_is_left_a_folder_is_whole_or_not_there(disk, letters, make_task, what):
    # Python, NumPy, Arrow, safetensors and tokenizers each say in their own way that a disk is full.
    encoder, folder, outcomes = Encoder.base(letters), disk / what, []
    make = {
        "model": lambda: write_model(encoder, Scorer(9.0, -8.0), folder, "nothing"),
        "task": lambda: write_task(make_task(True), folder, {}),
        "pool": lambda: write_pool("task", letters, str(folder)),
    }[what]
    for pages in range(64):
        fill(disk)
        os.truncate(disk / "filler", (disk / "filler").stat().st_size - pages * 4096)
        said = ""
        try:
            make()
            assert what != "pool" or (folder / "encoder.json").is_file()
        except AlRayError as error:
            said = str(error)
            # A pool folder that lacks this file is not complete; the next run goes on with it.
            assert what != "pool" or not (folder / "encoder.json").exists()
        if what == "pool" or not said:
            assert not [path for path in folder.rglob("*") if path.name.startswith(".")]
            shutil.rmtree(folder)
        # A file of the hidden folder beside it, or the folder itself.
        assert not said or ("/disk/" in said and "cannot be written (" in said)
        assert [path.name for path in disk.iterdir()] == ["filler"]
        outcomes.append(not said)
        (disk / "filler").unlink()
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}


def test_a_disk_that_cannot_be_written_is_told_of_and_can_be_read(disk, quiet, monkeypatch, capsys):
    def again() -> None:
        mount("-o", "remount,ro", str(disk))
        said = refused(monkeypatch, capsys)
        assert "disk/run cannot be written (Read-only file system); give another folder" in said

    again()
    mount("-o", "remount,rw", str(disk))
    with monkeypatch.context() as patched:
        filled(patched, disk, *MOMENTS["round-001/fit.parquet"])
        refused(patched, capsys)
    (disk / "filler").unlink()
    before = kept(disk / "run")
    again()
    go(monkeypatch, labels, "status --run disk/run")
    assert "complete rounds: 0;" in capsys.readouterr().out
    go(monkeypatch, labels, "export --run disk/run --out labels.csv")
    assert kept(disk / "run") == before
    mount("-o", "remount,rw", str(disk))
    go(monkeypatch, run, LINE)
    assert made(disk / "run") == quiet
