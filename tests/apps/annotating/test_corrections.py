"""Answers on the page that change after a run has read them, and what they correct."""

import numpy as np
import pytest

from al_ray.active_learning.labelling import label_batch
from al_ray.core.errors import BadFile
from al_ray.core.labels import NO, UNSURE, YES
from al_ray.oracles.people import FileOracle
from al_ray.runs.ledger import Ledger
from tests.apps.annotating.waiting_runs import page_of, waiting_run

REQUESTS = [
    ("/answer", {"pair": "r001-00002", "label": "no"}, {1: NO}),
    ("/undo", {}, {5: UNSURE}),
    ("/retract", {"name": "ann"}, dict.fromkeys(range(6), UNSURE)),
    ("/settle", {"pair": "r001-00003", "label": "no"}, {2: NO}),
]


@pytest.fixture
def run(task, tmp_path):
    """A round of six pairs that ann has answered with yes, and a run has read."""
    run = waiting_run(tmp_path, task)
    with page_of(run) as page:
        ann = page.person("ann")
        while ann.code:
            ann.answer("yes")
    assert label_batch(1, run.ledger, FileOracle(run.ledger))[1].tolist() == [YES] * 6
    return run


def labels_of(run) -> list[int]:
    return run.ledger.labels(1).tolist()


def test_a_correction_by_an_expert_stays_when_the_answer_is_taken_back(run):
    run.ledger.correct(run.ledger.batch(1).pairs[:3], np.full(3, NO, np.uint8))
    with page_of(run) as page:
        ann = page.person("ann")
        ann.undo()
        assert labels_of(run) == [NO, NO, NO, YES, YES, UNSURE]
        page.person("bob").send("/retract", name="ann", request="t")
        assert labels_of(run) == [NO, NO, NO, UNSURE, UNSURE, UNSURE]
    # Nor when the page is opened again, nor what the expert corrects later; a new answer counts over it.
    run.ledger.correct(run.ledger.batch(1).pairs[3:4], np.array([NO], np.uint8))
    with page_of(run) as page:
        carl = page.person("carl")
        assert labels_of(run) == [NO, NO, NO, NO, UNSURE, UNSURE]
        carl.send("/answer", pair="r001-00004", request="a", label="yes")
        carl.send("/answer", pair="r001-00005", request="b", label="yes")
    assert labels_of(run) == [NO, NO, NO, YES, YES, UNSURE]


@pytest.mark.parametrize(
    ("path", "fields"), [("/undo", {"pair": "r001-00006"}), ("/retract", {"name": "bob"})], ids=["undo", "retract"]
)
def test_a_correction_by_an_expert_stays_when_one_of_two_who_disagree_takes_theirs_back(run, path, fields):
    with page_of(run) as page:
        bob = page.person("bob")
        bob.send("/answer", pair="r001-00006", request="a", label="no")
        assert labels_of(run)[5] == UNSURE
    run.ledger.correct(run.ledger.batch(1).pairs[5:], np.array([NO], np.uint8))
    with page_of(run) as page:
        bob = page.person("bob")
        bob.send(path, request="b", **fields)
        assert labels_of(run) == [*[YES] * 5, NO]
        bob.send("/answer", pair="r001-00006", request="c", label="yes")
    assert labels_of(run) == [YES] * 6


def test_an_undo_of_a_corrected_pair_changes_nothing(run):
    run.ledger.correct(run.ledger.batch(1).pairs[5:], np.array([NO], np.uint8))
    with page_of(run) as page:
        page.person("ann").undo()
    assert labels_of(run) == [*[YES] * 5, NO]


@pytest.mark.parametrize(("path", "fields", "changed"), REQUESTS)
def test_a_correction_that_failed_is_made_when_the_request_comes_again(run, monkeypatch, path, fields, changed):
    def fail(*_) -> int:
        raise BadFile("corrections-00001.parquet cannot be written (No space left on device); make room")

    with page_of(run) as page:
        ann = page.person("ann")
        with monkeypatch.context() as full:
            full.setattr(Ledger, "correct", fail)
            refused = ann.send(path, request="x", **fields)
            assert (refused.status_code, "No space left" in refused.text) == (409, True)
            assert labels_of(run) == [YES] * 6
        ann.open("/")
        assert ann.send(path, request="x", **fields).status_code == 200
    assert labels_of(run) == [changed.get(row, YES) for row in range(6)]


def test_a_label_that_is_given_after_a_settlement_reopens_the_pair(task, tmp_path):
    run, code = waiting_run(tmp_path, task, pairs=1), "r001-00001"

    def give(person, path: str, label: str, **fields: str) -> None:
        # The page of a pair has the secret of the form, and the number of a request.
        person.open("/disputes" if path == "/settle" else f"/pair/{code}")
        sent = person.send(path, pair=code, request=person.field("request"), label=label, **fields)
        assert sent.status_code == 200

    with page_of(run, overlap=1.0) as page:
        ann, bob, carl = (page.person(name) for name in ("ann", "bob", "carl"))
        give(ann, "/answer", "yes")
        give(bob, "/answer", "no")
        give(carl, "/settle", "yes")
        assert label_batch(1, run.ledger, FileOracle(run.ledger))[1].tolist() == [YES]
        # A note is no other label.
        give(bob, "/answer", "no", note="another size")
        assert labels_of(run) == [YES]
        give(bob, "/answer", "unsure")
        assert labels_of(run) == [UNSURE]
        assert "Settled" not in carl.open("/disputes").text
        give(carl, "/settle", "yes")
        assert labels_of(run) == [YES]
        give(ann, "/answer", "no")
        give(bob, "/answer", "no")
        assert labels_of(run) == [NO]
        assert code not in carl.open("/disputes").text
    with page_of(run):
        assert labels_of(run) == [NO]
