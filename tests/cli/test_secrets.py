"""Secrets of the environment are in nothing that commands leave: folders, objects, output, records of Tune and Ray."""

import base64
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from al_ray.datasets.task_folder import write_task
from tests.storage.s3 import Server, served

pytestmark = pytest.mark.faults

ROOT = Path(__file__).resolve().parents[2]
# Not of the form of a key: only one who knows it can leave it out.
NAMES = (
    *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "OPENAI_API_KEY", "HF_TOKEN", "WANDB_API_KEY"),
    *("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "AL_RAY_TOKEN"),
)
SECRETS = {name: f"zq7Xw1v.{number}.{name[::-1].lower()}" for number, name in enumerate(NAMES)}
SMALL = (
    *("--task", "task", "--rounds", "1", "--first-batch", "16", "--encoder", "random-bert", "--encoder-layers", "1"),
    *("--max-length", "24", "--encoder-batch", "8", "--threads", "1", "--search.neighbours", "5"),
    *("--training.epochs", "1", "--training.batch", "8", "--training.worst-loss", "100"),
    *("--evaluation.mode", "estimate", "--evaluation.random-pairs", "50", "--evaluation.near-neighbours", "2"),
)


@pytest.fixture
def ray_folder() -> Iterator[Path]:
    """A folder for Ray's sessions: a short one, because the path of a socket has at most 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def secrets_in(content: bytes) -> set[str]:
    """Names of the secrets in a file's content: whole, their last letters, or as base64."""
    forms = {
        name: (secret, secret[-12:], base64.b64encode(secret.encode()).decode()) for name, secret in SECRETS.items()
    }
    return {name for name, of_secret in forms.items() if any(form.encode() in content for form in of_secret)}


def found_in(folder: Path) -> dict[str, set[str]]:
    """The files below a folder that hold secrets."""
    files = {str(path): secrets_in(path.read_bytes()) for path in folder.rglob("*") if path.is_file()}
    assert len(files) > 10, "the folder is full of files"
    return {path: names for path, names in files.items() if names}


def found_on(server: Server) -> dict[str, set[str]]:
    """The objects of a store that hold secrets."""
    objects = {name: secrets_in(server.content(f"runs/{name}")) for name in server.names("runs")}
    assert "run/config.json" in objects
    return {name: names for name, names in objects.items() if names}


def test_no_secret_is_in_what_commands_leave(make_task, tmp_path: Path, ray_folder: Path):
    write_task(make_task(True), tmp_path / "task", {})
    environment = {**os.environ, **SECRETS, "PYTHONPATH": str(ROOT), "RAY_TMPDIR": str(ray_folder)}

    def ends(*command: str) -> int:
        with (tmp_path / "printed.txt").open("ab") as log:
            return subprocess.run(
                [sys.executable, "-m", *command], cwd=tmp_path, env=environment, stdout=log, stderr=log, timeout=600
            ).returncode

    with served() as server:
        # The store of a run, so that its credentials are in use.
        run = server.uri("runs/run")
        assert ends("jobs.run", *SMALL, "--out", run) == 0, (tmp_path / "printed.txt").read_text()
        grid = "--strategies", "random", "--seeds", "0"
        assert ends("jobs.grid", *SMALL, "--out", "grid", *grid) == 0, (tmp_path / "printed.txt").read_text()
        assert ends("jobs.report", run, "grid", "--out", "report") == 0, (tmp_path / "printed.txt").read_text()
        # Error lines: a bucket that is not there, and a URI that holds a secret.
        assert ends("jobs.report", run.replace("bucket", "nowhere"), "--out", "report") == 2
        for uri in (f"s3://me:{SECRETS['AWS_SECRET_ACCESS_KEY']}@bucket/run", f"s3://b/run?sig={SECRETS['HF_TOKEN']}"):
            assert ends("jobs.run", *SMALL, "--out", uri) == 2
        with_password = f"http://me:{SECRETS['MLFLOW_TRACKING_PASSWORD']}@127.0.0.1:1"
        assert ends("jobs.grid", *SMALL, "--out", "other", *grid, "--mlflow", with_password) == 2
        assert found_on(server) == {}
        assert [line for line in server.requests if secrets_in(line.encode())] == []
    assert (tmp_path / "report" / "report.html").is_file()
    assert list((tmp_path / "grid" / "tune").rglob("tuner.pkl")), "Tune's records are here"
    assert list(ray_folder.rglob("*.log")), "Ray's sessions are here"
    assert (tmp_path / "printed.txt").read_text().count("error: ") == 4
    assert found_in(tmp_path) == {}
    assert found_in(ray_folder) == {}
