"""Estimates from dev labels in a report, and what is said of a run that waits for such labels."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from al_ray.api.reports import report as write_report
from al_ray.apps.grid.summary import unfinished
from al_ray.apps.reporting.markdown import markdown
from al_ray.apps.reporting.read_runs import read_runs
from al_ray.apps.reporting.report import report
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.errors import BadFile
from al_ray.core.task import Task
from al_ray.datasets.task_folder import write_task
from al_ray.storage.files import write_json
from tests.apps.reporting.made_runs import CONFIG, folder_of, made_run
from tests.runs.made_dev_labels import answer, draw, labels_of

# Precision, recall of the ranked pairs, which is not known, and recall over all pairs.
BOUNDARY = "80.0 (60.0 to 90.0)", "-", "20.0 (1.0 to 40.0)"


def share(value: float | None, low: float, high: float) -> dict[str, float | None]:
    return {"value": value, "low": low, "high": high}


def estimate(number: int, ap: float, over_all: float | None) -> dict[str, object]:
    return {
        "round": number,
        "labels": 12 * number,
        "known": 30,
        "ranked": 1000,
        "total_pairs": 5000,
        "average_precision_of_ranked": share(ap, ap - 0.1, ap + 0.1),
        "average_precision": share(over_all, 0.05, 0.75),
        "boundary": 0.5,
        "precision_at_boundary": share(0.8, 0.6, 0.9),
        "recall_of_ranked_at_boundary": None,
        "recall_at_boundary": share(0.2, 0.01, 0.4),
    }


@pytest.fixture
def task(make_task) -> Task:
    return make_task(False)


@pytest.fixture
def config(task, tmp_path):
    """Options of a run that is measured by 12 labels of dev alone."""
    write_task(task, tmp_path / "task", {})
    home = str(tmp_path / "task")
    return replace(CONFIG, task=home, oracle="file", dev_labels=12, evaluation=EvaluationConfig(splits=()))


@pytest.fixture
def path(task, config, tmp_path) -> Path:
    """A run of three rounds without an evaluated split; the model of the second and third are measured."""
    path = made_run(tmp_path / "run", task, config, splits=())
    write_json(path / "dev-labels" / "round-002" / "estimate.json", estimate(2, 0.4, None))
    write_json(path / "dev-labels" / "round-003" / "estimate.json", estimate(3, 0.6, 0.55))
    return path


def test_a_run_measured_by_dev_labels_alone_has_a_table_a_curve_and_a_summary(path):
    (run,) = read_runs(path)
    made = report([run], 10)
    tables = {table.name: table for chapter in made.sections[0].chapters for table in chapter.tables}
    assert [row.cells for row in tables["s1-dev-labels"].rows] == [
        # Of the second round no pair of low score matches: over all pairs there is an interval alone.
        ("run", "uncertainty", "2", "20", "24", "1,000", "40.0 (30.0 to 50.0)", "5.0 to 75.0", *BOUNDARY),
        ("run", "uncertainty", "3", "38", "36", "1,000", "60.0 (50.0 to 70.0)", "55.0 (5.0 to 75.0)", *BOUNDARY),
    ]
    (curve,) = [picture for picture in made.pictures if picture.name == "s1-ap-dev-labels"]
    assert "uncertainty: 40.0% at 20 to 60.0% at 38" in curve.words
    assert made.sections[0].words.startswith(
        "1 run, 1 complete. No split was evaluated over all its pairs; average precision is estimated from labels of "
        "drawn dev pairs. After round 3, with 36 dev labels, it is 60.0% (50.0% to 70.0%) among the 1,000 pairs of "
        "highest score, and 5.0% to 75.0% among all pairs."
    )
    assert made.runs.head[-1] == "AP % of ranked dev pairs"
    assert made.runs.rows[0].cells[-1] == "60.0 (50.0 to 70.0)"
    assert "there is no AP" not in markdown(made, "figures")


def test_the_page_and_the_summary_show_them(path, tmp_path):
    write_report([path], tmp_path / "out")
    for name in ("report.html", "summary.md"):
        written = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert "Estimates from dev labels, by round" in written
        assert "40.0 (30.0 to 50.0)" in written
        assert "s1-ap-dev-labels" in written
    assert (tmp_path / "out" / "figures" / "s1-ap-dev-labels.svg").is_file()


def test_several_runs_have_a_line_each(path, task, config, tmp_path):
    other = made_run(tmp_path / "other", task, replace(config, seed=1), splits=())
    write_json(
        other / "dev-labels" / "round-003" / "estimate.json", {**estimate(3, 0.5, 0.5), "average_precision": None}
    )
    made = report([*read_runs(path), *read_runs(other)], 10)
    (curve,) = [picture for picture in made.pictures if picture.name == "s1-ap-dev-labels"]
    assert "uncertainty, seed 0: 40.0% at 20 to 60.0% at 38; uncertainty, seed 1: 50.0% at 38" in curve.words
    assert "drawn dev pairs: see the table by round." in made.sections[0].words
    (table,) = [one for chapter in made.sections[0].chapters for one in chapter.tables if one.name == "s1-dev-labels"]
    assert [row.cells[7] for row in table.rows] == ["5.0 to 75.0", "55.0 (5.0 to 75.0)", "-"]


@pytest.mark.parametrize(
    "change", [{"round": 3}, {"labels": "many"}, {"average_precision": {"low": 0}}, {"precision_at_boundary": 1.0}]
)
def test_a_damaged_estimate_is_named(path, change):
    file = path / "dev-labels" / "round-002" / "estimate.json"
    file.write_text(json.dumps({**estimate(2, 0.4, None), **change}))
    (run,) = read_runs(path)
    assert "round-002/estimate.json is not the estimate of a round" in run.trouble
    assert len(run.rounds) == 1


def test_a_run_says_how_many_dev_labels_it_waits_for(task, config, tmp_path):
    path = made_run(tmp_path / "run", task, config, splits=())
    dev = folder_of(path, task).dev_labels

    def trouble(config=config) -> str:
        (run,) = read_runs(path)
        made = report([run], 10)
        assert made.runs.rows[0].cells[1] == (run.trouble or "complete")
        return run.trouble

    assert trouble() == "lacks the estimate from dev labels of round 3"
    draw(dev, 3)
    assert trouble() == "waits for 12 dev labels of round 3"
    answer(dev, 3, labels_of("ynu"))
    assert trouble() == "waits for 9 dev labels of round 3"
    answer(dev, 3, labels_of("ynunnnnnnnnn"))
    assert trouble() == "lacks the estimate from dev labels of round 3"
    write_json(path / "dev-labels" / "round-003" / "estimate.json", estimate(3, 0.6, 0.5))
    assert trouble() == ""


def test_labels_of_a_round_and_of_dev_are_awaited_together(task, config, tmp_path):
    path = made_run(tmp_path / "run", task, config, above=((3, 9), (1, 4)), splits=())
    folder = folder_of(path, task)
    draw(folder.dev_labels, 2)
    (run,) = read_runs(path)
    assert run.trouble == "waits for 12 dev labels of round 2"
    batch = folder.ledger.batch(1)
    assert batch is not None
    folder.ledger.add_batch(3, batch)
    (run,) = read_runs(path)
    assert run.trouble == "waits for the labels of round 3 of 3 and 12 dev labels of round 2"


def test_without_dev_labels_nothing_is_awaited_and_a_grid_lists_what_is(task, config, tmp_path):
    class Cell:
        name = "uncertainty-s0"

    off = made_run(tmp_path / "off", task, replace(config, dev_labels=0), splits=())
    draw(folder_of(off, task).dev_labels, 3)
    assert [run.trouble for run in read_runs(off)] == [""]
    bought = made_run(tmp_path / "bought", task, replace(config, oracle="judge:label"), splits=())
    draw(folder_of(bought, task).dev_labels, 3)
    runs = read_runs(bought)
    assert unfinished([Cell()], runs) == ["uncertainty-s0: lacks 12 dev labels of round 3"]  # pyright: ignore[reportArgumentType]
    assert runs[0].status == "incomplete"


def test_a_damaged_batch_of_dev_is_said_of_the_run(task, config, tmp_path):
    path = made_run(tmp_path / "run", task, config, splits=())
    draw(folder_of(path, task).dev_labels, 3)
    (path / "dev-labels" / "round-003" / "batch.parquet").write_bytes(b"no table")
    (run,) = read_runs(path)
    assert run.trouble.startswith("cannot be read after round 3")
    with pytest.raises(BadFile):
        folder_of(path, task).dev_labels.ledger.batch(3)
