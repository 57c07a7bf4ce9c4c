"""Answers to dev pairs that a run does not ask for any more are stored. And the command that closes a round."""

import csv
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from al_ray.core.config.oracle import OracleConfig
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.errors import LabelsAwaited
from al_ray.core.labels import NO, OPEN, YES, Batch, make_answers
from al_ray.core.progress import no_progress
from al_ray.core.task import Task
from al_ray.datasets.task_folder import write_task
from al_ray.oracles.people import FileOracle
from al_ray.oracles.registry import OracleRequest
from al_ray.running.open_rounds import close_command, finish_earlier_dev
from al_ray.runs.dev_labels import format_estimate
from al_ray.runs.run_folder import RunFolder
from tests.apps.annotating.waiting_runs import page_of
from tests.apps.reporting.made_runs import CONFIG, folder_of, made_run
from tests.runs.made_dev_labels import answer, draw, labels_of


@pytest.fixture
def task(make_task) -> Task:
    return make_task(True)


@pytest.fixture
def run(task, tmp_path, caplog) -> RunFolder:
    """Three complete rounds of a run that people label, with a space in its path."""
    caplog.set_level("INFO")
    write_task(task, tmp_path / "task", {})
    evaluation = EvaluationConfig(splits=())
    config = replace(CONFIG, task=str(tmp_path / "task"), oracle="file", dev_labels=12, evaluation=evaluation)
    return folder_of(made_run(tmp_path / "a run", task, config, splits=()), task)


def asked(run: RunFolder, number: int) -> Path:
    """Draw dev pairs for a round and write their sheet."""
    draw(run.dev_labels, number)
    batch = run.dev_labels.ledger.batch(number)
    assert batch is not None
    with suppress(LabelsAwaited):
        list(FileOracle(run.dev_labels.ledger).label(number, batch, np.arange(12)))
    return Path(str(run.path)) / "dev-labels" / f"round-{number:03d}" / "batch.csv"


def fill(sheet: Path, count: int) -> None:
    """A person fills in so many rows of a sheet."""
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for place, row in enumerate(rows[:count]):
        row["label"] = "no" if place else "yes"
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def resume(run: RunFolder, dev_labels: int) -> None:
    """What a session does first."""
    config = replace(CONFIG, task="-", oracle="file", dev_labels=dev_labels)
    finish_earlier_dev(OracleRequest(config, OracleConfig(), run, no_progress), run.state())


def test_without_dev_labels_answers_of_people_are_stored_and_complete_ones_estimated(run, caplog):
    sheet, ledger = asked(run, 3), run.dev_labels.ledger
    fill(sheet, 5)
    resume(run, 0)
    assert (ledger.labels(3) != OPEN).sum() == 5
    assert not ledger.sealed(3)
    assert caplog.messages == [
        f"round 3, dev: 5 of 12 pairs have a label; they are stored, and `dev_labels` counts them; answers in {sheet} "
        "are read when the run is resumed"
    ]
    # No answer is stored twice, and the last ones complete the round.
    resume(run, 0)
    assert len(list(ledger.answers(3))) == 1
    fill(sheet, 12)
    resume(run, 0)
    assert ledger.sealed(3)
    assert [one["labels"] for one in run.dev_labels.estimates()] == [12]
    caplog.clear()
    resume(run, 0)
    assert caplog.messages == []


def test_a_round_from_before_dev_labels_were_off_is_closed_with_its_answers(run, caplog):
    fill(asked(run, 2), 5)
    resume(run, 12)
    ledger = run.dev_labels.ledger
    assert ledger.sealed(2)
    assert len(ledger.labelled()) == 5
    assert caplog.messages == [
        "round 2, dev: 5 of 12 pairs have a label; the others leave it, because pairs are drawn for the model of "
        "round 3"
    ]
    # The answers count in the next round, whose other pairs are drawn among all that have none.
    draw(run.dev_labels, 3)
    answer(run.dev_labels, 3, labels_of("ynnnnnnnnnnn"))
    run.dev_labels.estimate_missing(run.model, 0)
    assert [(one["round"], one["labels"]) for one in run.dev_labels.estimates()] == [(2, 5), (3, 17)]


