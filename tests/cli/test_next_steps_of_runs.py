"""The next steps of a real task and its runs can be carried out as they are printed."""

import shlex
import sys
from importlib import import_module
from pathlib import Path

import pytest

from al_ray.cli._shared import entry
from al_ray.datasets.task_folder import write_task

SMALL = (
    "--encoder random-bert --encoder-layers 1 --max-length 24 --encoder-batch 8 --threads 1 --rounds 1 "
    "--search.neighbours 5 --training.epochs 1 --training.batch 8 --training.worst-loss 100 --timeout 600"
)


@pytest.mark.usefixtures("in_process")
def test_a_task_is_run_and_its_texts_are_matched_by_what_al_ray_prints(tmp_path, make_task, monkeypatch, capsys):
    def printed(line: str) -> str:
        name, *words = shlex.split(line)[1:] or [""]
        monkeypatch.setattr(sys, "argv", [f"al-ray {name}".strip(), *words])
        if name:
            entry.job(import_module(f"al_ray.cli.{name}").main)
        else:
            entry.al_ray()
        return capsys.readouterr().out

    def first() -> str:
        return next(line.strip() for line in printed("al-ray").splitlines() if line.startswith("  al-ray "))

    monkeypatch.chdir(tmp_path)
    # Two sets of texts: a model of random weights may have no boundary, which one set needs.
    write_task(make_task(False), Path("tasks/small"), {})
    assert first() == "al-ray run --task tasks/small --out runs/small --first-batch 128 --evaluation.splits dev"
    printed(f"{first()} {SMALL} --first-batch 16")
    assert first() == "al-ray match --model runs/small --left tasks/small --out matches/small"
    assert "matches/small" in printed(first())
    assert Path("matches/small/matches.csv").exists()
    # A run of people, which ends with the pairs of its first round.
    waits = printed(f"al-ray run --task tasks/small --out runs/people {SMALL} --first-batch 9 --oracle file")
    assert "round-001" in waits
    assert first() == "al-ray annotate --run runs/people"
    assert "9 pairs" in printed(f"{first()} --dry-run")
