"""Whole commands in this process and on Ray: the same files to the last bit, and nothing that crosses is changed."""

import hashlib
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from al_ray import MatchOptions
from al_ray.active_learning.config import RunConfig
from al_ray.api.matching import match
from al_ray.cluster import local_workers
from al_ray.cluster.measurement import evaluate_round, make_evaluation_sets, score_stated_pairs
from al_ray.cluster.workers import workers_in_this_process
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import (
    CandidatesConfig,
    EvaluationConfig,
    ScoringConfig,
    SearchConfig,
    TrainingConfig,
)
from al_ray.core.progress import no_progress
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.files import read_parquet
from tests.cluster.outcomes import timeless
from tests.running import run

CPUS = ClusterConfig(timeout=600)
# What differs from run to run: times, and names of processes.
OF_TIMES = {"seconds.json", "planned.json", "record.json", "match.json", "matches.html", "limits.json"}
CANDIDATES = CandidatesConfig(cosine=5, trigrams=5, of_right=5)
SAMPLED = EvaluationConfig(mode="estimate", near_neighbours=5, random_pairs=200, splits=("dev",))


def config_of(task: Path, **changes: Any) -> RunConfig:
    small = RunConfig(
        task=str(task), rounds=2, first_batch=16, encoder="random-bert", encoder_layers=1, max_length=24,
        encoder_batch=8, threads=1, search=SearchConfig(neighbours=5, block=16),
        training=TrainingConfig(epochs=1, batch=8, learning_rate=1e-3, worst_loss=100.0),
        evaluation=EvaluationConfig(splits=("dev",)),
    )  # fmt: skip
    return replace(small, **changes)


RUNS: dict[str, tuple[bool, dict[str, Any]]] = {
    "exact search": (True, {"search": SearchConfig(kind="exact", block=16)}),
    "an index with cells and a sample": (
        True,
        {"search": SearchConfig(neighbours=5, block=16, index="IVF4,Flat", nprobe=2), "evaluation": SAMPLED},
    ),
    "a neighbourhood": (False, {"scoring": ScoringConfig(0.5)}),
    "two threads": (False, {"threads": 2}),
    "a matcher": (
        False,
        {
            "matcher": "on",
            "training": TrainingConfig(),
            "candidates": CANDIDATES,
        },
    ),
    "a matcher and its encoder": (
        True,
        {"matcher": "on", "encoder_every": 1, "candidates": CANDIDATES},
    ),
}


def files_of(folder: Path) -> dict[str, Any]:
    """The content of the files of a folder, but for times."""
    found = dict[str, Any]()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if path.name in OF_TIMES or "events" in path.parts:
            continue
        found[name] = timeless(path.read_text()) if path.name == "metrics.jsonl" else path.read_bytes()
    return found


@pytest.fixture
def both(local_ray, tmp_path) -> Callable[[Callable[[Path], Any]], list[tuple[Any, dict[str, Any]]]]:
    """The function that does a work on Ray and in this process, each in a folder of its own: answers and files."""

    def do(work: Callable[[Path], Any]) -> list[tuple[Any, dict[str, Any]]]:
        done = []
        for here in (False, True):
            # One name, which files may hold.
            place = tmp_path / "place"
            with workers_in_this_process(here):
                answer = work(place)
            done.append((answer, files_of(place)))
            place.rename(tmp_path / f"place-{here}")
        return done

    return do


@pytest.fixture
def unchanged(monkeypatch) -> Callable[[], int]:
    """The function that checks that arrays which crossed hold what they held then, and says how many they were."""
    crossed, receive = list[tuple[memoryview, bytes]](), local_workers.received

    def watched(value: Any) -> Any:
        buffers = list[pickle.PickleBuffer]()
        pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        crossed.extend((raw, hashlib.sha256(raw).digest()) for raw in (buffer.raw() for buffer in buffers))
        return receive(value)

    def check() -> int:
        assert all(hashlib.sha256(raw).digest() == digest for raw, digest in crossed)
        return len(crossed)

    monkeypatch.setattr(local_workers, "received", watched)
    return check


# The first has a trainer, candidates and a matcher: all that the two of MORE have but the neighbourhood of a score.
QUICK, MORE = {"a matcher and its encoder"}, {"a neighbourhood", "a matcher"}
MARKS = {name: () if name in QUICK else pytest.mark.more if name in MORE else pytest.mark.slow for name in RUNS}


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks) for name, marks in MARKS.items()])
def test_a_run_and_what_uses_its_model_are_the_same(both, unchanged, make_task, tmp_path, name):
    symmetric, changes = RUNS[name]
    write_task(task := make_task(symmetric), tmp_path / "task", {})
    # Of a two-sided task, too: both sides have the same texts.
    lines = "\n".join(["id,text", *(f"{key},{text}" for key, text in zip(task.left.ids, task.left.texts, strict=True))])
    for name_of_table in ("left.csv", "right.csv"):
        (tmp_path / name_of_table).write_text(lines)

    def work(place: Path) -> Any:
        config = config_of(tmp_path / "task", **changes)
        folder = run(config, CPUS, place / "run")
        assert [len(line) > 0 for line in folder.metrics()] == [True, True]
        where = RunFolder(folder.path, read_task(tmp_path / "task"))
        evaluation = evaluate_round(config, CPUS, where, "dev", 2, no_progress)
        scored = score_stated_pairs(config, CPUS, where, ["dev"], 2, no_progress)
        table, right = tmp_path / "left.csv", None if symmetric else tmp_path / "right.csv"
        options = MatchOptions(left=table, right=right, id_column="id", text_columns="text", best=50)
        found = match(folder.path, options, place / "matches", cluster=CPUS)
        return json.dumps(evaluation.as_dict()), scored["dev"].scores.tobytes(), found.matches().to_pylist()

    on_ray, here = both(work)
    assert unchanged() > 100
    assert here[0] == on_ray[0]
    assert list(here[1]) == list(on_ray[1])
    assert here[1] == on_ray[1]
    assert len(here[0][2]) > 0


def test_evaluation_sets_are_the_same(both, unchanged, make_task, tmp_path):
    write_task(make_task(False), tmp_path / "task", {})

    def work(place: Path) -> Any:
        write_task(read_task(tmp_path / "task"), place / "task", {})
        config = config_of(place / "task", evaluation=SAMPLED)
        task = read_task(place / "task")
        made = list(make_evaluation_sets(config, CPUS, task, ["train", "dev"], no_progress))
        files = sorted((place / "task" / "evaluation").glob("*/*.parquet"))
        sizes = [(split.name, summary.name, summary.size) for split, strata in made for summary in strata]
        return sizes, [read_parquet(file)["key"].to_pylist() for file in files]

    on_ray, here = both(work)
    assert unchanged() > 10
    assert here == on_ray
