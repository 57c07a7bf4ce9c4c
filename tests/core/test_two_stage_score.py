"""The score of two stages: candidates by p and then by cosine, and all other pairs below them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.two_stage_score import MATCHED, TIE, candidate_scores, placed_scores, probabilities_of

COSINES = st.floats(-1, 1, width=32)


def test_equal_p_are_ordered_by_cosine_also_where_p_is_1():
    scores = candidate_scores(np.array([1.0, 1.0, 1.0, 0.0, 0.0]), np.array([0.95, 0.30, 1.0, -1.0, 0.5]))
    assert np.argsort(-scores).tolist() == [2, 0, 1, 4, 3]
    assert scores.max() == 3.0
    assert scores.min() == 2.0


@given(st.floats(0, 1), COSINES, st.floats(0, 1), COSINES)
def test_scores_stay_in_their_range_and_keep_the_order_of_p(p, cosine, q, other):
    one, two = candidate_scores(np.array([p, q]), np.array([cosine, other]))
    assert 2 <= one <= 3
    assert probabilities_of(np.array([one]))[0] == pytest.approx(p, abs=2 * TIE)
    if p > q + 2 * TIE:
        assert one > two


def test_cosines_that_rounding_puts_beyond_1_do_not_leave_the_range():
    assert candidate_scores(np.array([1.0, 0.0]), np.array([1.0000002, -1.0000002])).tolist() == [3.0, 2.0]


def test_a_pair_that_is_no_candidate_keeps_its_cosine_below_all_candidates():
    placed = placed_scores(np.array([7, 3, 5]), np.array([0.9, 1.0, -0.2]), np.array([3, 4]), np.array([2.25, 2.75]))
    assert placed.tolist() == [0.9, 2.25, -0.2]


def test_the_boundary_is_where_p_is_a_half():
    assert MATCHED.boundary == 2.5
    assert MATCHED.has_boundary
    assert MATCHED.probability(np.array([2.5, 3.0, 2.0, 0.9])) == pytest.approx([0.5, 1.0, 0.0, 0.0], abs=2e-6)
