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


# The command, which is killed as it prints the line of the third epoch, of which the second is stored.
DYING = """
import builtins, os, signal

from al_ray.cli import paraphrase
from al_ray.cli._shared.entry import run_process

plain = print

def dying(*words, **options):
    plain(*words, **options)
    if str(words[0]).startswith("epoch 3: "):
        os.kill(os.getpid(), signal.SIGKILL)

builtins.print = dying
run_process(paraphrase.main)
"""


def train(folder: Path, out: str, *command: str) -> subprocess.CompletedProcess[str]:
    options = shlex.split("--encoder cnn-8 --batch 16 --epochs 30 --patience 30 --max-length 20 --threads 1")
    return subprocess.run(
        [sys.executable, *command, "train", "--task", "task", "--out", out, *options], cwd=folder, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True, timeout=1800,
    )  # fmt: skip


def test_a_killed_training_goes_on_and_ends_in_the_model_of_one_that_was_not(tmp_path):
    write_task(synthetic_task(900, 0), tmp_path / "task", {})
    unbroken = train(tmp_path, "unbroken", "-m", "jobs.paraphrase")
    killed = train(tmp_path, "killed", "-c", DYING)
    assert (unbroken.returncode, killed.returncode) == (0, -signal.SIGKILL)
    assert killed.stdout.splitlines()[-1].startswith("epoch 3: ")
    assert not (tmp_path / "killed" / "model").exists()
    again = train(tmp_path, "killed", "-m", "jobs.paraphrase")
    assert again.returncode == 0
    assert int(again.stdout.removeprefix("epoch ").partition(":")[0]) >= 3, "it began again"
    models = [json.loads((tmp_path / run / "model" / "model.json").read_text()) for run in ("unbroken", "killed")]
    assert models[0] == models[1]
