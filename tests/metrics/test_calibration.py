"""Reliability: sums by bins, the table, both errors; by hand, by laws, by a simulated scorer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.errors import BadFile
from al_ray.core.scorer import Floats, sigmoid
from al_ray.metrics.calibration import BINS, ODDS, reliability
from al_ray.metrics.intervals import total_interval

LOGITS = st.lists(st.tuples(st.floats(-30, 30), st.integers(0, 1)), min_size=1, max_size=20)


def logit(p) -> Floats:
    return np.log(np.asarray(p)) - np.log1p(-np.asarray(p))


def labelled(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.uint8)


def test_calibration_error_by_hand():
    # Bins of 1/15. p = 0.5 is in bin 7, both positive: 1 too little. p = 0.99 and 1 are in the last, none positive,
    # each standing for 10 pairs: 10 * 0.99 + 10 * 1 = 19.9 too much. The two do not cancel: 20.9 over 2 + 20 pairs.
    summed = reliability(np.zeros(2), labelled([1, 1]), 1.0)
    summed += reliability(np.array([logit(0.99), np.inf]), labelled([0, 0]), 10.0)
    assert summed.weight.sum(axis=0)[[7, BINS - 1]].tolist() == [2, 20]
    assert summed.confidence.sum(axis=0)[[7, BINS - 1]] == pytest.approx([1, 19.9])
    assert summed.positives.sum() == summed.positives.sum(axis=0)[7] == 2
    assert summed.squares.sum() == 2 * 10**2
    assert summed.error == pytest.approx(20.9 / 22)
    # 0.5, 0.99 and 1 have odds 1, 99 and infinite, each alone in its half decade: sqrt of the mean square.
    assert summed.l2_error == pytest.approx(np.sqrt((2 * 0.5**2 + 10 * 0.99**2 + 10 * 1**2) / 22))


def test_a_bin_is_judged_as_a_whole_not_part_by_part():
    # Two parts with p = 1/2, one all positive, one all negative: together they are calibrated.
    sure, unsure = (reliability(np.zeros(1), labelled([label]), 1.0) for label in (0, 1))
    assert sure.error == unsure.error == sure.l2_error == 0.5
    assert (sure + unsure).error == (sure + unsure).l2_error == 0


def test_the_expected_error_is_over_equal_bins_and_the_other_over_half_decades():
    # p = 0.01 of a positive and 0.001 of a negative are one equal bin: |0.011 - 1| of two pairs. Their odds are apart.
    summed = reliability(logit([0.01, 0.001]), labelled([1, 0]), 1.0)
    assert summed.error == pytest.approx(0.989 / 2)
    assert summed.l2_error == pytest.approx(np.sqrt((0.99**2 + 0.001**2) / 2))


def test_the_table_tells_one_in_a_hundred_thousand_from_one_in_a_million():
    # Odds 10^-5.2 and 10^-6.2 are one equal bin of p, and two rows. 20 positives stand for themselves, and one sampled
    # negative for a million.
    low, high = 10**-6.2, 10**-5.2
    summed = reliability(np.log([low, high]), labelled([0, 0]), 1e6)
    summed += reliability(np.full(20, np.log(high)), labelled([1] * 20), 1.0)
    first, second = summed.table()
    assert (first.low, first.high) == pytest.approx((10**-6.5, 10**-6), rel=1e-5)
    assert (second.low, second.high) == pytest.approx((10**-5.5, 10**-5), rel=1e-4)
    assert (first.weight, first.share, second.weight) == (1e6, 0.0, 1e6 + 20)
    assert first.mean_p == pytest.approx(low, rel=1e-5)
    assert second.share == pytest.approx(20 / (1e6 + 20))
    assert first.share_low == 0
    assert second.share_low < second.share < second.share_high
    # Garwood's of 0 and of 20 positives (3.689; 12.22 to 30.89), of 1 negative (0.0253 to 5.572), all a million each.
    assert first.share_high > 3.68e-6
    assert second.share_low == pytest.approx(12.22 / (12.22 + 5.572e6), rel=0.02)


def test_the_ends_of_all_rows_are_those_of_p_and_meet():
    rows = reliability(np.array([-99.0, *np.arange(-19, 10, 0.1), np.inf]), labelled([0] * 292), 1.0).table()
    assert len(rows) == ODDS
    assert [rows[0].low, rows[-1].high] == [0.0, 1.0]
    assert [row.high for row in rows[:-1]] == [row.low for row in rows[1:]]
    assert all(row.low <= row.mean_p <= row.high for row in rows)
    # A bin holds its lower end: odds of 1 are in the row that begins at 1/2.
    assert reliability(np.zeros(1), labelled([0]), 1.0).table()[0].low == 0.5


@given(LOGITS, LOGITS, st.floats(0.5, 1e6))
def test_parts_add_and_all_weight_is_kept(first, second, weight):
    one, other = ((np.array([x for x, _ in part]), labelled([y for _, y in part])) for part in (first, second))
    whole = reliability(np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]]), weight)
    added = reliability(*one, weight) + reliability(*other, weight)
    for name in ("weight", "confidence", "positives", "squares"):
        assert getattr(added, name) == pytest.approx(getattr(whole, name))
    rows = added.table()
    assert sum(row.weight for row in rows) == pytest.approx(weight * len(first + second))
    assert sum(row.weight * row.share for row in rows) == pytest.approx(weight * (one[1].sum() + other[1].sum()))
    assert all(0 <= row.share_low <= row.share <= row.share_high <= 1 for row in rows)


def test_a_calibrated_scorer_has_no_error_and_one_that_is_sure_has():
    # Labels are drawn by p itself, at one positive in 20: the more pairs, the less is left.
    rng = np.random.default_rng(0)
    errors: list[tuple[float, float]] = []
    logits, labels = np.empty(0), labelled([])
    for count in (1_000, 100_000):
        logits = rng.normal(-5, 2, count)
        labels = (rng.random(count) < sigmoid(logits)).astype(np.uint8)
        summed = reliability(logits, labels, 1.0)
        errors.append((summed.error, summed.l2_error))
        # Each row holds its mean p in 95 of 100 splits or more.
        assert sum(row.share_low <= row.mean_p <= row.share_high for row in summed.table()) >= len(summed.table()) - 1
    assert errors[1][0] < 0.002
    assert errors[1][1] < min(0.004, errors[0][1])
    # The last logits, three too high.
    sure = reliability(logits + 3, labels, 1.0)
    assert sure.error > 0.1
    assert sure.l2_error > 0.1


@pytest.mark.parametrize(
    ("count", "low", "high"), [(0, 0, 3.689), (5, 1.623, 11.668), (20, 12.217, 30.888), (400, 361.8, 441.2)]
)
def test_the_interval_of_a_count_is_garwoods(count, low, high):
    for weight in (1.0, 50.0):
        found = total_interval(weight * count, weight**2 * count, weight)
        assert found == pytest.approx((weight * low, weight * high), rel=0.001)


def test_where_nothing_was_seen_and_nothing_more_can_be_there_is_nothing():
    assert total_interval(0.0, 0.0, 0.0) == (0.0, 0.0)


def test_logits_that_are_no_numbers_are_refused():
    with pytest.raises(BadFile, match="1 of 2 scores are not numbers"):
        reliability(np.array([0.1, np.nan]), labelled([0, 1]), 1.0)
