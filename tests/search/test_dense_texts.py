"""Dense texts: who is one, and which candidates it has, as sorted lists say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.search.candidate_ranks import NearestOf
from al_ray.search.dense_texts import (
    SAMPLED,
    SHARE,
    STEPS,
    added_scores,
    count_steps,
    kth_scores,
    near_ones,
    reaching,
    sampled,
    threshold_of,
)

# Rows 3, 5 and 9: three, two and no neighbours.
NEAR = NearestOf(
    np.array([3, 5, 9]), np.array([0, 1, 0, 0, 1]), np.array([5, 3, 8, 2, 9]), np.array([0.5, 0.5, 0.9, 0.7, 0.25])
)


def test_the_kth_score_of_a_text():
    assert kth_scores(NEAR, 2).tolist() == [0.7, 0.25, -np.inf]
    assert kth_scores(NEAR, 3).tolist() == [0.5, -np.inf, -np.inf]


def test_the_near_ones_of_a_text_reach_the_threshold_and_are_no_more_than_asked_for():
    every = near_ones(NEAR, 0.5, 3, symmetric=False)
    assert [(int(every.rows[line]), int(other)) for line, other in zip(every.lines, every.partners, strict=True)] == [
        (3, 8), (3, 2), (3, 5), (5, 3),
    ]  # fmt: skip
    assert near_ones(NEAR, 0.5, 1, symmetric=False).partners.tolist() == [8, 3]
    assert near_ones(NEAR, 0.5000001, 3, symmetric=False).scores.tolist() == [0.9, 0.7]


def test_in_one_set_of_texts_a_pair_is_of_the_later_text():
    found = near_ones(NEAR, 0.5, 3, symmetric=True)
    assert (found.lines.tolist(), found.partners.tolist()) == ([0, 1], [2, 3])


def test_what_a_threshold_adds_is_beyond_the_nearest_that_are_candidates_anyway():
    assert added_scores(NEAR, 0.25, 1, 3, symmetric=False).tolist() == [0.7, 0.5, 0.25]
    assert added_scores(NEAR, 0.5, 1, 3, symmetric=False).tolist() == [0.7, 0.5]
    assert added_scores(NEAR, 0.25, 1, 2, symmetric=False).tolist() == [0.7, 0.25]
    # Row 2 is before row 3, and rows 5 and 9 are not.
    assert added_scores(NEAR, 0.25, 0, 3, symmetric=True).tolist() == [0.7, 0.5]
    assert added_scores(NEAR, 0.25, 2, 3, symmetric=True).tolist() == []


@pytest.mark.parametrize("texts", [0, 3, SAMPLED])
def test_of_few_texts_all_are_looked_at(texts):
    assert sampled(np.arange(texts), texts).all()


def test_of_many_texts_a_sample_is_looked_at_which_each_shard_knows_of_its_own():
    texts = 4 * SAMPLED
    taken = sampled(np.arange(texts), texts)
    assert 0.9 * SAMPLED < taken.sum() < 1.1 * SAMPLED
    assert (sampled(np.arange(5, texts, 3), texts) == taken[5::3]).all()


def test_where_too_many_texts_are_alike_the_threshold_is_the_last_step_below_one():
    assert threshold_of(count_steps(np.ones(10)), 0.5) == 1 - 1 / STEPS
    assert threshold_of(count_steps(np.array([])), 0.0) == -1.0


@pytest.mark.parametrize(("dense", "expected"), [(1, 0.25 + 1 / STEPS), (2, 0.75 + 1 / STEPS)])
def test_a_twentieth_of_the_texts_is_dense(dense, expected):
    kth = np.array([0.75] * dense + [0.25] * (20 - dense))
    assert threshold_of(count_steps(kth), SHARE * 20) == expected


@given(st.lists(st.floats(-1.0, 1.0) | st.just(-np.inf), max_size=60))
def test_the_threshold_is_the_lowest_step_that_few_texts_reach(kth):
    scores = np.array(kth)
    least = threshold_of(count_steps(scores), SHARE * len(kth))
    reach = [sum(one >= step / STEPS for one in kth) for step in range(-STEPS, STEPS)]
    few = [step for step, count in zip(range(-STEPS, STEPS), reach, strict=True) if count <= SHARE * len(kth)]
    assert least == (few[0] / STEPS if few else 1 - 1 / STEPS)
    assert reaching(count_steps(scores), least) == sum(one >= least for one in kth)


@given(st.lists(st.floats(-1.0, 1.0), max_size=40), st.integers(0, 40))
def test_counts_of_shards_add_up(kth, cut):
    scores = np.array(kth)
    assert (count_steps(scores) == count_steps(scores[:cut]) + count_steps(scores[cut:])).all()
