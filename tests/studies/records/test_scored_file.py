"""Figures of another tool's scores: pairs that it left out are equal, and below all others."""

import json
import sys

import numpy as np
import pytest

from al_ray.core.pairs import as_pairs
from al_ray.core.task import Corpus, Split, Task
from al_ray.datasets.task_folder import sealed, write_task
from studies import __main__ as studies
from studies.records.scored_file import ScoredPairs


@pytest.fixture
def folder(tmp_path):
    """Three texts of each side: text k of the left matches text k of the right."""
    left, right = (Corpus(tuple(f"{side}{row}" for row in range(3)), ("one", "two", "three")) for side in "ab")
    space = Task("three", False, left, right, {}, "").space(np.arange(3), np.arange(3))
    split = Split("train", space, as_pairs(range(3), range(3)), as_pairs([0], [1]))
    write_task(sealed("three", False, left, right, {"train": split}), tmp_path / "task", {})
    return tmp_path


def test_figures_by_hand(folder, monkeypatch, capsys):
    scores, labels = folder / "scores.csv", folder / "labels.csv"
    scores.write_text("left_id,right_id,score\na0,b0,-1.5\na0,b1,-2\na1,b1,-3\n")
    labels.write_text("left_id,right_id,answer\na0,b1,no\na2,b2,yes\n")
    # A match, another pair, a match, and six equal ones with the third match.
    ap, unlabelled = (1 + 2 / 3 + 3 / 9) / 3, (1 + 2 / 2) / 2
    results = ScoredPairs(folder / "task", scores, labels, 2).results()
    assert results == pytest.approx(
        # Taken one-to-one are a match, the pair a1, b1, and the first of the equal ones that is free: a2, b2.
        {"AP": ap, "AP, unlabelled": unlabelled, "best F1": 4 / 6, "one-to-one": 1.0, "recall of scored pairs": 2 / 3}
    )
    assert ScoredPairs(folder / "task", scores, labels, 1).results()["AP, unlabelled"] == pytest.approx(
        (1 + 1 + 3 / 8) / 3
    )
    line = ["bench", "scored-pairs", "--task", str(folder / "task"), "--scores", str(scores)]
    monkeypatch.setattr(sys, "argv", [*line, "--out", str(folder / "out.json")])
    studies.main()
    assert "AP                        66.7" in capsys.readouterr().out
    assert json.loads((folder / "out.json").read_text())["AP"] == pytest.approx(ap)
