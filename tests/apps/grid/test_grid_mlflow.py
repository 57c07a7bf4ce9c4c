"""A grid on MLflow: a run for each cell, on a real tracking server with a SQLite store."""

import importlib.util

import pytest
from ray.tune.result import TIMESTEPS_TOTAL

from al_ray.active_learning.config import RunConfig
from al_ray.apps.grid.ray_tune import FIELDS, Grid, round_metrics
from al_ray.apps.grid.runner import run_grid, tracker_of
from al_ray.apps.grid.spec import Axes, GridConfig
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadOption
from al_ray.datasets.task_folder import write_task
from al_ray.running.run import RunSpec
from al_ray.runs.trackers.mlflow import EXPERIMENT
from tests.apps.grid.parsed import parsed_grid
from tests.tracking_server import by_name, runs_of
from tests.tracking_server import server as server

OPTIONS = (
    *("--rounds", "2", "--first-batch", "16", "--encoder", "random-bert", "--encoder-layers", "1"),
    *("--max-length", "24", "--encoder-batch", "8", "--threads", "1", "--search.neighbours", "5"),
    *("--search.block", "16", "--training.epochs", "1", "--training.batch", "8", "--training.learning-rate", "1e-3"),
    *("--training.worst-loss", "100", "--train-every-budget", "--timeout", "600", "--strategies", "random,stated"),
)


@pytest.mark.slow
def test_each_run_of_a_grid_is_a_run_of_mlflow_tagged_with_its_configuration(server, local_ray, make_task, tmp_path):
    write_task(make_task(True), tmp_path / "task", {})
    line = ["--task", str(tmp_path / "task"), "--out", str(tmp_path / "grid"), *OPTIONS, "--mlflow", server]
    # The second command finds everything complete.
    _, grid_runs = (run_grid(parsed_grid(line), lambda *_: None, lambda *_: None) for _ in range(2))
    runs = runs_of(server, EXPERIMENT)
    assert len(runs) == 2
    assert {run["info"]["status"] for run in runs} == {"FINISHED"}
    of = {run["info"]["run_name"]: run["data"] for run in runs}
    assert set(of) == {"random-s0", "stated-s0"}
    for one in grid_runs:
        name, config, last_round = one.name.rpartition("/")[2], one.config, one.rounds[-1]
        tags = by_name(of[name]["tags"])
        wanted = {"strategy": config.strategy, "seed": "0", "encoder": "random-bert", "budget": "40"}
        assert wanted.items() <= tags.items()
        assert by_name(of[name]["params"])["training.batch"] == "8"
        last = {metric["key"]: metric for metric in of[name]["metrics"]}
        assert last["average_precision"]["value"] == pytest.approx(last_round.splits["dev"].average_precision.value)
        assert int(last["average_precision"]["step"]) == last_round.labels


def test_a_round_of_a_trial_is_what_it_reported_and_nothing_that_tune_adds():
    line = {"round": 1, "labels": 16, "average_precision": 0.5}
    result = {**line, "cell": "static-s0", FIELDS: list(line), TIMESTEPS_TOTAL: 16, "pid": 7, "done": False}
    assert round_metrics(result) == line


def test_a_tracker_that_is_not_installed_is_refused_by_name(monkeypatch, tmp_path):
    def grid(**trackers):
        how = GridConfig(**trackers)
        return Grid(Axes(("static",), (0,), ("e",)), RunSpec(RunConfig(task="t"), ClusterConfig()), how, tmp_path)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    tracker_of(grid())
    with pytest.raises(BadOption, match=r"`mlflow` needs the package mlflow.*pip install .*\.\[mlflow\]"):
        tracker_of(grid(mlflow="http://127.0.0.1:5000"))
    with pytest.raises(BadOption, match="`wandb` needs the package wandb"):
        tracker_of(grid(wandb="project"))
