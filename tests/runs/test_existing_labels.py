"""Labels that are there already: stated, of a run, in a table."""

from pathlib import Path

import numpy as np
import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.core.config.serialization import as_dict
from al_ray.core.errors import BadFile, BadOption, MissingSplit
from al_ray.core.labels import NO, UNSURE, YES, Batch, make_answers
from al_ray.core.task import Corpus, Split, Task
from al_ray.datasets.tables.reader import TableFormat
from al_ray.datasets.task_folder import sealed, write_task
from al_ray.datasets.tsv import BadRowLog
from al_ray.runs.existing_labels import labels_of_other_run, read_existing_labels
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.files import write_json

COLUMNS = ("left_id", "right_id", "label")


def labels(words: str, task: Task):
    """(left id, right id) -> label, in order."""
    found = read_existing_labels(words, task, COLUMNS, TableFormat(), BadRowLog("fail"))
    pairs = [(task.left.ids[left], task.right.ids[right]) for left, right in found.pairs.tolist()]
    assert len(set(pairs)) == len(pairs)
    return dict(zip(pairs, found.labels.tolist(), strict=True))


def run_of(path: Path, task: Task, rounds, complete: int) -> Path:
    """A run folder with these rounds: pairs and labels."""
    folder = RunFolder(path, task)
    write_json(path / "config.json", {**as_dict(RunConfig(task="task")), "task_digest": task.digest})
    for number, (pairs, said) in enumerate(rounds, start=1):
        folder.ledger.add_batch(number, Batch(np.array(pairs), np.zeros(len(pairs)), "uncertainty"))
        folder.ledger.add_answers(
            number, make_answers(np.arange(len(pairs)), np.array(said, dtype=np.uint8), "somebody")
        )
        folder.ledger.seal(number)
        # What a round has besides its labels.
        write_json(
            path / f"round-{number:03d}" / "record.json",
            {"model": {"digest": "d", "weight": 1.0, "bias": 0.0, "loss": 0.1, "outcome": "fitted"}},
        )
    write_json(path / "state.json", {"round": complete, "labels": 0})
    return path


def test_stated_labels_are_all_positives_and_all_stated_negatives(task):
    found, split = labels("stated", task), task.split("train")
    assert sum(found.values()) == len(split.positives)
    assert len(found) == len(split.positives) + len(split.stated_negatives)
    left, right = split.positives[0].tolist()
    assert found[task.left.ids[left], task.right.ids[right]] == 1


def test_a_runs_labels_are_those_of_its_complete_rounds_without_the_unsure(make_task, tmp_path):
    task = make_task(True)
    rounds = [([[0, 1], [0, 4]], [YES, NO]), ([[1, 2], [2, 5]], [UNSURE, NO]), ([[3, 6]], [YES])]
    run = run_of(tmp_path / "run", task, rounds, complete=2)
    assert labels(str(run), task) == {("t0", "t1"): 1, ("t0", "t4"): 0, ("t2", "t5"): 0}


def test_of_a_pair_bought_both_ways_round_the_last_answer_holds(make_task, tmp_path):
    task = make_task(True)
    run = run_of(tmp_path / "run", task, [([[1, 0], [0, 4], [0, 1]], [NO, NO, YES])], complete=1)
    assert labels(str(run), task) == {("t0", "t4"): 0, ("t0", "t1"): 1}


def test_a_tables_labels_are_its_rows(task, tmp_path):
    split = task.split("train")
    (left, right), (other, none) = split.positives[0].tolist(), split.stated_negatives[0].tolist()
    yes, no = (task.left.ids[left], task.right.ids[right]), (task.left.ids[other], task.right.ids[none])
    path = tmp_path / "labels.csv"
    path.write_text("left_id,right_id,label\n" + f"{no[0]},{no[1]},no\n{yes[0]},{yes[1]},1\n{yes[0]},{yes[1]},yes\n")
    assert labels(str(path), task) == {no: 0, yes: 1}


def test_what_holds_no_label_is_refused(make_task, tmp_path):
    task = make_task(True)
    with pytest.raises(BadFile, match="no complete round"):
        labels(str(run_of(tmp_path / "begun", task, [([[0, 1]], [YES])], complete=0)), task)
    with pytest.raises(BadFile, match="holds 1 labels yes or no"):
        labels(str(run_of(tmp_path / "unsure", task, [([[0, 1], [0, 2]], [YES, UNSURE])], complete=1)), task)
    train = task.split("train")
    nothing = np.empty((0, 2), dtype=np.int64)
    silent = sealed("silent", True, task.left, task.right, {"train": Split("train", train.space, nothing, nothing)})
    with pytest.raises(MissingSplit, match="no pair is stated"):
        labels("stated", silent)


def whole(symmetric: bool, **texts: str) -> Task:
    """A task of these texts by id, all in train; its pairs are all of them."""
    corpus = Corpus(tuple(texts), tuple(texts.values()))
    rows, none = np.arange(len(texts)), np.empty((0, 2), dtype=np.int64)
    bare = Task("t", symmetric, corpus, corpus, {}, "")
    return sealed("t", symmetric, corpus, corpus, {"train": Split("train", bare.space(rows, rows), none, none)})


def test_labels_of_a_run_on_another_task_are_those_of_texts_that_are_the_same_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = whole(True, a="one", b="two", c="three", d="four", e="five")
    write_task(before, tmp_path / "task", {})
    # (a, b) is bought both ways round: the later label counts. d is gone, and the text of c is another.
    rounds = [([[0, 1], [0, 2], [0, 4], [3, 4]], [YES, YES, UNSURE, NO]), ([[1, 0]], [NO]), ([[1, 4]], [YES])]
    run = run_of(tmp_path / "run", before, rounds, complete=2)
    now = whole(True, e="five", c="another", b="two", new="two", a="one")
    table, left_out = labels_of_other_run(RunFolder(run, before), now)
    pairs = [{now.left.ids[row] for row in pair} for pair in table.pairs.tolist()]
    # Rows of c, b and a are 1, 2 and 4 now, and a pair has its lower row first.
    assert table.pairs.tolist() == [[0, 4], [2, 4], [0, 2]]
    assert (pairs, table.labels.tolist()) == ([{"a", "e"}, {"a", "b"}, {"b", "e"}], [UNSURE, NO, YES])
    assert list(left_out.values()) == [1, 1]
    assert table.settled == {"rows without an answer": 0, "rows that repeat a pair": 0}
    with pytest.raises(BadOption, match="is a run on one set of texts, and the task has two sets of texts"):
        labels_of_other_run(RunFolder(run, before), whole(False, a="one", b="two"))
