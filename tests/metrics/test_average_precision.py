"""Average precision, precision at a recall and intervals: by hand, by slow twins, by sklearn."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from al_ray.core.errors import BadFile, BadOption
from al_ray.metrics.average_precision import (
    Counts,
    StratumSummary,
    average_precision,
    count_scores,
    counts_above,
    curve,
    false_positives,
    threshold_at_recall,
    thresholds_of,
)
from al_ray.metrics.calibration import reliability
from al_ray.metrics.evaluation import evaluate_counts

# Few distinct values, so that scores are often equal.
SCORES = st.lists(st.integers(-3, 3).map(float), max_size=30)


def frozen(values, dtype: type[np.floating] = np.float64) -> Any:
    """Read-only, as arrays come out of Ray."""
    array = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array


def labels_of(labels: list[int]) -> Any:
    """Labels, read-only."""
    array = np.array(labels, dtype=np.uint8)
    array.setflags(write=False)
    return array


def slow_average_precision(positives, negatives, weights=None) -> float:
    """Eq. 6 as it is written: over all distinct scores, of negatives too, in descending order."""
    weights = [1.0] * len(negatives) if weights is None else weights
    area, before = 0.0, 0.0
    for threshold in sorted({*positives, *negatives}, reverse=True):
        true = sum(score >= threshold for score in positives)
        false = sum(weight for score, weight in zip(negatives, weights, strict=True) if score >= threshold)
        recall = true / len(positives)
        area += (recall - before) * (true / (true + false)) if true else 0.0
        before = recall
    return area


def average_precision_of(scores, labels) -> float:
    """AP of all pairs, (n,) scores with (n,) labels."""
    return average_precision(count_scores(scores[labels == 1], [scores[labels == 0]]), np.ones(1))


def test_average_precision_of_a_list():
    # Positives rank 1st and 3rd: (1/1 + 2/3) / 2.
    scores, labels = frozen([0.9, 0.8, 0.7, 0.6]), labels_of([1, 0, 1, 0])
    assert average_precision_of(scores, labels) == pytest.approx(5 / 6)


def test_a_positive_tied_with_negatives_counts_them_all_against_it():
    # At 0.8: 1 of 3 pairs; at 0.5: 2 of 4. Each adds half the recall: (1/3 + 2/4) / 2.
    scores, labels = frozen([0.8, 0.8, 0.8, 0.5]), labels_of([0, 1, 0, 1])
    assert average_precision_of(scores, labels) == pytest.approx(5 / 12)


def test_equal_scores_are_one_threshold():
    # All equal: one threshold, where 2 of 5 are positive. An order of the list would say something between 1/5 and 1.
    assert average_precision_of(frozen([0.5] * 5), labels_of([1, 1, 0, 0, 0])) == pytest.approx(2 / 5)


def test_counts_by_hand():
    # Thresholds are the positives' distinct scores; >= counts the negatives that are equal.
    counts = count_scores(frozen([0.9, 0.5, 0.9, 0.1]), [frozen([0.95, 0.5]), frozen([0.9, 0.49, 0.1, 0.0])])
    assert counts.thresholds.tolist() == [0.9, 0.5, 0.1]
    assert counts.positives.tolist() == [2, 3, 4]
    assert counts.negatives.tolist() == [[1, 2, 2], [1, 1, 3]]
    assert counts.negatives.dtype == counts.positives.dtype == np.int64


def test_weighted_counts_by_hand():
    # One near negative stands for itself, one random one for 100 pairs.
    # At 0.9: 1 true, 1 false. At 0.4: 2 true, 1 + 100 false. AP = (1/2 + 2/103) / 2.
    counts = count_scores(frozen([0.9, 0.4]), [frozen([0.95]), frozen([0.5, 0.3])])
    weights = np.array([1.0, 100.0])
    assert false_positives(counts, weights).tolist() == [1, 101]
    assert average_precision(counts, weights) == pytest.approx((1 / 2 + 2 / 103) / 2)
    assert curve(counts, weights).recall.tolist() == [0.5, 1.0]
    assert curve(counts, weights).precision == pytest.approx([1 / 2, 2 / 103])


def test_precision_at_recall_is_at_the_first_threshold_that_reaches_it():
    # Ten positives at 10, 9, ... 1 and a negative just above each but the first: recall 20% is the second, 2 of 3.
    counts = count_scores(np.arange(10.0, 0.0, -1.0), [np.arange(1.5, 10.0)])
    precision = curve(counts, np.ones(1)).precision
    assert precision[threshold_at_recall(counts, 0.2)] == pytest.approx(2 / 3)
    # 0.21 needs a third positive: 3 of 5; 100% the last: 10 of 19.
    assert precision[threshold_at_recall(counts, 0.21)] == pytest.approx(3 / 5)
    assert precision[threshold_at_recall(counts, 1.0)] == pytest.approx(10 / 19)


@pytest.mark.parametrize("positives", range(1, 101))
def test_a_recall_that_is_reached_exactly_is_reached(positives):
    # k of n positives have recall k / n, whatever k / n * n rounds to.
    counts = Counts(np.arange(positives, 0.0, -1.0), np.arange(1, positives + 1), np.zeros((1, positives), np.int64))
    assert [threshold_at_recall(counts, k / positives) for k in range(1, positives + 1)] == list(range(positives))


@pytest.mark.parametrize("recall", [0.0, -0.1, 1.1, float("nan")])
def test_a_recall_that_cannot_be_is_refused(recall):
    with pytest.raises(BadOption, match="recall above 0"):
        threshold_at_recall(count_scores(np.ones(3), [np.ones(3)]), recall)


@given(SCORES.filter(len), SCORES, st.sampled_from([np.float32, np.float64]))
def test_average_precision_is_its_slow_twins_and_sklearns(positives, negatives, dtype):
    scores = frozen(positives + negatives, dtype)
    labels = labels_of([1] * len(positives) + [0] * len(negatives))
    found = average_precision_of(scores, labels)
    assert found == pytest.approx(slow_average_precision(positives, negatives))
    assert found == pytest.approx(average_precision_score(labels, scores))


@given(SCORES.filter(len), SCORES, SCORES)
def test_weighted_average_precision_is_its_slow_twins(positives, near, random):
    counts = count_scores(frozen(positives), [frozen(near), frozen(random)])
    weights = [1.0] * len(near) + [37.5] * len(random)
    wanted = slow_average_precision(positives, near + random, weights)
    assert average_precision(counts, np.array([1.0, 37.5])) == pytest.approx(wanted)


@given(SCORES.filter(len), SCORES, st.integers(0, 30))
def test_counts_of_two_parts_add_to_those_of_the_whole(positives, negatives, cut):
    whole, first, second = (
        count_scores(frozen(positives), [frozen(part)]) for part in (negatives, negatives[:cut], negatives[cut:])
    )
    assert np.array_equal((first + second).negatives, whole.negatives)
    assert np.array_equal((first + second).positives, whole.positives)


@given(SCORES, SCORES.filter(len))
def test_counts_above_are_those_of_a_comparison(scores, positives):
    thresholds = thresholds_of(frozen(positives))
    above = counts_above(thresholds, frozen(scores, np.float32))
    assert above.tolist() == [sum(score >= threshold for score in scores) for threshold in thresholds]


def test_float32_scores_are_compared_with_float64_thresholds_as_they_are():
    # float32(0.1) is 1.5e-9 above 0.1: it reaches that threshold, and 0.1 does not reach float32(0.1).
    assert counts_above(np.array([0.1]), np.array([0.1], dtype=np.float32)).tolist() == [1]
    assert counts_above(thresholds_of(np.array([0.1], dtype=np.float32)), np.array([0.1])).tolist() == [0]


def test_infinite_scores_are_scores():
    # A pair that a filter never returned scores -inf: tied with every other such pair. (1/1 + 2/4) / 2.
    scores, labels = frozen([np.inf, -np.inf, -np.inf, -np.inf]), labels_of([1, 1, 0, 0])
    assert average_precision_of(scores, labels) == pytest.approx(3 / 4)


@pytest.mark.parametrize("labels", [[1, 0, 0], [0, 1, 0], [0, 1, 1]])
def test_scores_that_are_no_numbers_are_refused(labels):
    with pytest.raises(BadFile, match=r"1 of \d+ scores are not numbers"):
        average_precision_of(frozen([0.1, np.nan, 0.3]), labels_of(labels))


def test_without_a_positive_there_is_no_average_precision():
    with pytest.raises(BadFile, match="no positive"):
        average_precision_of(frozen([0.1]), labels_of([0]))


def test_an_exact_count_has_no_interval():
    counts = count_scores(frozen([0.9, 0.4]), [frozen([0.95, 0.1])])
    found = evaluate_counts("dev", counts, [StratumSummary("all", 2, 2)], None, np.random.default_rng(0))
    assert found.exact
    for estimate, value in ((found.average_precision, (1 / 2 + 2 / 3) / 2), (found.precision_at_recall_20, 1 / 2)):
        assert (estimate.low, estimate.value, estimate.high) == pytest.approx((value, value, value))


def test_the_interval_of_one_threshold_is_that_of_its_count():
    # 100 positives at 1; above them 400 of the 10^4 that were sampled of 10^6: precision 100 / (100 + 40,000). That 400
    # varies by sqrt(400 * (1 - 1/100)) = 19.9, in 95% by 39 either way: 361 to 439. Where the sample is half of all
    # negatives, by sqrt(400 * (1 - 1/2)) = 14.1, or 27.7.
    counts = count_scores(np.ones(100), [np.repeat([2.0, 0.0], [400, 9600])])
    for population, ends in ((10**6, (361, 439)), (2 * 10**4, (372.3, 427.7))):
        stratum = StratumSummary("random", 10**4, population)
        found = evaluate_counts("dev", counts, [stratum], None, np.random.default_rng(0))
        assert not found.exact
        wanted = [100 / (100 + stratum.weight * count) for count in (ends[1], 400, ends[0])]
        for estimate in (found.average_precision, found.precision_at_recall_20):
            assert [estimate.low, estimate.value, estimate.high] == pytest.approx(wanted, rel=0.02)


def test_a_stratum_taken_whole_does_not_vary():
    # Near negatives decide precision here; both other strata are taken whole too, one of them empty.
    counts = count_scores(np.array([0.9, 0.8]), [np.array([0.95, 0.85]), np.array([]), np.array([0.1])])
    strata = [StratumSummary("near", 2, 2), StratumSummary("band", 0, 0), StratumSummary("random", 1, 1)]
    found = evaluate_counts("dev", counts, strata, None, np.random.default_rng(0)).average_precision
    assert found.low == found.value == found.high == pytest.approx((1 / 2 + 2 / 4) / 2)


def test_the_interval_is_the_same_however_many_replicates_are_held_at_once(monkeypatch):
    rng = np.random.default_rng(0)
    counts = count_scores(rng.normal(2, 1, 50), [rng.normal(0, 1, 1000)])
    monkeypatch.setattr("al_ray.metrics.intervals.CELLS", 7 * 50)
    few = evaluate_counts("dev", counts, [StratumSummary("random", 1000, 10**6)], None, np.random.default_rng(0))
    monkeypatch.undo()
    many = evaluate_counts("dev", counts, [StratumSummary("random", 1000, 10**6)], None, np.random.default_rng(0))
    assert few.average_precision == many.average_precision


def test_the_json_is_the_contracts():
    counts = count_scores(frozen([0.9, 0.4]), [frozen([0.95]), frozen([0.5, 0.3])])
    strata = [StratumSummary("near", 1, 1), StratumSummary("random", 2, 200)]
    summed = reliability(frozen([0.0]), labels_of([0]), 1.0)
    content = json.loads(json.dumps(evaluate_counts("dev", counts, strata, summed, np.random.default_rng(0)).as_dict()))
    for name, value in (("average_precision", (1 / 2 + 2 / 103) / 2), ("precision_at_recall_20", 1 / 2)):
        assert set(content[name]) == {"value", "low", "high"}
        assert content[name]["value"] == pytest.approx(value)
        assert content[name]["low"] <= content[name]["value"] <= content[name]["high"]
    assert content["positives"] == 2
    assert content["total_pairs"] == 203
    assert content["exact"] is False
    assert content["calibration_error"] == content["l2_calibration_error"] == 0.5
    (row,) = content["reliability"]
    assert (row["low"], row["weight"], row["mean_p"], row["share"]["value"]) == (0.5, 1, 0.5, 0)
    assert set(row) == {"low", "high", "weight", "mean_p", "share"}
    assert content["strata"] == [
        {"name": "near", "size": 1, "population": 1, "weight": 1.0},
        {"name": "random", "size": 2, "population": 200, "weight": 100.0},
    ]
