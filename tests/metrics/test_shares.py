"""Wilson's interval against the quadratic equation that defines it, and counts to come against a simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.metrics.shares import Z, next_count, share_estimate, wilson


def test_a_share_by_hand():
    # 18 of 60: centre (18 + 1.92073) / (60 + 3.84146) = 0.312034, and to each side
    # 1.959964 * sqrt(18 * 42 / 60 + 0.960365) / 63.84146 = 0.113053.
    share = share_estimate(18, 60)
    assert (share.value, share.low, share.high) == pytest.approx((0.3, 0.198982, 0.425087), abs=1e-6)


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_at_a_limit_the_observed_share_lies_z_standard_errors_away(drawn):
    count, n = drawn
    for limit in wilson(count, n):
        assert (count / n - limit) ** 2 == pytest.approx(Z**2 * limit * (1 - limit) / n, rel=1e-6, abs=1e-8 / n**2)
    share = share_estimate(count, n)
    assert 0 <= share.low <= share.value <= share.high <= 1


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.integers(1, 300))
def test_a_count_to_come_is_one_that_can_be_and_holds_the_expected_one(drawn, size):
    count, n = drawn
    low, high = next_count(count, n, size)
    assert 0 <= low <= count / n * size <= high <= size


def test_a_count_to_come_holds_nineteen_of_twenty_simulated_ones():
    rng = np.random.default_rng(0)
    held = []
    for share in (0.05, 0.3, 0.9):
        for count, later in zip(rng.binomial(60, share, 2000), rng.binomial(100, share, 2000), strict=True):
            low, high = next_count(int(count), 60, 100)
            held.append(low <= later <= high)
    assert 0.94 <= np.mean(held) <= 0.99
