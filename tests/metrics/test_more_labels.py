"""The guess of what more labels bring, by hand and as laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.metrics.more_labels import (
    LABELLED_TEXTS,
    OTHER_TEXTS,
    GuessRule,
    continued,
    fit_rule,
    guess_more_labels,
    power_between,
    rule_of,
)

RULE = GuessRule(usual=0.25, most=0.5, right=3, guesses=4)


def test_the_odds_grow_as_a_power_of_labels():
    # 100 times the labels: odds of 4 become 4 * 100**0.25 = 12.649, and at the high end 4 * 100**0.5 = 40.
    guess = guess_more_labels(10, 0.8, RULE)
    assert (guess.target, guess.low) == (1000, 0.8)
    assert (guess.estimate, guess.high) == pytest.approx((12.6491 / 13.6491, 40 / 41), abs=1e-6)
    assert power_between(10, 0.8, 1000, 40 / 41) == pytest.approx(0.5)
    # As many labels as there are bring nothing, not even by rounding.
    for now in np.linspace(0, 1, 1001).tolist():
        assert guess_more_labels(10, now, RULE, 10).high == now


def test_labels_that_have_brought_nothing_are_expected_to_bring_nothing():
    for untrained in (0.8, 0.9):
        guess = guess_more_labels(10, 0.8, RULE, untrained=untrained)
        assert (guess.estimate, guess.high) == (0.8, pytest.approx(40 / 41))
    assert guess_more_labels(10, 0.8, RULE, untrained=0.79).estimate == guess_more_labels(10, 0.8, RULE).estimate


def test_the_target_is_ten_times_what_there_is_beyond_the_usual_one():
    assert [guess_more_labels(labels, 0.5, RULE).target for labels in (1, 999, 1000, 2048)] == [
        1000,
        1000,
        10000,
        20480,
    ]


def test_the_words_say_where_it_stands_and_how_often_it_was_right():
    assert guess_more_labels(10, 0.8, RULE, untrained=0.416).words == (
        "guess: 1,000 labels bring AP 80.0 to 97.6, about 92.7 (now 80.0 with 10, 41.6 without any); "
        "a rule of thumb, right for 3 of 4 guesses on other tasks (docs/more-labels.md)"
    )
    assert guess_more_labels(1000, 0.8, RULE).words.startswith("guess: 10,000 labels bring AP 80.0 to ")
    assert "a rule of thumb, not checked beyond 1,000 labels" in guess_more_labels(1000, 0.8, RULE).words


@pytest.mark.parametrize(
    ("now", "untrained", "little"),
    [
        # Ten times the odds: 0.9989 is 0.0099 more, and 0.9988 is 0.0108 more.
        (0.989, None, True),
        (0.988, None, False),
        (1.0, None, True),
        # The high end is 0.9756: no more than without labels, or just more.
        (0.8, 0.976, True),
        (0.8, 0.975, False),
    ],
)
def test_it_may_say_little(now, untrained, little):
    guess = guess_more_labels(10, now, RULE, untrained=untrained)
    assert guess.little == little
    assert ("labels bring little: AP " in guess.words) == little


@pytest.mark.parametrize(("labels", "now", "target"), [(0, 0.5, 10), (20, 0.5, 10), (10, -0.1, 20), (10, 1.1, 20)])
def test_other_numbers_are_refused(labels, now, target):
    with pytest.raises(ValueError, match=f"{labels} labels"):
        guess_more_labels(labels, now, RULE, target)


shares = st.floats(0.0, 1.0)
counts = st.integers(1, 10**6)


@given(counts, shares, st.lists(counts, min_size=2, max_size=2), st.sampled_from([RULE, LABELLED_TEXTS, OTHER_TEXTS]))
def test_a_range_is_in_order_and_more_labels_never_bring_less(labels, now, more, rule):
    fewer, many = (guess_more_labels(labels, now, rule, labels + one) for one in sorted(more))
    for one in (fewer, many):
        assert 0.0 <= now == one.low <= one.estimate <= one.high <= 1.0
    assert fewer.estimate <= many.estimate
    assert fewer.high <= many.high


@given(counts, st.floats(0.01, 0.99), st.integers(2, 1000), st.floats(0.0, 1.0))
def test_a_curve_that_follows_the_rule_gives_its_power(labels, now, times, power):
    then = continued(labels, now, labels * times, power)
    assert power_between(labels, now, labels * times, then) == pytest.approx(power, abs=1e-6)


def test_a_rule_is_fitted_on_means_of_tasks():
    # 0.2 and 0.4: 0.3 on average; 2 * 0.4.
    rule = fit_rule({"one": [0.1, 0.3], "other": [0.4]})
    assert (rule.usual, rule.most) == pytest.approx((0.3, 0.8))
    # Curves that fall.
    assert fit_rule({"one": [-0.1], "other": [-0.2, -0.4]}) == GuessRule(0.0, 0.0)


def test_each_split_has_its_rule():
    assert (rule_of("train"), rule_of("dev"), rule_of("test")) == (LABELLED_TEXTS, OTHER_TEXTS, OTHER_TEXTS)
