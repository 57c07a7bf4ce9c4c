"""The command that a finished run names: it matches with the run's model, and FILE and DIR are all that is missing."""

import csv
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from al_ray.api.tasks import prepare
from al_ray.apps.matching.model import match_command
from al_ray.cli._shared.called import as_called
from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from al_ray.datasets.tables.options import OwnTexts
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.files import read_json, write_json
from tests.apps.reporting.made_runs import CONFIG, made_run


def made(folder: Path, task: Task, **config) -> RunFolder:
    """A run of one round on a task that was made of no table."""
    write_task(task, folder / "task", {})
    made_run(folder / "my run", task, replace(CONFIG, task=str(folder / "task"), **config), above=((3, 9),))
    return RunFolder(folder / "my run", task)


def command(run: RunFolder) -> str:
    """The command without the model, which is a path in quotes."""
    words = shlex.split(as_called(match_command(run) or ""))
    assert words[:5] == ["python", "-m", "jobs.match", "--model", str(run.path)]
    return " ".join(words[5:])


def test_one_table_needs_a_cutoff_and_two_need_none(tmp_path, task):
    side = "--at-boundary" if task.symmetric else "--right FILE"
    assert command(made(tmp_path, task)) == f"--left FILE {side} --text-columns NAME --out DIR"


def test_a_task_of_tables_knows_its_columns(tmp_path):
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("t",), *((f"text {number}",) for number in range(12))])
    prepare(OwnTexts(left=tmp_path / "t.csv", text_columns="t", split="1,0,0"), tmp_path / "task")
    task = read_task(tmp_path / "task")
    config = replace(CONFIG, task=str(tmp_path / "task"), evaluation=replace(CONFIG.evaluation, splits=()))
    run = made_run(tmp_path / "run", task, config, above=((),), splits=())
    assert command(RunFolder(run, task)) == "--left FILE --at-boundary --out DIR"


@pytest.mark.parametrize("scorer", [Scorer(0.0, -5.0, 0.1, "fitted"), Scorer(10.0, -10.6, 0.1, "one-class")])
def test_a_model_without_a_boundary_among_the_scores_matches_the_best_pairs(tmp_path, make_task, scorer):
    run = made(tmp_path, make_task(True))
    path = run.round(1) / "record.json"
    record = read_json(path, ["model"])
    write_json(path, {**record, "model": {**record["model"], **vars(scorer)}})
    assert "--left FILE --best N --text-columns NAME" in command(run)


def test_a_model_with_a_prompt_for_right_texts_matches_two_tables(tmp_path, make_task):
    assert "--left FILE --right FILE --text-columns" in command(made(tmp_path, make_task(True), prompt_right="x"))


@pytest.mark.parametrize(("encoder", "rounds"), [("cnn-8", 1), ("random-bert", 0)])
def test_a_run_whose_model_cannot_match_names_no_command(tmp_path, make_task, encoder, rounds):
    task = make_task(True)
    write_task(task, tmp_path / "task", {})
    config = replace(CONFIG, task=str(tmp_path / "task"), encoder=encoder)
    made_run(tmp_path / "run", task, config, above=((3, 9),) * rounds)
    assert match_command(RunFolder(tmp_path / "run", task)) is None