def test_answers_that_wait_for_a_second_person_are_kept_by_the_round_that_is_closed(run, caplog):
    asked(run, 2)
    with page_of(run, confirm_matches=True) as page:
        ann = page.person("ann")
        for place in range(11):
            ann.answer("yes" if place < 8 else "no")
    # Without dev labels the round stays open, and the second person may still come.
    resume(run, 0)
    ledger = run.dev_labels.ledger
    assert ledger.labels(2).tolist() == [OPEN] * 8 + [NO] * 3 + [OPEN]
    resume(run, 12)
    assert ledger.sealed(2)
    assert ledger.labels(2).tolist() == [YES] * 8 + [NO] * 3 + [OPEN]
    assert "round 2, dev: 11 of 12 pairs have a label; the others leave it" in caplog.text


def test_a_round_without_a_label_is_closed_and_its_pairs_are_not_asked_any_more(run):
    asked(run, 2)
    with page_of(run) as page:
        ann = page.person("ann")
        assert ann.code == "d002-00001"
        resume(run, 12)
        ann.open("/")
        assert ann.code == ""
    draw(run.dev_labels, 3)
    with page_of(run) as page:
        assert page.person("ann").code == "d003-00001"
    assert run.dev_labels.ledger.sealed(2)
    assert len(run.dev_labels.ledger.labelled()) == 0
    answer(run.dev_labels, 3, labels_of("ynnnnnnnnnnn"))
    run.dev_labels.estimate_missing(run.model, 0)
    empty, full = run.dev_labels.estimates()
    assert (empty["labels"], empty["average_precision"], full["labels"]) == (0, None, 12)
    assert format_estimate(empty).startswith("round 2: 0 dev labels drawn; average precision of the 40 pairs")


def test_an_open_round_whose_next_one_is_drawn_is_closed_and_not_asked_any_more(run, caplog):
    """As an al_ray before 0.2.0 could leave them."""
    asked(run, 2)
    answer(run.dev_labels, 2, labels_of("yn"))
    sheet = asked(run, 3)
    with page_of(run) as page:
        assert page.person("ann").code == "d002-00003"
    caplog.clear()
    resume(run, 12)
    ledger = run.dev_labels.ledger
    assert ledger.sealed(2)
    assert not ledger.sealed(3)
    assert caplog.messages == [
        "round 2, dev: 2 of 12 pairs have a label; the others leave it, because pairs are drawn for the model of "
        "round 3"
    ]
    with page_of(run) as page:
        assert page.person("ann").code == "d003-00001"
    # Both rounds have their estimates at the end, the later one from the labels that were known as it was drawn.
    fill(sheet, 12)
    resume(run, 0)
    assert [(one["round"], one["labels"]) for one in run.dev_labels.estimates()] == [(2, 2), (3, 14)]


def test_pairs_that_are_still_asked_for_are_left_alone(run, caplog):
    fill(asked(run, 3), 5)
    resume(run, 12)
    assert (run.dev_labels.ledger.labels(3) == OPEN).all()
    assert caplog.messages == []


def test_pairs_bought_from_a_function_are_counted(run, caplog):
    draw(run.dev_labels, 3)
    answer(run.dev_labels, 3, labels_of("yn"))
    config = replace(CONFIG, task="-", oracle="judge:label", dev_labels=0)
    finish_earlier_dev(OracleRequest(config, OracleConfig(), run, no_progress), run.state())
    assert caplog.messages == [
        "round 3, dev: 2 of 12 pairs have a label; they are stored, and `dev_labels` counts them"
    ]


def test_the_command_that_closes_a_round_names_the_run(run, task):
    config = replace(CONFIG, task="-", dev_labels=0)
    assert close_command(config, run) == ""
    space = task.split("train").space
    pairs = space.pairs(space.at(np.arange(100, 104)))
    run.ledger.add_batch(4, Batch(pairs, np.full(4, 0.5), "uncertainty"))
    # A round without a label cannot be closed.
    assert close_command(config, run) == ""
    run.ledger.add_answers(4, make_answers(np.arange(2), labels_of("yn"), "judge"))
    words = close_command(config, run)
    assert words.startswith(", or first close the round to train on what is labelled: ")
    assert "al_ray.close_round(" in words
    assert str(run.path) in words
    # While dev pairs wait, closing the round would not let the run go on.
    draw(run.dev_labels, 3)
    assert close_command(replace(config, dev_labels=12), run) == ""
    assert close_command(config, run) == words
