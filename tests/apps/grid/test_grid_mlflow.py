"""A grid told to MLflow: a run of its a cell, on a real tracking server with a SQLite store."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from ray.tune.result import TIMESTEPS_TOTAL

from al_ray.apps.grid import trackers
from al_ray.apps.grid.runner import run_grid
from al_ray.apps.grid.spec import GridConfig
from al_ray.apps.grid.trackers import FIELDS, refuse_untracked, round_metrics, tracked
from al_ray.cli._grid.options import parse_arguments
from al_ray.cli._grid.pipeline import grid_of
from al_ray.core.errors import BadOption
from al_ray.datasets.task_folder import write_task

OPTIONS = (
    *("--rounds", "2", "--first-batch", "16", "--encoder", "random-bert", "--encoder-layers", "1"),
    *("--max-length", "24", "--encoder-batch", "8", "--threads", "1", "--search.neighbours", "5"),
    *("--search.block", "16", "--training.epochs", "1", "--training.batch", "8", "--training.learning-rate", "1e-3"),
    *("--training.worst-loss", "100", "--train-every-budget", "--timeout", "120", "--strategies", "random,stated"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    """The URI of a tracking server of this test's own."""
    for package in ("mlflow", "sqlalchemy", "alembic"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the package {package} is not installed (extra `mlflow`)")
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--backend-store-uri", "sqlite:///runs.db"),
        *("--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
    ]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert any("startup complete" in said for said in process.stderr), "the server did not start"
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def found(server: str, what: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """What the server's own interface says there is."""
    request = urllib.request.Request(
        f"{server}/api/2.0/mlflow/{what}/search", json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer).get(what, [])


@pytest.mark.slow
def test_each_run_of_a_grid_is_a_run_of_mlflow_tagged_with_its_configuration(server, local_ray, make_task, tmp_path):
    write_task(make_task(True), tmp_path / "task", {})
    line = ["--task", str(tmp_path / "task"), "--out", str(tmp_path / "grid"), *OPTIONS, "--mlflow", server]
    grid_runs = run_grid(grid_of(parse_arguments(line)), lambda *_: None, lambda *_: None)
    names = {one["name"]: one["experiment_id"] for one in found(server, "experiments", {"max_results": 9})}
    runs = found(server, "runs", {"experiment_ids": [names[trackers.EXPERIMENT]]})
    of = {run["info"]["run_name"]: run["data"] for run in runs}
    assert set(of) == {"random-s0", "stated-s0"}
    for one in grid_runs:
        name, config, last_round = one.name.rpartition("/")[2], one.config, one.rounds[-1]
        tags = {tag["key"]: tag["value"] for tag in of[name]["tags"]}
        wanted = {"strategy": config.strategy, "seed": "0", "encoder": "random-bert", "budget": "40"}
        assert wanted.items() <= tags.items()
        last = {metric["key"]: metric for metric in of[name]["metrics"]}
        assert last["average_precision"]["value"] == pytest.approx(last_round.splits["dev"].average_precision.value)
        assert int(last["average_precision"]["step"]) == last_round.labels


def test_trackers_get_the_metrics_of_a_round_and_nothing_that_tune_adds():
    line = {"round": 1, "labels": 16, "average_precision": 0.5}
    result = {**line, "cell": "static-s0", FIELDS: list(line), TIMESTEPS_TOTAL: 16, "pid": 7, "done": False}
    assert round_metrics(result) == line
    assert tracked(result) == {**line, TIMESTEPS_TOTAL: 16}


def test_a_tracker_that_is_not_installed_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(trackers.importlib.util, "find_spec", lambda name: None)
    refuse_untracked(GridConfig())
    with pytest.raises(BadOption, match=r"--mlflow needs the package mlflow.*pip install .*\.\[mlflow\]"):
        refuse_untracked(GridConfig(mlflow="http://127.0.0.1:5000"))
    with pytest.raises(BadOption, match="--wandb needs the package wandb"):
        refuse_untracked(GridConfig(wandb="project"))
