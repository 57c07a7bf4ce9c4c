"""How many of the presumed non-matches match: counted or estimated before they are used, said and stored each round."""

import json
from dataclasses import replace

import numpy as np
import pytest

import al_ray
from al_ray.cluster.candidates.matcher_trainer import Known, matches_among
from al_ray.core.config.sections import CandidatesConfig
from al_ray.core.errors import BadFile
from al_ray.datasets.task_folder import write_task
from al_ray.matcher.learner import DEFAULT
from al_ray.runs.candidate_figures import candidate_figures, candidate_scalars
from al_ray.runs.presumed_figures import (
    OF_MATCHER,
    OF_TRAINING,
    PRESUMED,
    PresumedFigures,
    presumed_by_training,
    presumed_figures,
    presumed_warnings,
)
from al_ray.runs.round_metrics import read_lines
from al_ray.runs.round_table import format_round
from tests.cluster.candidates.test_commands import config_of

LINE = {
    "round": 1, "labels": 60, "positives": 33, "average_precision": None, "precision_at_recall_20": None,
    "boundary": 0.5, "neighbourhood": 0.0, "seconds": {"train": 2.0}, "batch_positives": 33, "warnings": [],
}  # fmt: skip


def known_of(labels: np.ndarray) -> Known:
    """Pairs of one feature, which is above 0.5 for a match."""
    features = np.where(labels == 1, 0.9, 0.1).astype(np.float32)[:, None]
    return Known(features, labels.astype(np.uint8), ("cosine",), DEFAULT, 0)


def far_of(values: list[float]) -> np.ndarray:
    return np.array(values, dtype=np.float32)[:, None]


def test_where_all_matches_are_known_they_are_counted(make_task):
    task = make_task(False)
    split = task.split("train")
    others = split.space.pairs(np.setdiff1d(split.space.at(np.arange(split.space.total)), split.positive_keys)[:6])
    presumed = np.concatenate([split.positives[:2], others])
    # The features say that all match; 2 of 8 do.
    found = matches_among(task, presumed, far_of([0.9] * 8), known_of(np.array([0, 0, 1, 1])))
    assert found == PresumedFigures(8, 0.25, True)


def test_elsewhere_a_matcher_that_was_not_told_says_how_many_match(make_task):
    task = replace(make_task(False), labels_are="partial")
    presumed, labels = task.split("train").space.pairs(np.arange(5)), np.tile([0, 1], 10)
    # Trees divide 0.1 and 0.9 at random, so p of the fourth is about 1/4: it counts for nothing, not for a quarter.
    far = far_of([0.05, 0.1, 0.95, 0.3, 0.0])
    assert matches_among(task, presumed, far, known_of(labels)) == PresumedFigures(5, 0.2, False)
    # p of labels of one kind is that of the label.
    for one in (np.zeros(20), np.ones(20)):
        assert matches_among(task, presumed, far, known_of(one)) == PresumedFigures(5, None, False)


def test_a_round_says_how_many_match_and_warns_above_one_percent():
    few, many = PresumedFigures(300, 0.01, False), PresumedFigures(300, 0.0467, True)
    assert few.words(OF_MATCHER) == (
        "presumed non-matches: 300, of which about 1% match (p >= 0.5 by a matcher of the labels alone)"
    )
    assert (
        many.words(OF_MATCHER) == "presumed non-matches: 300, of which 4.7% match (all matches of the task are known)"
    )
    assert "is not known before labels of both kinds" in PresumedFigures(300, None, False).words(OF_MATCHER)
    for figures in (few, PresumedFigures(300, None, False)):
        assert presumed_warnings({"candidates": {PRESUMED: figures.as_dict()}}) == []
    (warning,) = presumed_warnings({"candidates": {PRESUMED: many.as_dict()}})
    assert warning.startswith("4.7% of the presumed non-matches match, more than 1%: ")
    assert warning.endswith("give fewer or none (`RunConfig.candidates.presumed`)")
    line = {**LINE, "candidates": {PRESUMED: many.as_dict()}, "warnings": [warning]}
    assert format_round(line).splitlines()[-2:] == [many.words(OF_MATCHER), f"warning: {warning}"]
    assert "presumed" not in format_round({**LINE, "candidates": {}})
    assert presumed_warnings({}) == []


def test_a_training_says_the_same_of_its_own():
    few, many = PresumedFigures(300, 0.01, False), PresumedFigures(300, 0.0467, True)
    assert few.words(OF_TRAINING) == (
        "presumed non-matches of the training: 300, of which about 1% match (p >= 0.5 by the cosine before it, fitted "
        "to the labels alone)"
    )
    both = {"candidates": {PRESUMED: many.as_dict()}, PRESUMED: many.as_dict()}
    of_matcher, of_training = presumed_warnings(both)
    assert of_matcher.endswith("(`RunConfig.candidates.presumed`)")
    assert of_training.startswith("4.7% of the presumed non-matches of the training match, more than 1%: the encoder")
    assert of_training.endswith("give fewer or none (`RunConfig.training.presumed`)")
    assert presumed_warnings({PRESUMED: few.as_dict()}) == []
    assert format_round({**LINE, PRESUMED: few.as_dict()}).splitlines()[-1] == few.words(OF_TRAINING)


def test_figures_are_read_as_written_and_are_of_no_split():
    found = PresumedFigures(300, 0.02, False)
    line = json.loads(json.dumps({**LINE, "candidates": {PRESUMED: found.as_dict()}}))
    assert presumed_figures(line) == found
    assert candidate_figures(line) == {}
    assert candidate_scalars(line) == {"candidates/presumed/share": 0.02}
    assert presumed_figures(LINE) is None
    line = json.loads(json.dumps({**LINE, PRESUMED: found.as_dict()}))
    assert (presumed_by_training(line), presumed_figures(line)) == (found, None)
    assert candidate_scalars(line) == {"presumed/share": 0.02}


@pytest.mark.parametrize("content", [3, {"number": 3}, {"number": 3, "share": 1.5, "counted": True}])
@pytest.mark.parametrize("of_matcher", [True, False])
def test_a_damaged_line_is_refused(tmp_path, content, of_matcher):
    figures = {PRESUMED: content}
    line = {**LINE, **({"candidates": figures} if of_matcher else figures)}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(BadFile, match="is not the line of round 1; restore it"):
        read_lines(tmp_path)


def test_each_round_stores_them_beside_the_splits(in_process, make_task, tmp_path):
    write_task(make_task(False, clusters=18), tmp_path / "task", {})
    options = {**vars(config_of(tmp_path / "task")), "candidates": CandidatesConfig(cosine=5, trigrams=5, presumed=12)}
    lines = al_ray.run(al_ray.RunConfig(**options), tmp_path / "run").folder.metrics()
    assert len(lines) == 2
    for line in lines:
        found = presumed_figures(line)
        assert found is not None
        assert (found.number, found.counted, set(line["candidates"])) == (12, True, {"dev", PRESUMED})
