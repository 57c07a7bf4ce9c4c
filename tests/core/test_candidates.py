"""Orders and candidates: costs, ties and merges, by hand and by law."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.candidates import NO_CANDIDATES, Candidates, Order, unlabelled_candidates

COSINES = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0])
CENTRES = st.sampled_from([-inf, -0.5, 0.3, 0.5, inf])


@st.composite
def candidates(draw, most: int = 30) -> Candidates:
    """Distinct keys in any order, with few different cosines, so that many are equal."""
    keys = draw(st.lists(st.integers(0, 60), unique=True, max_size=most))
    # A pair's cosine is the same wherever it is found.
    cosines = [((key * 7) % 9 - 4) / 4 for key in keys]
    return Candidates(np.array(keys, dtype=np.int64), np.array(cosines, dtype=np.float64))


def test_the_cost_is_the_distance_to_the_centre():
    assert Order(0.5).cost(np.array([0.25, 0.5, 1.0])).tolist() == [0.25, 0.0, 0.5]
    # The boundary may lie outside of what a cosine can be.
    assert Order(2.0).cost(np.array([0.25, 1.0])).tolist() == [1.75, 1.0]


def test_an_infinite_centre_is_the_highest_or_the_lowest_first():
    cosines = np.array([0.2, 0.9, -0.4], dtype=np.float32)
    assert np.argsort(Order(inf).cost(cosines)).tolist() == [1, 0, 2]
    assert np.argsort(Order(-inf).cost(cosines)).tolist() == [2, 0, 1]


@given(st.lists(st.floats(-1, 1, width=16), min_size=2, max_size=10, unique=True))
def test_an_infinite_centre_is_the_limit_of_a_far_one(cosines):
    # So few bits that the difference to 8 keeps them all.
    exact = np.array(cosines, dtype=np.float32)
    for sign in (1, -1):
        far = np.argsort(Order(sign * 8.0).cost(exact), kind="stable")
        assert np.argsort(Order(sign * inf).cost(exact), kind="stable").tolist() == far.tolist()


@given(candidates(), CENTRES, st.integers(0, 35))
def test_the_least_are_the_first_by_cost_then_key(every, centre, count):
    order = Order(centre)
    triples = zip(order.cost(every.cosines).tolist(), every.keys.tolist(), every.cosines.tolist(), strict=True)
    wanted = sorted(triples)[:count]
    least = every.least(order, count)
    assert least.keys.tolist() == [key for _, key, _ in wanted]
    assert least.cosines.tolist() == [cosine for _, _, cosine in wanted]


@given(candidates(), candidates(), CENTRES, st.integers(1, 20))
def test_the_least_of_parts_joined_are_the_least_of_all(one, other, centre, count):
    order = Order(centre)
    whole = one.joined(other).least(order, count)
    parts = one.least(order, count).joined(other.least(order, count)).least(order, count)
    assert parts.keys.tolist() == whole.keys.tolist()
    assert set(one.joined(other).keys.tolist()) == set(one.keys.tolist()) | set(other.keys.tolist())
    assert len(one.joined(one)) == len(one) == len(one.joined(NO_CANDIDATES))


def test_found_pairs_are_distinct_and_new():
    keys = np.array([7, 3, 7, 5, 3])
    fresh = unlabelled_candidates(
        keys, np.array([0.7, 0.3, 0.7, 0.5, 0.3], dtype=np.float32), labelled=np.array([1, 5, 9])
    )
    assert fresh.keys.tolist() == [3, 7]
    assert fresh.cosines == pytest.approx([0.3, 0.7])
    assert fresh.cosines.dtype == np.float64
