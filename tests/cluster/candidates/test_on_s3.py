"""A run with a matcher on an object store: what it comes to on a disk, and its evaluation too."""

import json
import sys
from collections import Counter

import pytest

from al_ray.cli import evaluate, run
from al_ray.cli._shared import entry
from al_ray.datasets.task_folder import write_task
from al_ray.storage.uri import storage_path
from tests.cluster.outcomes import figures, timeless
from tests.storage.s3 import served

LINE = (
    "--matcher on --rounds 2 --first-batch 16 --growth 1 --encoder random-bert --encoder-layers 1 --max-length 24 "
    "--encoder-batch 8 --threads 1 --search.neighbours 5 --search.block 16 --candidates.cosine 5 "
    "--candidates.trigrams 5 --evaluation.splits dev --timeout 600"
)


def go(monkeypatch, job, line: str) -> None:
    monkeypatch.setattr(sys, "argv", ["job", *line.split()])
    entry.job(job.main)


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_a_run_on_s3_is_the_run_on_a_disk(make_task, tmp_path, monkeypatch):
    write_task(make_task(False, clusters=18), tmp_path / "task", {})
    go(monkeypatch, run, f"--task {tmp_path / 'task'} --out {tmp_path / 'run'} {LINE}")
    with served() as server:
        write_task(make_task(False, clusters=18), storage_path(server.uri("task")), {})
        go(monkeypatch, run, f"--task {server.uri('task')} --out {server.uri('run')} {LINE} --shards 2")
        assert timeless(server.content("run/metrics.jsonl").decode()) == figures(tmp_path / "run")
        matcher = "round-002/model/matcher.safetensors"
        assert server.content(f"run/{matcher}") == (tmp_path / "run" / matcher).read_bytes()
        go(monkeypatch, evaluate, f"--run {server.uri('run')} --split train --timeout 600")
        go(monkeypatch, evaluate, f"--run {tmp_path / 'run'} --split train --timeout 600")
        there = json.loads(server.content("run/evaluation-train-exact.json"))
        here = json.loads((tmp_path / "run" / "evaluation-train-exact.json").read_text())
        assert there == here
        # The files of candidates and 3-grams are large: no shard downloads any of them twice, or those of another one.
        got = Counter(line for line in server.requests if line.startswith("GET") and line.endswith(".npy"))
        of_candidates = {line: times for line, times in got.items() if "/candidates/" in line}
        assert of_candidates
        assert set(of_candidates.values()) == {1}
        assert {times for line, times in got.items() if "/grams-" in line} == {1}
