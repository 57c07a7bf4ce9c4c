"""Grids on a real Ray Tune: each run as it would be alone, a failed one marked and then made up for."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import ray
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from al_ray.apps.grid import runner as cluster_grid
from al_ray.apps.grid.ray_tune import Grid, run_cell
from al_ray.apps.grid.runner import run_grid
from al_ray.apps.reporting.export import write_summary
from al_ray.apps.reporting.read_runs import read_run, read_runs
from al_ray.cli import grid as grid_job
from al_ray.cli._shared.entry import job
from al_ray.cluster.trial import SeededSearch, seed_provenance
from al_ray.cluster.workers import workers_in_this_process
from al_ray.core.candidates import HIGHEST, Candidates, Order
from al_ray.core.errors import BadOption, NoPlacement
from al_ray.core.labels import Model
from al_ray.core.pairs import NO_KEYS
from al_ray.core.scorer import Scorer
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.runs.run_folder import RunFolder
from al_ray.runs.seed_sets import SeedSet, SeedSets
from al_ray.storage.files import write_json
from al_ray.storage.uri import storage_path
from tests.apps.grid.parsed import parsed_grid
from tests.running import run
from tests.storage.s3 import served

OPTIONS = (
    *("--rounds", "2", "--first-batch", "16", "--encoder", "random-bert", "--encoder-layers", "1"),
    *("--max-length", "24", "--encoder-batch", "8", "--threads", "1", "--search.neighbours", "5"),
    *("--search.block", "16", "--training.epochs", "1", "--training.batch", "8", "--training.learning-rate", "1e-3"),
    *("--training.worst-loss", "100", "--train-every-budget", "--timeout", "600", "--failures", "0"),
    *("--evaluation.mode", "estimate", "--evaluation.random-pairs", "50", "--evaluation.near-neighbours", "2"),
    *("--strategies", "static,uncertainty", "--seeds", "0"),
)


@pytest.fixture(scope="module")
def task(tmp_path_factory, make_task) -> Path:
    folder = tmp_path_factory.mktemp("tasks") / "task"
    write_task(make_task(True), folder, {})
    return folder


def asked(task: Path, out: Path, *more: str) -> Grid:
    return parsed_grid(["--task", str(task), "--out", str(out), *OPTIONS, *more])


@pytest.fixture(scope="module")
def alone(task, tmp_path_factory) -> Path:
    """The run static-s0 of the grid by itself, without Ray and with nothing shared."""
    folder = tmp_path_factory.mktemp("alone") / "static-s0"
    grid = asked(task, folder)
    with workers_in_this_process():
        run(grid.cells[0].config, grid.work.cluster, folder)
    return folder


def made(run_folder: Path) -> tuple[list, list, list]:
    """Figures without clocks, tables, and models of a run."""
    lines = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]
    figures = [{name: value for name, value in line.items() if name != "seconds"} for line in lines]
    kept = sorted([*run_folder.glob("round-*/batch.parquet"), *run_folder.glob("round-*/labels.parquet")])
    records = [json.loads(path.read_text()) for path in sorted(run_folder.glob("round-*/record.json"))]
    models = [(record["model"], record["evaluations"]) for record in records]
    return figures, [pq.ParquetFile(path).read().to_pylist() for path in kept], models


def ended(grid: Grid, task: Path, monkeypatch, capsys, *more: str) -> tuple[int, str]:
    """Exit code of the job and what it printed."""
    line = ["grid", "--task", str(task), "--out", str(grid.out), *OPTIONS, *more]
    monkeypatch.setattr(sys, "argv", line)
    code = 0
    try:
        job(grid_job.main)
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, capsys.readouterr().out


def groups() -> list[int]:
    """How many bundles each placement group has that stands."""
    table = ray.util.placement_group_table().values()
    return [len(group["bundles"]) for group in table if group["state"] == "CREATED"]


@pytest.mark.slow
def test_a_failed_run_is_marked_and_made_up_for_and_every_run_is_as_if_alone(
    local_ray, alone, task, tmp_path, monkeypatch, capsys
):
    out, seen = tmp_path / "grid", list[list[int]]()
    # Ray was started in another folder than that to which the task is relative.
    monkeypatch.chdir(task.parent)
    task = Path(task.name)
    grid = asked(task, out)
    # A file where a run's folder should be: this one fails, and no other.
    (out / "runs").mkdir(parents=True)
    (out / "runs" / "static-s0").touch()
    format_round = grid_job.format_round
    monkeypatch.setattr(grid_job, "format_round", lambda *args: (seen.append(groups()), format_round(*args))[1])
    code, said = ended(grid, task, monkeypatch, capsys)
    assert code == 1
    assert "uncertainty-s0: round 2 of 2, 40 labels" in said
    assert "static-s0: failed: " in said
    assert "cannot be written" in said
    # A shard and a trainer, and no group that an actor of a run made for itself.
    assert seen == [[2], [2]]
    rows = pq.ParquetFile(out / "summary.parquet").read().to_pylist()
    assert [(row["run"], row["status"], row["rounds"], row["round"], row["split"]) for row in rows] == [
        ("grid/static-s0", "failed", 0, None, None),
        *(("grid/uncertainty-s0", "complete", 2, number, "dev") for number in (1, 2)),
    ]
    assert "cannot be written" in rows[0]["error"]
    # A report of the grid has the same table.
    write_summary(tmp_path / "report.parquet", read_runs(out))
    assert pq.ParquetFile(tmp_path / "report.parquet").read().to_pylist() == rows
    assert "static-s0: failed" in (out / "summary.md").read_text()

    (out / "runs" / "static-s0").unlink()
    # Restored by Tune, though the task has moved.
    task = shutil.copytree(task, tmp_path / "moved")
    code, said = ended(grid, task, monkeypatch, capsys)
    assert code == 0
    assert json.loads((out / "runs" / "static-s0" / "config.json").read_text())["task"] == str(task)
    assert "uncertainty-s0: round" not in said, "it was done"
    assert "failed" not in (out / "summary.md").read_text()
    assert made(out / "runs" / "static-s0") == made(alone)
    # Vectors of train, and of dev for its evaluation set; those of no model.
    stored = {path.name.rpartition("-")[0] for path in out.glob("shared/pool/vectors/*/*.npy")}
    assert len(stored) == 2
    assert all(name.startswith("untrained-") for name in stored)
    assert not list(out.glob("runs/*/pool"))
    assert (task / "evaluation").is_dir()
    precision = [line["average_precision"] for line in made(alone)[0]]
    assert events(out / "tensorboard" / "static" / "seed-0") == pytest.approx({16: precision[0], 40: precision[1]})
    # All is there: nothing is started, and the same is said.
    monkeypatch.setattr(cluster_grid, "session", None)
    again, printed = ended(grid, task, monkeypatch, capsys)
    assert again == 0
    assert printed.splitlines()[-5:] == said.splitlines()[-5:]


def events(folder: Path) -> dict[int, float]:
    """Labels -> average precision, as TensorBoard reads it."""
    read = EventAccumulator(str(folder))
    read.Reload()
    assert {"pid", "done", "time_total_s"}.isdisjoint(read.Tags()["scalars"])
    return {event.step: event.value for event in read.Scalars("average_precision")}


def test_a_trial_that_starts_again_reports_what_was_not_reported(in_process, alone, task, tmp_path):
    grid = asked(task, tmp_path / "grid")
    (tmp_path / "grid" / "runs").mkdir(parents=True)
    (tmp_path / "grid" / "runs" / "static-s0").symlink_to(alone)
    for told, rounds in ((0, [1, 2]), (1, [2]), (2, [])):
        reported = list[Mapping[str, Any]]()
        run_cell(grid, grid.cells[0], reported.append, told, None)
        assert [line["round"] for line in reported] == rounds


@pytest.mark.slow
def test_a_run_that_matches_another_draws_what_that_one_bought(in_process, task, tmp_path):
    grid = asked(task, tmp_path / "grid", "--strategies", "uncertainty,stratified-match")
    uncertain, matched = grid.cells
    assert matched.after == uncertain.name
    lines = list[Mapping[str, Any]]()
    for cell in (uncertain, matched):
        run_cell(grid, cell, lines.append, 0, None)
    assert [line["round"] for line in lines] == [1, 2, 1]
    assert [(line["labels"], line["positives"]) for line in lines[1:]] == [(40, lines[1]["positives"])] * 2


@pytest.mark.slow
def test_an_interrupt_ends_the_grid_before_its_next_phase(task, tmp_path):
    command = [sys.executable, "-m", "jobs.grid", "--task", str(task), "--out", str(tmp_path / "grid"), *OPTIONS]
    command += ["--strategies", "uncertainty,stratified-match"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as it:
        assert it.stdout is not None
        assert next(line for line in it.stdout if "uncertainty-s0: round 1 of 2" in line)
        it.send_signal(signal.SIGINT)
        said = it.stdout.read()
    assert it.returncode not in (0, 1)
    assert "stratified" not in said
    assert not (tmp_path / "grid" / "runs" / "stratified-match-s0").exists()
    again = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert "stratified-match-s0: round 1 of 1" in again.stdout


class Refuses:
    """A search that is not to be asked."""

    def least(self, *asked: Any) -> Candidates:
        raise AssertionError("searched")


def test_a_trial_searches_only_what_was_not_found_for_all(task, tmp_path):
    config = asked(task, tmp_path).cells[0].config
    journal = RunFolder(tmp_path / "run", read_task(task))
    untrained, found = Model("", "weights"), Candidates(np.array([5, 3, 8]), np.array([0.9, 0.8, 0.7]))
    seeds = SeedSet(found, 3, 0.5)
    SeedSets(tmp_path).write(seeds, seed_provenance(config, journal.task, untrained))
    search = SeededSearch(Refuses(), config, journal, tmp_path)  # pyright: ignore[reportArgumentType]
    assert search.least(untrained, HIGHEST, 2, NO_KEYS).keys.tolist() == [5, 3]
    assert search.least(untrained, HIGHEST, 1, np.array([5])).keys.tolist() == [3]
    assert json.loads((tmp_path / "run" / "round-001" / "search.json").read_text()) == {"index_recall": 0.5}
    others = replace(untrained, digest="others")
    trained = replace(untrained, scorer=Scorer(1.0, 0.0))
    for model, order, count in (
        (untrained, HIGHEST, 4),
        (others, HIGHEST, 2),
        (trained, HIGHEST, 2),
        (untrained, Order(0.5), 2),
    ):
        with pytest.raises(AssertionError, match="searched"):
            search.least(model, order, count, NO_KEYS)


def test_a_grid_without_room_says_what_it_asks_for_and_what_there_is(local_ray, task, tmp_path):
    grid = asked(task, tmp_path / "grid", "--gpus-per-shard", "1", "--shards", "2")
    with pytest.raises(
        NoPlacement, match=r"3 actors \(1 CPUs and 1 GPUs, .*\), and the cluster has 1 nodes \(6 CPUs, 0 GPUs\)"
    ):
        run_grid(grid, lambda *_: None, lambda *_: None)
    assert not (grid.out / "runs").exists()


@pytest.mark.slow
def test_a_run_whose_folder_was_removed_is_made_again(local_ray, alone, task, tmp_path, monkeypatch, capsys):
    grid, gone = asked(task, tmp_path / "grid"), tmp_path / "grid" / "runs" / "static-s0"
    assert ended(grid, task, monkeypatch, capsys)[0] == 0
    for _ in range(2):
        shutil.rmtree(gone)
        code, said = ended(grid, task, monkeypatch, capsys)
        assert code == 0, said
        assert "static-s0: round 2 of 2, 40 labels" in said
        assert "uncertainty-s0: round" not in said
        assert made(gone) == made(alone)


def test_a_dry_run_says_what_each_run_costs_and_starts_none(local_ray, task, tmp_path, monkeypatch, capsys):
    grid = asked(task, tmp_path / "grid")
    code, said = ended(grid, task, monkeypatch, capsys, "--dry-run")
    assert code == 0
    assert [line.split() for line in said.splitlines()[:4]] == [
        ["run", "labels", "trainings", "done", "after"],
        ["static-s0", "40", "2", "0", "-"],
        ["uncertainty-s0", "40", "2", "0", "-"],
        ["2", "runs", "80", "4", "0"],
    ]
    # 6 CPUs, two for a run, and two runs.
    assert said.splitlines()[4] == "there is room for 2 runs at a time, each with 2 actors"
    assert not grid.out.exists()
    code, said = ended(grid, task, monkeypatch, capsys, "--dry-run", "--gpus-per-shard", "1")
    assert code == 1
    assert said.splitlines()[4] == "there is room for 0 runs at a time, each with 2 actors"
    write_json(grid.out / "runs" / "static-s0" / "state.json", {"round": 1})
    _, said = ended(grid, task, monkeypatch, capsys, "--dry-run")
    assert [line.split()[3:] for line in said.splitlines()[1:4]] == [["1", "-"], ["0", "-"], ["4", "1"]]


@pytest.mark.parametrize("one", [["--strategy", "random"], ["--seed=3"], ["--encoder", "random-bert"]])
def test_an_option_beside_its_axis_is_refused(task, tmp_path, one):
    with pytest.raises(BadOption, match=rf"^{one[0].partition('=')[0]} is given, and so is the axis"):
        asked(task, tmp_path / "grid", "--encoders", "random-bert", *one)


def test_runs_that_would_give_their_places_back_are_refused(task, tmp_path):
    with pytest.raises(BadOption, match=r"^`release_actors=True`: .*; leave it out$"):
        cluster_grid.validate(asked(task, tmp_path / "grid", "--release-actors"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--seeds", "1"], "axes.seeds: [0] there, [1] here"),
        (["--growth", "2"], "options.growth: 1.5 there, 2.0 here"),
    ],
)
def test_the_command_of_another_grid_is_refused(task, tmp_path, monkeypatch, capsys, more, words):
    grid = asked(task, tmp_path / "grid")
    cluster_grid.GridFolder(grid.out).bind(grid.axes, grid.work.config, grid.cells, read_task(task).digest)
    monkeypatch.setattr(sys, "argv", ["grid", "--task", str(task), "--out", str(grid.out), *OPTIONS, *more])
    with pytest.raises(SystemExit) as stop:
        job(grid_job.main)
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.slow
def test_a_grid_on_s3_is_the_grid_on_a_disk(local_ray, alone, task, make_task):
    with served() as server:
        write_task(make_task(True), storage_path(server.uri("task")), {})
        line = ["--task", server.uri("task"), "--out", server.uri("grid"), *OPTIONS]
        for told in (4, 0):
            # The second time there is nothing left to do.
            rounds = list[Mapping[str, Any]]()
            runs = run_grid(parsed_grid(line), lambda *_: None, lambda _, said, rounds=rounds: rounds.append(said))
            assert len(rounds) == told
        assert [replace(one, seconds={}) for one in runs[0].rounds] == [
            replace(one, seconds={}) for one in read_run(alone, "alone").rounds
        ]
        assert [run.status for run in runs] == ["complete", "complete"]
        assert any(name.startswith("phase-1-") for name in server.names("grid/tune"))
