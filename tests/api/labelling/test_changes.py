"""What corrections, the close of a round and the page of labels refuse, and that they change nothing then."""

from dataclasses import replace
from pathlib import Path

import pytest

import al_ray
from al_ray.core.errors import BadOption
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task, write_task
from tests.apps.reporting.made_runs import CONFIG, made_run


@pytest.fixture
def run(make_task, tmp_path: Path) -> Path:
    """A run of one round with nine labels, three of them matches."""
    write_task(make_task(True), tmp_path / "task", {})
    task: Task = read_task(tmp_path / "task")
    return made_run(tmp_path / "run", task, replace(CONFIG, task=str(tmp_path / "task")), [(3, 9)])


def answers(run: Path) -> list[tuple[str, str, str]]:
    return [(row["left_id"], row["right_id"], row["answer"]) for row in al_ray.load_run(run).labels().to_pylist()]


def test_a_label_is_corrected_and_the_others_stay(run):
    (left, right, was), *others = answers(run)
    new = "no" if was == "yes" else "yes"
    correction = al_ray.correct_labels(run, [(left, right, new), others[0]])
    assert (correction.corrected, correction.correct) == (1, 1)
    assert list(correction.lines()) == ["labels: 1 corrected, 1 correct before; the next training uses them"]
    assert answers(run) == [(left, right, new), *others]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([], "no label is given"),
        ([("nobody", "x", "yes")], "'nobody' is not an id of the task's left texts"),
        ([(None, None, "maybe")], "'maybe'; give yes, no, unsure"),
    ],
)
def test_a_wrong_correction_changes_nothing(labels, said, run):
    before = answers(run)
    labels = [(before[0][0] if left is None else left, before[0][1], label) for left, _, label in labels]
    with pytest.raises(BadOption, match=said):
        al_ray.correct_labels(run, labels)
    assert answers(run) == before


def test_a_round_that_has_its_labels_cannot_be_closed(run):
    with pytest.raises(BadOption, match="has no round that waits for labels"):
        al_ray.close_round(run)


def test_people_label_in_one_folder_at_a_time(run):
    with pytest.raises(BadOption, match="give one folder"), al_ray.annotate(run=run, audit=run):
        pass
    with al_ray.annotate(run=run) as page, pytest.raises(BadOption, match="has no pair that waits"):
        page.plan()
