"""A training on paraphrases that is killed: the same command ends in the same model."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from al_ray.datasets.synthetic import synthetic_task
from al_ray.datasets.task_folder import write_task

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.faults


def train(folder: Path, out: str) -> subprocess.Popen[str]:
    options = shlex.split("--encoder cnn-8 --batch 16 --epochs 30 --patience 30 --max-length 20 --threads 1")
    command = [sys.executable, "-m", "jobs.paraphrase", "train", "--task", "task", "--out", out, *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def test_a_killed_training_goes_on_and_ends_in_the_model_of_one_that_was_not(tmp_path):
    write_task(synthetic_task(900, 0), tmp_path / "task", {})
    with train(tmp_path, "unbroken") as unbroken:
        unbroken.communicate(timeout=120)
    with train(tmp_path, "killed") as killed:
        assert killed.stdout is not None
        # Told of the third epoch, of which the second is kept.
        lines = [killed.stdout.readline() for _ in range(3)]
        os.kill(killed.pid, signal.SIGKILL)
    assert (unbroken.returncode, killed.returncode) == (0, -signal.SIGKILL)
    assert lines[2].startswith("epoch 3: ")
    assert not (tmp_path / "killed" / "model").exists()
    with train(tmp_path, "killed") as again:
        told = again.communicate(timeout=120)[0]
    assert again.returncode == 0
    assert int(told.removeprefix("epoch ").partition(":")[0]) >= 3, "it began again"
    models = [json.loads((tmp_path / run / "model" / "model.json").read_text()) for run in ("unbroken", "killed")]
    assert models[0] == models[1]
