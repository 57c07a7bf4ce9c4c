"""Imported labels are trained on by the command that the import prints."""

import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from al_ray.cli import labels, run
from al_ray.cli._shared import entry
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.runs.run_folder import RunFolder

SMALL = (
    "--encoder random-bert --encoder-layers 1 --max-length 24 --encoder-batch 8 --threads 1 --rounds 1 "
    "--first-batch 16 --search.neighbours 5 --training.epochs 1 --training.batch 8 --training.worst-loss 100 "
    "--timeout 600"
)


@pytest.mark.usefixtures("in_process")
def test_the_line_that_an_import_into_a_complete_run_prints_trains_on_the_labels(
    tmp_path, make_task, monkeypatch, capsys
):
    def call(command, line: str) -> str:
        monkeypatch.setattr(sys, "argv", ["command", *shlex.split(line)])
        entry.job(command.main)
        return capsys.readouterr().out

    task = make_task(True)
    write_task(task, tmp_path / "task", {})
    monkeypatch.chdir(tmp_path)
    call(run, f"--task {tmp_path / 'task'} --out run {SMALL}")
    folder = RunFolder(Path("run"), read_task(tmp_path / "task"))
    space = task.split("train").space
    keys = np.setdiff1d(space.at(np.arange(40)), space.keys(folder.ledger.labelled().pairs))
    pairs = space.pairs(keys)[:9]
    rows = [f"{left},{right},no" for left, right in zip(*task.ids_of(pairs), strict=True)]
    Path("more.csv").write_text("\n".join(["left,right,label", *rows]))
    printed = call(labels, "import --run run --labels more.csv").splitlines()[-1]
    assert printed == "to train on them: python -m jobs.run --out run --config run --rounds 2"
    call(run, printed.partition("jobs.run ")[2])
    assert folder.last == 2
    assert folder.metrics()[1]["labels"] == 16 + 9
    assert folder.state().model is not None
