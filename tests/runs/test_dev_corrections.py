"""Labels of dev: corrected ones give the estimates that the right ones would have given, also after a crash."""

from pathlib import Path

import numpy as np
import pytest

from al_ray.core.errors import BadFile
from al_ray.core.labels import Model
from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from al_ray.runs.dev_labels import DevLabels, missing_labels
from tests.runs.made_dev_labels import answer, draw, labels_of

# The wrong labels of both rounds, and the right ones: two matches taken for none, one called unsure, and two pairs that
# nobody can decide.
WRONG = "yynnynuynnnn", "ynnnnynnnnnn"
RIGHT = "yyynynyynuun", "ynnynynnnnnn"


def model(number: int) -> Model:
    return Model("nowhere", f"digest {number}", Scorer(10.0, -5.0, 0.1, "fitted"))


def measured(path: Path, task: Task, words: tuple[str, ...]) -> DevLabels:
    """Two rounds with these labels and their estimates."""
    dev = DevLabels(path, task)
    for number, word in enumerate(words, start=1):
        draw(dev, number)
        answer(dev, number, labels_of(word))
        dev.estimate_missing(model, 0)
    return dev


def correct(dev: DevLabels, numbers: tuple[int, ...] = (1, 2)) -> int:
    """Correct all labels of these rounds."""
    changed = 0
    for number in numbers:
        batch = dev.ledger.batch(number)
        assert batch is not None
        changed += dev.correct(batch.pairs, labels_of(RIGHT[number - 1]), model, 0)
    return changed


def test_estimates_after_a_correction_are_those_of_the_right_labels(task, tmp_path):
    right, dev = measured(tmp_path / "right", task, RIGHT), measured(tmp_path / "wrong", task, WRONG)
    before = dev.estimates()
    assert correct(dev) == 5
    assert dev.estimates() == right.estimates() != before
    # What is known before the second round counts with its corrected label, decided or not.
    assert [one["known"] for one in before] != [one["known"] for one in dev.estimates()]
    # Only the labels of the second round are corrected: the figures of the first are those of before.
    late = measured(tmp_path / "late", task, WRONG)
    assert correct(late, (2,)) == 1
    assert late.estimates()[0] == before[0]
    assert late.estimates()[1] != before[1]


def test_a_pair_without_a_label_is_refused_and_no_estimate_is_lost(task, tmp_path):
    dev = measured(tmp_path, task, WRONG)
    before = dev.estimates()
    space = task.split("dev").space
    fresh = np.setdiff1d(space.at(np.arange(space.total)), dev.known(3)[0])[:1]
    with pytest.raises(BadFile, match="has no label; leave it out"):
        dev.correct(space.pairs(fresh), labels_of("y"), model, 0)
    assert dev.estimates() == before


def test_a_crash_leaves_no_estimate_of_wrong_labels(task, tmp_path, monkeypatch):
    right, dev = measured(tmp_path / "right", task, RIGHT), measured(tmp_path / "wrong", task, WRONG)
    with monkeypatch.context() as crash:
        crash.setattr(DevLabels, "estimate_missing", lambda *_: None)
        correct(dev)
    assert dev.estimates() == []
    assert missing_labels(tmp_path / "wrong", 2) == 0
    # The next session writes them.
    assert [one["round"] for one in dev.estimate_missing(model, 0)] == [1, 2]
    assert dev.estimates() == right.estimates()
    assert missing_labels(tmp_path / "wrong", 2) is None


def test_pairs_without_an_answer_are_counted(task, tmp_path):
    dev = DevLabels(tmp_path, task)
    assert missing_labels(tmp_path, 1) == 0
    draw(dev, 1)
    assert missing_labels(tmp_path, 1) == 12
    answer(dev, 1, labels_of("yn"))
    # The second pair is answered twice.
    answer(dev, 1, labels_of("yyu"))
    assert missing_labels(tmp_path, 1) == 9
