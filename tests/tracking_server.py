"""A real MLflow tracking server on loopback with a SQLite store, for tests that have the extra `mlflow`."""

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
            assert any("startup complete" in line for line in process.stderr), "the server did not start"
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def ask(server: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """The answer of the server's own interface to a GET, or with a body to a POST."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{server}/api/2.0/mlflow/{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def runs_of(server: str, experiment: str) -> list[dict[str, Any]]:
    """The runs of an experiment."""
    names = {
        one["name"]: one["experiment_id"]
        for one in ask(server, "experiments/search", {"max_results": 9})["experiments"]
    }
    return ask(server, "runs/search", {"experiment_ids": [names[experiment]]}).get("runs", [])


def by_name(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The values of parameters, tags or metrics by their name."""
    return {row["key"]: row["value"] for row in rows}
