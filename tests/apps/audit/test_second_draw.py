"""A second draw of an audit by score: which pairs it draws, what it knows, and what it then promises."""

import json

import numpy as np
import pytest

import al_ray
from al_ray.apps.audit.folder import AuditFolder
from al_ray.apps.audit.labelled_audit import read_labelled
from al_ray.core.errors import BadOption
from al_ray.core.labels import YES
from al_ray.metrics.audit.guarantee import cut_samples
from tests.apps.audit.test_audit_job import fill, knows, run_folder

RULE = "precision=0.3"
PROMISED = "precision=0.15 guarantee=0.9"


@pytest.fixture(scope="module")
def draws(in_process, make_task, tmp_path_factory):
    """A run, and its audits: the first one, one after it, and one after both, all answered by the truth."""
    task = make_task(True)
    root = tmp_path_factory.mktemp("second")
    run = al_ray.load_run(run_folder(root, task))
    audits = [al_ray.AuditConfig(split="train", by_score=True, budget=60, top=200)]
    folders = []
    for number in range(3):
        audit = al_ray.sample_audit(run, audits[-1], root / "run" / f"audit-{number}")
        fill(audit.path, knows(task, "train"))
        folders.append(audit.path)
        audits.append(al_ray.AuditConfig(split="train", by_score=True, budget=15, after=audit.path, threshold_for=RULE))
    return run, task, folders


def test_each_draw_is_of_pairs_without_a_label_above_the_crossing(draws):
    _, task, folders = draws
    space, seen = task.split("train").space, set()
    for number, folder in enumerate(map(AuditFolder, folders)):
        _, _, drawn = folder.key()
        keys = set(space.keys(drawn.pairs).tolist())
        assert not keys & seen
        seen |= keys
        record, scored = folder.record(), folder.scored()
        # 20 pairs are labelled by the run.
        assert len(scored.known_labels) == 20 + len(seen) - len(keys)
        assert record.asked.after == ("" if not number else str(folders[number - 1]))
        if number:
            assert len(keys) == 15
            assert record.asked.top is not None
            assert (drawn.ranks < record.asked.top).all()
            assert record.asked.top <= len(scored.cosines)


def test_a_rerun_changes_nothing_and_other_options_are_refused(draws):
    run, _, folders = draws
    config = al_ray.AuditConfig(split="train", by_score=True, budget=15, after=folders[0], threshold_for=RULE)
    assert not al_ray.sample_audit(run, config, folders[1]).written
    other = al_ray.AuditConfig(split="train", by_score=True, budget=9, after=folders[0], threshold_for=RULE)
    with pytest.raises(al_ray.AlRayError, match=r"budget: 15 there, 9 here"):
        al_ray.sample_audit(run, other, folders[1])


def test_a_promise_is_stored_with_the_model_and_its_cuts_have_the_first_labels(draws):
    run, _, folders = draws
    found = al_ray.estimate_audit(folders[1], threshold_for=[PROMISED], run=run)
    assert "precision at least 15% with 90% confidence" in found.text
    assert "labelled by the run or an earlier audit" in found.text
    assert found.scorer is not None
    stored = json.loads(found.scorer.read_text())["thresholds"]
    (mine,) = [one for one in stored if one["rule"] == PROMISED]
    assert mine["promised"] == {"precision": 0.15}
    bands = read_labelled(folders[1], None, True).bands
    (cut,) = [one for one in cut_samples(bands) if one.threshold == mine["cosine"]]
    # Matches among the labels of the run and of the first audit.
    assert cut.known[0] + cut.known[1] == int((bands.known_labels == YES).sum())


def test_what_a_second_draw_cannot_be_of_is_refused(draws, tmp_path):
    run, _, folders = draws

    def config(**more):
        return al_ray.AuditConfig(
            **{"split": "train", "by_score": True, "after": folders[0], "threshold_for": RULE, **more}
        )

    for wrong, words in (
        (lambda: config(threshold_for=None), "`after` and `threshold_for` go together"),
        (lambda: config(top=9), "`after` goes with `by_score=True` and without `top`"),
        (lambda: config(split="dev"), "is an audit of train by round 1, or of another run"),
        (lambda: config(threshold_for="costs=1,1"), "a second draw is for a precision; give precision=P"),
        (lambda: config(threshold_for="precision=1"), "leave no pair to draw from|pairs"),
    ):
        with pytest.raises(BadOption, match=words):
            al_ray.sample_audit(run, wrong(), tmp_path / "out")


def test_an_audit_without_a_second_draw_is_written_as_before(draws):
    _, _, folders = draws
    assert "after" not in json.loads((folders[0] / "audit-key.json").read_text())["asked"]
    assert np.isfinite(AuditFolder(folders[0]).scored().cosines).all()
