"""Logs of questions and answers: clusters by answer, the coherence filter, and splits by cluster."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.errors import BadFile, BadOption
from al_ray.core.rng import generator
from al_ray.core.text import coherence
from al_ray.datasets.question_logs import QuestionLogs, read_logs, split_clusters

TRAIN = (1.0, 0.0, 0.0)


def write(path, rows):
    path.write_text("".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in rows), encoding="utf-8")
    return path


def test_coherence_is_that_worked_by_hand():
    # S = {who, is, it, he}: 3 of 4 words and 2 of 4.
    assert coherence(["who is it", "He is is"]) == pytest.approx((3 / 4 + 2 / 4) / 2)
    assert coherence(["a", "b", "c", "d"]) == pytest.approx(1 / 4)
    assert coherence(["same words", "words same"]) == 1.0


def test_questions_of_one_answer_are_paraphrases(tmp_path):
    rows = [("who is it?", "A"), ("Who  is it?", "A"), ("who is this?", "A"), ("why?", "B"), ("how is it?", "A")]
    task, report = read_logs(QuestionLogs(source=write(tmp_path / "l.jsonl", rows)), TRAIN)
    assert task.left.texts == ("who is it?", "who is this?", "why?", "how is it?")
    assert task.splits["train"].positives.tolist() == [[0, 1], [0, 3], [1, 3]]
    assert task.splits["train"].space.left.tolist() == [0, 1, 2, 3]
    assert list(report.lines()) == [
        "rows taken: 5",
        "different questions: 4",
        "clusters of two questions or more: 1",
    ]


def test_an_incoherent_cluster_is_none_and_the_threshold_itself_is_coherent(tmp_path):
    # Four questions without a common word: c = 1/4.
    path = write(tmp_path / "l.jsonl", [(word, "42") for word in ("one", "two", "three", "four")])
    task, report = read_logs(QuestionLogs(source=path, coherence=0.26), TRAIN)
    assert not len(task.splits["train"].positives)
    assert len(task.left) == 4
    assert "clusters less coherent than 0.26 (not used): 1" in report.lines()
    task, _ = read_logs(QuestionLogs(source=path, coherence=0.25), TRAIN)
    assert len(task.splits["train"].positives) == 6


def test_a_question_of_dev_that_occurs_in_train_stays_in_train_alone(tmp_path):
    rows = [("a one", "A"), ("a two", "A"), ("a one", "B"), ("a three", "B"), ("a four", "B")]
    path, positives = write(tmp_path / "l.jsonl", rows), set()
    for seed in range(6):
        task, report = read_logs(QuestionLogs(source=path, seed=seed), (0.5, 0.5, 0.0))
        train, dev = (task.splits[name] for name in ("train", "dev"))
        positives.add((str(train.positives.tolist()), str(dev.positives.tolist())))
        assert 0 in train.space.left
        assert "questions in more than one cluster (used in train, else in dev, else in test): 1" in report.lines()
    # Either cluster is in train whole, and the other loses the question they share.
    assert positives == {("[[0, 1]]", "[[2, 3]]"), ("[[0, 2], [0, 3], [2, 3]]", "[]")}


@given(st.integers(0, 40), st.integers(0, 5))
def test_clusters_are_shared_out_by_their_number(count, seed):
    # Clusters of 2, 3, 2, 3 ... questions, none shared.
    groups, row = [], 0
    for number in range(count):
        groups.append(list(range(row, row + 2 + number % 2)))
        row += len(groups[-1])
    component, split_of, several = split_clusters(row + 1, groups, (0.8, 0.1, 0.1), generator(seed, "split"))
    homes = [set(split_of[group].tolist()) for group in groups]
    assert all(len(home) == 1 for home in homes)
    found = [homes.count({split}) for split in range(3)]
    wanted = np.diff(np.round(np.cumsum([0, 0.8, 0.1, 0.1]) * count))
    assert found == wanted.tolist()
    assert len(set(component.tolist())) == count + 1
    assert not several


def test_bad_logs_are_told(tmp_path):
    with pytest.raises(BadOption, match="`coherence` is 2"):
        QuestionLogs(source=tmp_path / "l.jsonl", coherence=2.0)
    path = write(tmp_path / "l.jsonl", [("one", "A"), ("", "A"), ("two", None), ("uno", "A")])
    with pytest.raises(BadFile, match=r"l.jsonl:2: its text \(column 'question'\) is empty"):
        read_logs(QuestionLogs(source=path), TRAIN)
    task, report = read_logs(QuestionLogs(source=path, bad_rows="skip"), TRAIN)
    assert task.splits["train"].positives.tolist() == [[0, 1]]
    assert len(report.skipped) == 2
    with pytest.raises(BadFile, match="has no column 'asked'"):
        read_logs(QuestionLogs(source=path, question_column="asked"), TRAIN)
