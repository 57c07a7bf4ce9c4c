"""The matcher against loops over all pairs; what it has followed against what a new one reads."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import al_ray
from al_ray.apps.matching.model import open_model
from al_ray.apps.serving.known import read_known
from al_ray.apps.serving.matcher import Matcher
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.questions import Question
from al_ray.apps.serving.store import StoreWriter, make_store
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from tests.apps.audit.test_audit_job import run_folder

QUESTIONS = ["abcd", "the same words", "xyz 12"]


@pytest.fixture(scope="module", params=[0.0, 0.5], ids=["cosine", "neighbourhood"])
def made(request, make_task, tmp_path_factory) -> tuple[Path, Task, float]:
    """A run, on one set of texts if its score is the cosine, else on two."""
    task = make_task(not request.param, clusters=10, members=4)
    scorer = Scorer(20.0, -10.0, 0.1, "fitted", request.param)
    return run_folder(tmp_path_factory.mktemp("run"), task, scorer), task, request.param


def table(path: Path, rows: dict[str, str]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("key", "words"), *rows.items()])
    return path


def opened(run: Path, known: Path, store: Path, **more) -> Matcher:
    options = ServeOptions(
        model=run, known=known, store=store, limit=50, text_columns="words", id_column="key", **more
    )  # fmt: skip
    model = open_model(run)
    make_store(store, *read_known(options, model))
    return Matcher(options, model)


def by_loops(run: Path, known: dict[str, str], query: str, weight: float) -> dict[str, float]:
    """The scores of a query with all known texts, by the loaded model of the Python interface."""
    model = al_ray.load_model(run)
    cosines = model.cosines([query] * len(known), list(known.values()))
    return dict(zip(known, (cosines - weight * np.sort(cosines)[-5:].mean()).tolist(), strict=True))


def check(matcher: Matcher, run: Path, known: dict[str, str], weight: float) -> None:
    [answer] = matcher.answer([Question(tuple(QUESTIONS), 50)])
    for query, found in zip(QUESTIONS, answer.found, strict=True):
        expected = by_loops(run, known, query, weight)
        assert {one.id: one.score for one in found} == pytest.approx(expected, abs=2e-6)
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_scores_are_those_of_the_run_and_changes_of_the_store_are_followed(made, tmp_path):
    run, task, weight = made
    known = {f"k{row}": text for row, text in enumerate(task.right.texts[:20])}
    matcher = opened(run, table(tmp_path / "k.csv", known), tmp_path / "store")
    check(matcher, run, known, weight)
    writer = StoreWriter(tmp_path / "store")
    writer.put([("new", "abcd 01"), ("k3", "another one")])
    writer.remove(["k5", "k6"])
    known |= {"new": "abcd 01", "k3": "another one"}
    del known["k5"], known["k6"]
    check(matcher, run, known, weight)
    assert matcher.number == 2
    # A matcher that starts now answers as the one that has followed, from the vectors on disk.
    writer.close()
    model = open_model(run)
    again = Matcher(matcher.options, model)
    before, after = (one.answer([Question(tuple(QUESTIONS), 50)])[0] for one in (matcher, again))
    assert before.sequence == after.sequence == 2
    for one, other in zip(before.found, after.found, strict=True):
        assert [match.id for match in one] == [match.id for match in other]
        assert [match.score for match in one] == pytest.approx([match.score for match in other], abs=2e-6)


def test_questions_of_a_batch_are_answered_as_each_alone(made, tmp_path):
    run, task, _ = made
    known = {f"k{row}": text for row, text in enumerate(task.right.texts[:20])}
    matcher = opened(run, table(tmp_path / "k.csv", known), tmp_path / "store")
    questions = [Question(("abcd",), 2), Question((), 3), Question(("xyz 12", "abcd"), 7), Question(("a",), 1, 1)]
    together = matcher.answer(questions)
    alone = [matcher.answer([question])[0] for question in questions]
    # The last one asks for a change that is not there.
    assert together[-1].results is alone[-1].results is None
    for one, other, question in zip(together[:-1], alone[:-1], questions[:-1], strict=True):
        assert len(one.found) == len(question.texts)
        for first, second in zip(one.found, other.found, strict=True):
            assert len(first) == question.limit
            assert [match.id for match in first] == [match.id for match in second]


def test_only_matches_above_the_cutoff_are_answered(made, tmp_path):
    run, task, weight = made
    known = {f"k{row}": text for row, text in enumerate(task.right.texts[:20])}
    expected = by_loops(run, known, "abcd", weight)
    cutoff = (sorted(expected.values())[-4] + sorted(expected.values())[-5]) / 2
    matcher = opened(run, table(tmp_path / "k.csv", known), tmp_path / "store", at_score=cutoff)
    [answer] = matcher.answer([Question(("abcd",), 50)])
    assert {one.id for one in answer.found[0]} == {one for one, score in expected.items() if score >= cutoff}
    assert {one.probability for one in answer.found[0]} == {None}
    assert matcher.about().source.startswith("at_score=")
    with pytest.raises(BadOption, match=r"probabilities, and those of .* are not calibrated"):
        Matcher(replace(matcher.options, at_score=None, at_p=0.5), open_model(run))


def test_above_a_number_of_texts_an_index_is_asked(made, tmp_path):
    run, task, weight = made
    known = {f"k{row}": text for row, text in enumerate(task.right.texts[:20])}
    matcher = opened(
        run, table(tmp_path / "k.csv", known), tmp_path / "store", exact_texts=10, index="Flat"
    )  # fmt: skip
    assert matcher.about().as_dict()["search"] == {
        "kind": "index", "index": "Flat", "nprobe": 32, "recall": 1.0, "indexed": 20, "compared": 0,
    }  # fmt: skip
    check(matcher, run, known, weight)


def test_no_known_texts_give_no_matches(made, tmp_path):
    run, _, _ = made
    matcher = opened(run, table(tmp_path / "k.csv", {"a": "b"}), tmp_path / "store")
    writer = StoreWriter(tmp_path / "store")
    writer.remove(["a"])
    writer.close()
    assert matcher.answer([Question(("abcd",), 5)])[0].results == [[]]
    assert Matcher(matcher.options, open_model(run)).answer([Question(("abcd",), 5)])[0].results == [[]]


def test_after_a_damaged_change_a_matcher_answers_no_more(made, tmp_path):
    run, _, _ = made
    matcher = opened(run, table(tmp_path / "k.csv", {"a": "b"}), tmp_path / "store")
    (tmp_path / "store/changes.log").write_bytes(b"00000000 {}\n")
    with pytest.raises(BadFile, match="the change 1 is damaged"):
        matcher.answer([Question(("abcd",), 5)])
    assert matcher.failed
    (tmp_path / "store/changes.log").write_bytes(b"")
    with pytest.raises(BadFile, match="this replica starts again"):
        matcher.answer([Question(("abcd",), 5)])


def test_the_known_texts_of_a_task_are_its_right_texts(made, tmp_path):
    run, task, _ = made
    matcher = opened(run, run.parent / "task", tmp_path / "store")
    assert matcher.texts.keys() == set(task.right.ids)
