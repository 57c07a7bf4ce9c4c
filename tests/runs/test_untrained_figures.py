"""What an encoder is worth without labels, beside the rounds of a run."""

import json
from dataclasses import replace

import numpy as np
import pytest

from al_ray.core.errors import BadFile
from al_ray.metrics.average_precision import Counts, StratumSummary
from al_ray.metrics.bootstrap import Replicates
from al_ray.metrics.evaluation import evaluate_counts
from al_ray.runs.round_table import round_table
from al_ray.runs.untrained_figures import (
    FILE,
    beside_untrained,
    compared_with_untrained,
    read_untrained,
    untrained_line,
    write_untrained,
)


def evaluated_at(split, values):
    """AP 0.75, half the recall at precision 1 and half at 2/4, plus what the replicates are above 0.25."""
    counts = Counts(np.array([0.9, 0.5]), np.array([1, 2]), np.array([[0, 2]]))
    plain = evaluate_counts(split, counts, [StratumSummary("all", 3, 3)], None, np.random.default_rng(0))
    return replace(plain, over_queries=Replicates(0.5 + values[0], values))


def line(now, before, low=None):
    gain = None if low is None else {"value": now - before, "low": low, "high": 1.0}
    untrained = {"average_precision": before, "precision_at_recall_20": 0.5}
    return {"round": 1, "labels": 60, "average_precision": now, "untrained": untrained, "gain_over_untrained": gain}


def test_figures_come_back_beside_those_of_a_round(tmp_path):
    before = np.full(200, 0.25)
    write_untrained(tmp_path, "e" * 64, {"test": evaluated_at("test", before), "dev": evaluated_at("dev", before)})
    found = beside_untrained(read_untrained(tmp_path), {"dev": evaluated_at("dev", before + 0.125)})
    assert found["untrained"]["average_precision"] == 0.75
    assert found["gain_over_untrained"] == pytest.approx({"value": 0.125, "low": 0.125, "high": 0.125})


def test_what_was_not_measured_is_null(tmp_path):
    assert read_untrained(tmp_path) == {}
    nothing = {"untrained": None, "gain_over_untrained": None}
    assert beside_untrained({}, {"dev": evaluated_at("dev", np.full(200, 0.5))}) == nothing
    assert beside_untrained({}, {}) == nothing
    assert untrained_line(nothing | {"round": 1}) is None
    assert untrained_line({"round": 1}) is None
    assert compared_with_untrained({"average_precision": 0.5}) is None
    assert compared_with_untrained(line(None, 0.5)) is None


def test_a_tracker_logs_them_at_no_labels():
    figures = {"round": 0, "labels": 0, "average_precision": 0.25, "precision_at_recall_20": 0.5}
    assert untrained_line(line(0.5, 0.25)) == figures


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (line(0.5, 0.25, 0.2), "AP 50.0% with 60 labels, 25.0% without any (+25.0 points, 95%: +20.0 to +100.0)"),
        (line(0.5, 0.25), "AP 50.0% with 60 labels, 25.0% without any (+25.0 points)"),
        (line(0.5, 0.4375, -0.1), "+100.0): the labels may have brought nothing"),
        (line(0.25, 0.5, -0.5), "(-25.0 points, 95%: -50.0 to +100.0): the labels have brought nothing so far"),
        (line(0.5, 0.5), "(+0.0 points): the labels have brought nothing so far"),
        (
            line(0.5, 0.25) | {"neighbourhood": 0.5},
            "(+25.0 points); without labels it is the plain cosine, so the neighbourhood (a = 0.5), which needs none",
        ),
    ],
)
def test_words(one, words):
    assert words in compared_with_untrained(one)


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / FILE).write_text(json.dumps({"evaluations": {}}))
    with pytest.raises(BadFile, match=FILE):
        read_untrained(tmp_path)


def test_the_table_begins_without_labels():
    rest = {"positives": 7, "precision_at_recall_20": 0.75, "boundary": 0.5, "seconds": {"train": 3.0}}
    first = line(0.5, 0.25) | rest
    second = first | {"round": 2, "labels": 120}
    zero, one, two = (row.split() for row in round_table([first, second]).splitlines()[1:])
    assert zero == ["0", "0", "0", "25.0", "50.0", "-", "-"]
    assert one == ["1", "60", "7", "50.0", "75.0", "0.500", "3"]
    # A later round alone, and a run that an earlier version began, have no such row.
    assert round_table([second]).splitlines()[1].split() == two
    assert len(round_table([first | {"untrained": None}]).splitlines()) == 2
