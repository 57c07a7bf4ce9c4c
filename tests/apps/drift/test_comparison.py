"""The comparison of two samples: distances and critical values worked by hand, when there is a warning, and laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.apps.drift.comparison import ALPHA, LARGE, Kind, compare, critical_distance, distances

KIND = Kind("length", "{:.1f}", {"higher": "are longer", "lower": "are shorter"})
SAMPLE = st.lists(st.integers(0, 9), min_size=1, max_size=30).map(lambda values: np.array(values, dtype=np.float64))


def values(*numbers: float, times: int = 1) -> np.ndarray:
    return np.repeat(np.array(numbers, dtype=np.float64), times)


def test_the_distance_is_the_largest_difference_of_the_shares_up_to_a_value():
    # Up to 2 are 2/4 of the first and 0/4 of the second, up to 3 are 3/4 and 1/4.
    assert distances(values(1, 2, 3, 4), values(3, 4, 5, 6)) == {"higher": 0.5, "lower": 0.0}
    # Up to 1 is 1/2 and 0; up to 3 are 1/2 and 1.
    assert distances(values(1, 5), values(2, 3)) == {"higher": 0.5, "lower": 0.5}
    # Of shares it is their difference: 1 of 4 and 3 of 4.
    assert distances(values(0, 0, 0, 1), values(0, 1, 1, 1))["higher"] == 0.5


def test_the_critical_distance_is_that_of_the_tables():
    # The tables give 1.36 sqrt((n + m) / (n m)) at 5% and 1.95 at 0.1%: here times sqrt(0.02).
    assert critical_distance(100, 100, 0.05) == pytest.approx(1.358 * 0.02**0.5, abs=1e-4)
    # sqrt(-ln(0.0005) / 2 * 200 / 10,000) = sqrt(7.6009 * 0.01)
    assert critical_distance(100, 100) == pytest.approx(0.27570, abs=1e-5)


def test_a_warning_needs_a_difference_that_is_significant_and_large():
    # 20 of 100 and 50 of 100 are 1: 0.3 is above 0.276 and above 0.25.
    before, now = values(*[1] * 20, *[0] * 80), values(*[1] * 50, *[0] * 50)
    figure = compare(KIND, "texts", before, now)
    assert figure is not None
    assert (figure.training, figure.now, figure.distance) == (0.2, 0.5, pytest.approx(0.3))
    assert figure.warning == "texts are longer: 0.5; in training 0.2"
    assert figure.record["warning"] == figure.warning
    lower = compare(KIND, "texts", now, before)
    assert lower is not None
    assert lower.warning == "texts are shorter: 0.2; in training 0.5"
    # The same shares of 50 texts are not significant: the critical distance is 0.390.
    few = compare(KIND, "texts", before[::2], now[::2])
    assert few is not None
    assert (few.distance, few.warning) == (pytest.approx(0.3), "")
    # Of 10,000 texts 0.24 is significant, but not large.
    many = compare(KIND, "texts", values(*[1] * 20, *[0] * 80, times=100), values(*[1] * 44, *[0] * 56, times=100))
    assert many is not None
    assert LARGE > many.distance > many.critical
    assert (many.warning, many.record["warning"]) == ("", None)


def test_a_direction_without_a_sentence_or_that_is_not_judged_gives_no_warning():
    before, now = values(0, times=100), values(1, times=100)
    one_way = Kind("unknown", "{:.1f}", {"higher": "are newer"})
    assert [bool(figure and figure.warning) for figure in (
        compare(one_way, "texts", before, now), compare(one_way, "texts", now, before),
        compare(KIND, "texts", before, now, ("lower",)), compare(KIND, "texts", before, now, ("higher",)),
    )] == [True, False, False, True]  # fmt: skip


def test_without_values_there_is_no_figure():
    assert compare(KIND, "texts", values(), values(1)) is None
    assert compare(KIND, "texts", values(1), values()) is None


@given(SAMPLE, SAMPLE, st.randoms(use_true_random=False))
def test_the_order_of_texts_changes_nothing(before, now, random):
    first, second = (np.array(random.sample(list(sample), len(sample))) for sample in (before, now))
    one, other = compare(KIND, "texts", before, now), compare(KIND, "texts", first, second)
    assert one is not None
    assert other is not None
    assert one.record == {**other.record, "training": one.record["training"], "now": one.record["now"]}
    assert (one.training, one.now) == pytest.approx((other.training, other.now))


@given(SAMPLE, st.integers(1, 60))
def test_the_same_texts_any_number_of_times_give_no_warning(sample, times):
    figure = compare(KIND, "texts", sample, np.tile(sample, times))
    assert figure is not None
    assert figure.distance == pytest.approx(0, abs=1e-12)
    assert figure.warning == ""


@given(SAMPLE, SAMPLE)
def test_distances_are_those_of_loops_over_all_values(before, now):
    def share(sample, value):
        return sum(one <= value for one in sample) / len(sample)

    differences = [share(before, value) - share(now, value) for value in range(10)]
    found = distances(before, now)
    assert found["higher"] == pytest.approx(max(0.0, *differences))
    assert found["lower"] == pytest.approx(max(0.0, *(-one for one in differences)))


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_more_texts_show_smaller_differences(training, now):
    assert critical_distance(training + 1, now) < critical_distance(training, now)
    assert critical_distance(training, now, ALPHA / 2) > critical_distance(training, now)
