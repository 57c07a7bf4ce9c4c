"""What a run knows of its candidates: read as written, said in words, and refused if damaged."""

import copy
import json

import pytest

from al_ray.core.errors import BadFile
from al_ray.runs.candidate_figures import (
    CandidateFigures,
    CandidateRecall,
    candidate_figures,
    candidate_scalars,
    main_figures,
)
from al_ray.runs.round_metrics import read_lines
from al_ray.runs.round_table import round_table

LINE = {
    "round": 1, "labels": 60, "positives": 33, "average_precision": 0.969, "precision_at_recall_20": 1.0,
    "boundary": 0.5, "neighbourhood": 0.0, "seconds": {"train": 2.0},
}  # fmt: skip
FOUND = CandidateFigures(CandidateRecall(31_730, 40, {"cosine": 0.75, "3-grams": None, "both": 0.8}), 0.255)
BARE = CandidateFigures(CandidateRecall(9, 0, {"cosine": None, "3-grams": None, "both": None}), 0.5)
WITH = {**LINE, "candidates": {"train": BARE.as_dict(), "dev": FOUND.as_dict()}}


def test_figures_are_read_as_written_and_dev_stands_for_the_run():
    found = candidate_figures(json.loads(json.dumps(WITH)))
    assert found == {"train": BARE, "dev": FOUND}
    assert main_figures(WITH) == FOUND
    assert candidate_figures(LINE) == {}
    assert main_figures(LINE) is None
    assert main_figures({**LINE, "candidates": {}}) is None


def test_the_recall_of_candidates_is_one_plain_sentence():
    # 80% of 40 matches are 32; a way that is not known is left out.
    assert FOUND.recall.words("dev") == (
        "candidates of dev: 31,730 pairs, with 80.0% of the 40 known matches (75.0% by cosine)"
    )
    assert BARE.recall.words("train") == (
        "candidates of train: 9 pairs; no match is known there, so their recall is not known"
    )


def test_a_low_recall_says_what_to_do():
    assert FOUND.recall.warning("dev", 0.8) is None
    assert BARE.recall.warning("dev", 1.0) is None
    warning = FOUND.recall.warning("dev", 0.81)
    assert warning is not None
    assert warning.startswith("the candidates of dev have 0.800 of the known matches, less than 0.81 ")
    assert "raise `candidates.cosine` and `candidates.trigrams`, and `candidates.more_of_dense` for large" in warning


def test_the_table_of_a_run_has_the_cosine_beside_the_matcher():
    head, row = round_table([WITH]).splitlines()
    assert head.split("  ")[3:] == ["AP %", "cosine AP %", "P@R20 %", "boundary", "seconds"]
    assert row.split() == ["1", "60", "33", "96.9", "25.5", "100.0", "0.500", "2"]
    # A round of a version that did not measure it.
    assert round_table([WITH, {**LINE, "round": 2}]).splitlines()[2].split()[3:5] == ["96.9", "-"]


def test_the_table_of_a_run_without_a_matcher_is_as_it_was():
    assert round_table([LINE]).splitlines()[0].split("  ") == [
        *("round", "labels", "positives", "AP %", "P@R20 %", "boundary", "seconds")
    ]


def test_trackers_get_a_number_for_each_figure_that_is_known():
    assert candidate_scalars(WITH) == {
        "candidates/train/number": 9.0, "candidates/train/cosine_average_precision": 0.5,
        "candidates/dev/number": 31_730.0, "candidates/dev/recall/cosine": 0.75, "candidates/dev/recall/both": 0.8,
        "candidates/dev/cosine_average_precision": 0.255,
    }  # fmt: skip
    assert candidate_scalars(LINE) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [("recall", 0.5), ("recall", {"cosine": "x"}), ("number", None), ("cosine_average_precision", float("nan"))],
)
def test_a_damaged_line_is_refused(tmp_path, name, value):
    damaged = copy.deepcopy(WITH)
    (tmp_path / "metrics.jsonl").write_text(json.dumps(damaged) + "\n")
    assert len(read_lines(tmp_path)) == 1
    damaged["candidates"]["dev"][name] = value
    (tmp_path / "metrics.jsonl").write_text(json.dumps(damaged) + "\n")
    with pytest.raises(BadFile, match="is not the line of round 1; restore it"):
        read_lines(tmp_path)
    damaged["candidates"] = [3]
    (tmp_path / "metrics.jsonl").write_text(json.dumps(damaged) + "\n")
    with pytest.raises(BadFile, match="is not the line of round 1; restore it"):
        read_lines(tmp_path)
