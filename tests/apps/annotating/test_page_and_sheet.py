"""People answer one round on the page and in its sheet, and change what they have answered in either."""

import csv
import sys

import numpy as np
import pytest

from al_ray.active_learning.labelling import label_batch
from al_ray.cli import labels
from al_ray.cli._shared import entry
from al_ray.core.errors import LabelsAwaited
from al_ray.core.labels import NO, OPEN, YES
from al_ray.oracles.people import FileOracle
from tests.apps.annotating.waiting_runs import page_of, waiting_run


@pytest.fixture
def run(task, tmp_path):
    return waiting_run(tmp_path, task)


def labels_read(run) -> list[int]:
    """What jobs.run reads: labels of the round, OPEN where people are still waited for."""
    try:
        return label_batch(1, run.ledger, FileOracle(run.ledger))[1].tolist()
    except LabelsAwaited:
        return run.ledger.labels(1).tolist()


def fill(run, words: dict[int, str]) -> None:
    """Somebody fills rows of the sheet; "" makes a cell empty."""
    path = run.round(1) / "batch.csv"
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row, word in words.items():
        rows[row]["label"] = word
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def answer_three_and_take_back(run, read: bool) -> None:
    """Ann answers three pairs with yes, and bob takes her answers back; read: after a run has read them."""
    with page_of(run) as page:
        ann = page.person("ann")
        for _ in range(3):
            ann.answer("yes")
        if read:
            assert labels_read(run) == [YES, YES, YES, OPEN, OPEN, OPEN]
        page.person("bob").send("/retract", name="ann", request="t")


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("word", ["no", "yes"])
def test_the_sheet_counts_where_answers_on_the_page_were_taken_back(run, read, word: str):
    answer_three_and_take_back(run, read)
    assert labels_read(run) == [OPEN] * 6
    fill(run, dict.fromkeys(range(5), word))
    with page_of(run) as page:
        assert page.person("carl").code == "r001-00006"
    label = YES if word == "yes" else NO
    for _ in range(2):
        assert labels_read(run) == [*[label] * 5, OPEN]
    fill(run, {5: word})
    assert labels_read(run) == [label] * 6
    # The page has no answer to these pairs, and changes none of them.
    with page_of(run) as page:
        refused = page.person("carl").send("/answer", pair="r001-00001", request="late", label="unsure")
        assert (refused.status_code, "labels correct" in refused.text) == (409, True)
    assert run.ledger.labels(1).tolist() == [label] * 6


def test_the_sheet_counts_where_answers_are_taken_back_between_two_reads(run):
    with page_of(run) as page:
        ann = page.person("ann")
        for _ in range(3):
            ann.answer("yes")
        assert labels_read(run)[:3] == [YES, YES, YES]
        page.person("bob").send("/retract", name="ann", request="t")
        # The page is still open: it has not seen that the sheet has answers.
        fill(run, dict.fromkeys(range(6), "yes"))
        assert labels_read(run) == [YES] * 6
        ann.open("/")
    assert run.ledger.labels(1).tolist() == [YES] * 6


@pytest.mark.parametrize("word", ["no", "yes"])
def test_a_label_of_the_sheet_needs_no_second_answer(run, word: str):
    with page_of(run, confirm_matches=True) as page:
        ann = page.person("ann")
        for _ in range(6):
            ann.answer("yes")
        assert labels_read(run) == [OPEN] * 6
        fill(run, dict.fromkeys(range(6), word))
        label = YES if word == "yes" else NO
        assert labels_read(run) == [label] * 6
        ann.open("/")
    assert run.ledger.labels(1).tolist() == [label] * 6
    assert {piece.by for piece in run.ledger.answers(1)} == {"file"}


def test_a_round_is_closed_with_the_labels_of_its_sheet(run, monkeypatch, capsys):
    answer_three_and_take_back(run, read=False)
    fill(run, dict.fromkeys((0, 1, 4), "no"))
    monkeypatch.setattr(sys, "argv", ["labels", "close", "--run", str(run.path)])
    entry.job(labels.main)
    assert "round 1 is closed with 3 labels; 3 pairs leave it" in capsys.readouterr().out
    assert np.flatnonzero(run.ledger.labels(1) == NO).tolist() == [0, 1, 4]
