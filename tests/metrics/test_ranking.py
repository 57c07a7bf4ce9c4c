"""Batches of pairs and the figures of paraphrase retrieval, against values worked by hand and slow, obvious twins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.apps.papers.paraphrase.batching import random_batches, random_negative_pairs, separate_batches
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.text import same_text, words_of
from al_ray.metrics.labelled_pairs import LabelledScores, clean_mrr
from al_ray.metrics.ranking import (
    exclude_queries,
    first_match_ranks,
    mean_reciprocal_rank,
    precision_at,
    queries_with_matches,
    roc_auc,
)
from al_ray.search.merge import merge_neighbors, recall

COMPONENTS = st.lists(st.integers(0, 6), min_size=2, max_size=60).filter(lambda drawn: len(set(drawn)) > 1)


@given(component=COMPONENTS, size=st.integers(2, 9), seed=st.integers(0, 99))
def test_no_batch_holds_two_pairs_of_one_component_and_no_pair_comes_twice(component, size, seed):
    component = np.array(component)
    batches = separate_batches(component, size, np.random.default_rng(seed))
    assert {len(batch) for batch in batches} == {min(size, len(set(component.tolist())))}
    assert all(len(set(component[batch].tolist())) == len(batch) for batch in batches)
    dealt = np.concatenate(batches)
    assert len(set(dealt.tolist())) == len(dealt)


def test_as_many_batches_are_dealt_as_can_be():
    # 4 pairs of component 0 and one each of 1, 2, 3: three batches of 2 take three of 0's.
    batches = separate_batches(np.array([0, 0, 0, 0, 1, 2, 3]), 2, np.random.default_rng(0))
    assert len(batches) == 3
    # With two pairs of other components there are two such batches, and two pairs of 0 wait for another epoch.
    batches = separate_batches(np.array([0, 0, 0, 0, 1, 2]), 2, np.random.default_rng(0))
    assert len(batches) == 2


def test_every_pair_of_a_large_component_has_its_turn_over_the_epochs():
    component, rng = np.array([0] * 9 + [1, 2, 3]), np.random.default_rng(1)
    seen = {int(row) for _ in range(60) for batch in separate_batches(component, 2, rng) for row in batch}
    assert seen == set(range(12))


def test_shuffled_batches_hold_each_pair_once_but_for_a_last_partial_batch():
    batches = random_batches(np.arange(11), 4, np.random.default_rng(0))
    assert [len(batch) for batch in batches] == [4, 4]
    assert len(set(np.concatenate(batches).tolist())) == 8
    assert [len(batch) for batch in random_batches(np.zeros(3, dtype=np.int64), 512, np.random.default_rng(0))] == [3]


def test_a_batch_without_a_negative_is_refused():
    with pytest.raises(BadOption, match="two pairs of different clusters"):
        separate_batches(np.array([5, 5, 5]), 2, np.random.default_rng(0))
    with pytest.raises(BadOption, match="two pairs"):
        random_batches(np.arange(1), 2, np.random.default_rng(0))


def test_precision_and_reciprocal_rank_are_those_worked_by_hand():
    found = np.array([[4, 5, 6], [4, 5, 6], [4, 5, -1], [4, -1, -1]])
    matches = np.array([[True, False, True], [False, False, True], [False, False, True], [False, True, True]])
    ranks = first_match_ranks(found, matches)
    # The marks in places where nothing was found do not count.
    assert ranks.tolist() == [1, 3, 0, 0]
    assert precision_at(ranks, 1) == 1 / 4
    assert precision_at(ranks, 2) == 1 / 4
    assert precision_at(ranks, 3) == 2 / 4
    assert mean_reciprocal_rank(ranks) == pytest.approx((1 + 1 / 3) / 4)


@given(
    positives=st.lists(st.integers(0, 5), min_size=1, max_size=20),
    negatives=st.lists(st.integers(0, 5), min_size=1, max_size=20),
)
def test_roc_auc_is_the_share_of_pairs_in_the_right_order_with_ties_half(positives, negatives):
    pairs = [(one > other) + (one == other) / 2 for one in positives for other in negatives]
    assert roc_auc(np.array(positives, float), np.array(negatives, float)) == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize(("positives", "negatives"), [([1.0, np.nan], [0.0]), ([1.0], [np.nan, 0.0])])
def test_a_score_that_is_no_number_has_no_roc_auc(positives, negatives):
    with pytest.raises(BadFile, match="1 of 2 scores are not numbers"):
        roc_auc(np.array(positives), np.array(negatives))


def test_unrelated_pairs_are_of_different_components():
    component = np.array([0, 0, 0, 1, 2])
    pairs = random_negative_pairs(component, 500, np.random.default_rng(0))
    assert (component[pairs[:, 0]] != component[pairs[:, 1]]).all()
    # 1 - (9 + 1 + 1) / 25 of all draws: 280 of 500.
    assert 240 < len(pairs) < 320


def test_texts_that_differ_in_case_and_space_alone_are_the_same():
    assert same_text(["Who is  it?", "who is it? ", "Who is he?"]).tolist() == [0, 0, 1]


def test_words_are_runs_of_letters_and_digits_and_each_other_sign():
    assert words_of("What's C++ 17?") == ["what", "'", "s", "c", "+", "+", "17", "?"]


def test_the_query_and_its_very_text_under_another_row_are_no_answer():
    # Rows 0 and 3 are one text. Query 0 finds itself, 3, 2; query 2 finds itself, 0 and then nothing.
    same = np.array([0, 1, 2, 0])
    found = exclude_queries(np.array([[0, 3, 2], [2, 0, -1]]), np.array([0, 2]), same, 2)
    assert found.tolist() == [[2, -1], [0, -1]]


def test_a_question_is_asked_when_another_text_is_its_paraphrase():
    # Component 0: rows 0 and 1 of two texts; 1: rows 2 and 3 of one text; 2: row 4 alone.
    component, same = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 2, 2, 3])
    assert queries_with_matches(component, same, np.arange(5)).tolist() == [0, 1]
    assert queries_with_matches(component, same, np.array([1, 4])).tolist() == [1]


def test_what_parts_found_is_merged_by_distance_and_then_place():
    one = np.array([[0.5, 2.0]], dtype=np.float32), np.array([[4, 1]])
    other = np.array([[2.0, np.inf]], dtype=np.float32), np.array([[0, -1]])
    apart, places = merge_neighbors([one, other], 3, "l2")
    assert apart.tolist() == [[0.5, 2.0, 2.0]]
    assert places.tolist() == [[4, 0, 1]]
    assert merge_neighbors([one, other], 9, "l2")[1].tolist() == [[4, 0, 1, -1]]


def test_recall_by_hand():
    # Of 0.9 and 0.8 the first is found, and then one that is too far; of the only one, that one.
    truth = np.array([[0.9, 0.8], [0.5, -np.inf]])
    assert recall(np.array([[0.9, 0.7], [0.5, -np.inf]]), truth, 1e-6) == pytest.approx(2 / 3)
    assert recall(np.array([[0.9, 0.7], [0.5, -np.inf]]), truth, np.array([[0.11], [0.0]])) == 1
    assert recall(np.array([[0.9, 0.8], [0.5, 0.4]]), truth, 0.0) == 1
    assert recall(np.full((2, 2), -np.inf), truth, 1e-6) == 0


def test_both_searches_and_labelled_pairs_have_one_mrr():
    # Among equal scores the negative is first: query 0 has its positive at rank 2, query 1 at rank 1: (1/2 + 1) / 2.
    pairs = LabelledScores(np.array([0.5, 0.5, 0.9, 0.1]), np.array([1, 0, 1, 0], np.uint8), np.array([0, 0, 1, 1]))
    assert clean_mrr(pairs) == mean_reciprocal_rank(np.array([2, 1])) == pytest.approx(3 / 4)
