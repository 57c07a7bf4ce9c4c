"""Shards and drivers that die while candidates are found, compared and ranked: the answers are those of a quiet run."""

import json
import os
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import al_ray
from al_ray.active_learning.config import RunConfig
from al_ray.cli import run as run_pipeline
from al_ray.cli._shared.progress import Progress
from al_ray.cluster.candidates.matcher_trainer import MatcherTrainer
from al_ray.cluster.candidates.sharded_candidates import ShardedCandidates
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import CandidatesConfig, EvaluationConfig, SearchConfig
from al_ray.core.errors import AlRayError, BadFile
from al_ray.datasets.task_folder import write_task
from tests.cluster.outcomes import results
from tests.cluster.processes import await_end, workers
from tests.cluster.test_full_disk import filled, mount
from tests.running import run

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("local_ray")]

WHERE = ClusterConfig(shards=2, timeout=600, shared_storage=True)
# Calls of ShardedPool.on_all by stage, in order; those of 3-grams: the first of a split writes them; the first of dense
# texts counts what thresholds add.
DEATHS = [
    *(("3-grams", 0), ("cosine", 0), ("3-grams", 1), ("cosine", 1), ("3-grams", 2), ("compare", 0), ("search", 0)),
    *(("dense", 0), ("dense", 1), ("dense", 2), ("score", 0), ("count", 1)),
]


@pytest.fixture(scope="module")
def asked(make_task, tmp_path_factory) -> RunConfig:
    folder = tmp_path_factory.mktemp("task")
    write_task(make_task(False, clusters=18), folder / "task", {})
    return RunConfig(
        task=str(folder / "task"), rounds=2, first_batch=16, growth=1.0, encoder="random-bert", encoder_layers=1,
        max_length=24, encoder_batch=8, threads=1, search=SearchConfig(neighbours=5, block=8), matcher="on",
        candidates=CandidatesConfig(cosine=5, trigrams=5, of_dense=9), evaluation=EvaluationConfig(splits=("dev",)),
    )  # fmt: skip


def outcome(path: Path) -> tuple:
    """Labels, figures, and the bits of the models of a run."""
    models = [file.read_bytes() for file in sorted(path.glob("round-*/model/matcher.safetensors"))]
    return *results(path), models


@pytest.fixture(scope="module")
def quiet(local_ray, asked, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("quiet") / "run"
    run(asked, WHERE, path)
    return path


@pytest.mark.parametrize(("stage", "number"), DEATHS)
def test_a_shard_killed_in_a_stage_costs_time_alone(asked, quiet, tmp_path, monkeypatch, stage, number):
    deaths = list[tuple[str, int, int]]()

    class Killer(Progress):
        calls, last = dict[str, int](), ("", 0)

        def __call__(self, named: str, done: int, total: int) -> None:
            super().__call__(named, done, total)
            # A stage begins where another one was before, or where less is done than before.
            if named != Killer.last[0] or done < Killer.last[1]:
                Killer.calls[named] = Killer.calls.get(named, -1) + 1
            Killer.last = named, done
            if named == stage and Killer.calls[named] == number and 0 < done < total and not deaths:
                deaths.append((named, done, total))
                victim = workers("PoolShard")[0]
                os.kill(victim.pid, signal.SIGKILL)
                victim.wait(60)

    await_end("PoolShard")
    monkeypatch.setattr(run_pipeline, "Progress", Killer)
    run(asked, WHERE, tmp_path / "run")
    assert [death[0] for death in deaths] == [stage], "it died inside"
    assert outcome(tmp_path / "run") == outcome(quiet)


def test_a_run_killed_after_its_matcher_was_written_resumes_to_the_same_bits(asked, quiet, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(quiet, path)
    # As a kill between the file of the matcher and state.json leaves them.
    (path / "state.json").write_text(json.dumps({"round": 1, "labels": 16}))
    (path / "round-002" / "record.json").unlink()
    lines = (path / "metrics.jsonl").read_text().splitlines(keepends=True)
    (path / "metrics.jsonl").write_text(lines[0])
    shutil.rmtree(path / "round-002" / "model" / "scorer.json", ignore_errors=True)
    (path / "ended.json").unlink(missing_ok=True)
    run(asked, WHERE, path)
    assert outcome(path) == outcome(quiet)


def test_a_run_resumes_without_its_pool(asked, quiet, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(quiet, path)
    shutil.rmtree(path / "pool")
    run(replace(asked, rounds=3), WHERE, path)
    straight = tmp_path / "straight"
    run(replace(asked, rounds=3), ClusterConfig(shards=1, timeout=600), straight)
    assert outcome(path) == outcome(straight)


@pytest.mark.parametrize("name", ["keys.npy", "features-00000.npy", "names.json"])
def test_damaged_candidates_are_told_of_and_found_again_when_deleted(asked, quiet, tmp_path, name):
    path = tmp_path / "run"
    shutil.copytree(quiet, path)
    expected = al_ray.evaluate(al_ray.load_run(path), "dev", cluster=WHERE).average_precision.value
    damaged = sorted(path.glob(f"pool/*/candidates/*/*/*/{name}"))
    for file in damaged:
        file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(BadFile, match=r"delete .*/candidates/.* and run again"):
        al_ray.evaluate(al_ray.load_run(path), "dev", cluster=WHERE)
    for file in damaged:
        shutil.rmtree(file.parent, ignore_errors=True)
    assert al_ray.evaluate(al_ray.load_run(path), "dev", cluster=WHERE).average_precision.value == expected


@pytest.mark.parametrize("damage", ["cut", "junk", "missing"])
def test_a_damaged_matcher_is_told_of(asked, quiet, tmp_path, damage):
    path = tmp_path / "run"
    shutil.copytree(quiet, path)
    file = path / "round-002" / "model" / "matcher.safetensors"
    content = file.read_bytes()
    file.unlink()
    if damage != "missing":
        file.write_bytes({"cut": content[:-9], "junk": b"junk" * 99}[damage])
    with pytest.raises(BadFile, match="restore it"):
        al_ray.evaluate(al_ray.load_run(path), "dev", cluster=WHERE)


MOMENTS = {"pool/": (ShardedCandidates, "_find"), "round-001/model/matcher.safetensors": (MatcherTrainer, "train")}


def test_a_full_disk_is_told_of_and_the_command_goes_on(asked, quiet, tmp_path, monkeypatch):
    if os.geteuid():
        pytest.skip("only root may mount a tmpfs")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount("-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk))
    try:
        for place, moment in MOMENTS.items():
            with monkeypatch.context() as patched:
                filled(patched, disk, *moment)
                with pytest.raises(AlRayError, match=rf"disk/run/{place}.*cannot be written \("):
                    run(asked, WHERE, disk / "run")
            assert not (disk / "run" / "state.json").exists()
            (disk / "filler").unlink()
        run(asked, WHERE, disk / "run")
        assert outcome(disk / "run") == outcome(quiet)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=False)
