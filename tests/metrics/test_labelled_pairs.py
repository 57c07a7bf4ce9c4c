"""Measures on stated pairs: by hand, by slow twins over every order of equals, and against trec_eval's."""

from itertools import groupby, permutations
from typing import Any

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from al_ray.core.errors import BadFile
from al_ray.metrics.labelled_pairs import (
    LabelledScores,
    accuracy,
    answer_f1,
    best_accuracy,
    best_answer_f1,
    best_f1,
    clean_map,
    clean_mrr,
    f1,
)

ZERO: Any = 0.0  # What scikit-learn says of 0 / 0; its own hint knows only words.
# (query, score, label): few scores, so that they are often equal.
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2).map(float), st.integers(0, 1)), min_size=1, max_size=9)


def stated(*rows: tuple[int, float, int]) -> LabelledScores:
    queries, scores, labels = zip(*rows, strict=True)
    pairs = LabelledScores(np.array(scores, float), np.array(labels, np.uint8), np.array(queries))
    for array in (pairs.scores, pairs.labels, pairs.queries):
        array.setflags(write=False)
    return pairs


# Query 7 has its positives at ranks 1 and 3; 3 its one at rank 2; 5 has no positive; 9 has no negative.
FOUR = (
    (7, 0.9, 1), (7, 0.5, 0), (7, 0.1, 1), (7, -3.0, 0),
    (3, 2.0, 0), (3, 1.0, 1),
    (5, 0.3, 0), (5, -1.0, 0),
    (9, -0.5, 1),
)  # fmt: skip


def test_map_and_mrr_are_over_the_questions_with_both_kinds():
    # 7: (1/1 + 2/3) / 2 = 5/6 and 1; 3: 1/2 and 1/2. 5 and 9 are not clean.
    assert clean_map(stated(*FOUR)) == pytest.approx((5 / 6 + 1 / 2) / 2)
    assert clean_mrr(stated(*FOUR)) == pytest.approx((1 + 1 / 2) / 2)


def test_without_a_clean_question_there_is_no_map():
    pairs = stated((1, 0.5, 1), (2, 0.4, 0))
    assert clean_map(pairs) is None
    assert clean_mrr(pairs) is None


def test_answers_are_the_tops_that_reach_the_threshold():
    # Tops: 7 at 0.9 right, 3 at 2.0 wrong, 5 at 0.3 wrong, 9 at -0.5 right. Three questions have an answer.
    # At 0: three answers, one right: P = 1/3, R = 1/3. At -0.5: four answers, two right: P = 2/4, R = 2/3, F1 = 4/7.
    assert answer_f1(stated(*FOUR), 0.0) == pytest.approx(1 / 3)
    assert answer_f1(stated(*FOUR), -0.5) == pytest.approx(4 / 7)
    found = best_answer_f1(stated(*FOUR))
    assert (found.value, found.threshold) == (pytest.approx(4 / 7), -0.5)


def test_calls_by_hand():
    # At 0: called 0.9 0.5 0.1 2.0 1.0 0.3, of them 3 right; of the others (-3, -1, -0.5) 2 are negatives. 5 of 9 right;
    # TP 3, FP 3, FN 1: F1 = 6 / 10.
    assert accuracy(stated(*FOUR), 0.0) == pytest.approx(5 / 9)
    assert f1(stated(*FOUR), 0.0) == pytest.approx(6 / 10)


def test_calling_nothing_may_be_best():
    pairs = stated((0, 2.0, 0), (0, 1.0, 0), (0, 0.0, 1))
    assert (best_accuracy(pairs).value, best_accuracy(pairs).threshold) == (pytest.approx(2 / 3), np.inf)
    assert (best_f1(stated((0, 1.0, 0))).value, best_f1(stated((0, 1.0, 0))).threshold) == (0.0, np.inf)
    assert f1(stated((0, 1.0, 0)), 2.0) == 0.0


def test_a_scorer_that_says_the_same_of_all_pairs_gains_nothing():
    # The positive of 1 + 9 equals stands last: 1/10, however the rows lie.
    rows = [(0, 0.5, 1), *[(0, 0.5, 0)] * 9]
    for pairs in (stated(*rows), stated(*reversed(rows))):
        assert clean_map(pairs) == clean_mrr(pairs) == pytest.approx(1 / 10)
        assert answer_f1(pairs, 0.5) == 0


def test_no_pair_is_no_measure():
    with pytest.raises(BadFile, match="no labelled pair"):
        LabelledScores(np.empty(0), np.empty(0, np.uint8), np.empty(0, np.int64))


def test_a_score_that_is_no_number_is_no_measure():
    # Sorted last, it would have left the match alone at the top: a MAP of 100%.
    with pytest.raises(BadFile, match="1 of 2 scores are not numbers"):
        LabelledScores(np.array([np.nan, 0.2]), np.array([0, 1], np.uint8), np.array([7, 7]))


def slow(rows: list[tuple[int, float, int]]) -> tuple[list[float], list[float]]:
    """AP and RR of each clean question, the least over every order of its equals."""
    precisions, reciprocals = [], []
    for _, group in groupby(sorted(rows), key=lambda row: row[0]):
        own = [(score, label) for _, score, label in group]
        if {label for _, label in own} != {0, 1}:
            continue
        found = []
        for order in permutations(own):
            if list(order) != sorted(order, key=lambda row: -row[0]):
                continue
            ranks = [rank for rank, (_, label) in enumerate(order, start=1) if label]
            found.append((np.mean([nth / rank for nth, rank in enumerate(ranks, start=1)]), 1 / ranks[0]))
        precisions.append(min(precision for precision, _ in found))
        reciprocals.append(min(reciprocal for _, reciprocal in found))
    return precisions, reciprocals


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 1).map(float), st.integers(0, 1)), min_size=1, max_size=7))
def test_equals_stand_in_their_worst_order(rows):
    precisions, reciprocals = slow(rows)
    if precisions:
        assert clean_map(stated(*rows)) == pytest.approx(np.mean(precisions))
        assert clean_mrr(stated(*rows)) == pytest.approx(np.mean(reciprocals))
    else:
        assert clean_map(stated(*rows)) is None


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_decides_nothing(rows, chance):
    mixed = chance.sample(rows, len(rows))
    for measure in (clean_map, clean_mrr, best_accuracy, best_f1, best_answer_f1):
        assert measure(stated(*rows)) == measure(stated(*mixed))


def slow_answer_f1(rows: list[tuple[int, float, int]], threshold: float) -> float:
    right = answers = 0
    for query in {row[0] for row in rows}:
        score, label = max(((score, -label) for q, score, label in rows if q == query))
        answers += score >= threshold
        right += score >= threshold and label == -1
    answerable = len({query for query, _, label in rows if label})
    if not right:
        return 0.0
    precision, recall = right / answers, right / answerable
    return 2 * precision * recall / (precision + recall)


@given(ROWS)
def test_calls_and_answers_are_their_slow_twins_and_sklearns(rows):
    pairs = stated(*rows)
    thresholds = [np.inf, *sorted({row[1] for row in rows}, reverse=True)]
    for threshold in thresholds:
        called = pairs.scores >= threshold
        assert accuracy(pairs, threshold) == pytest.approx(accuracy_score(pairs.labels, called))
        assert f1(pairs, threshold) == pytest.approx(f1_score(pairs.labels, called, zero_division=ZERO))
        assert answer_f1(pairs, threshold) == pytest.approx(slow_answer_f1(rows, threshold))
    for best, measure in ((best_accuracy, accuracy), (best_f1, f1), (best_answer_f1, answer_f1)):
        values = [measure(pairs, threshold) for threshold in thresholds]
        assert best(pairs).value == pytest.approx(max(values))
        assert best(pairs).threshold == thresholds[values.index(max(values))]


def test_without_equal_scores_map_and_mrr_are_trec_evals():
    rng = np.random.default_rng(0)
    pairs = LabelledScores(
        rng.permutation(600) / 7.0, (rng.random(600) < 0.1).astype(np.uint8), rng.integers(0, 60, 600)
    )
    rows = list(zip(pairs.queries.tolist(), pairs.scores.tolist(), pairs.labels.tolist(), strict=True))
    clean = {q for q, _, _ in rows if {label for other, _, label in rows if other == q} == {0, 1}}
    assert 20 < len(clean) < 60
    own = [(str(q), str(n), score, label) for n, (q, score, label) in enumerate(rows) if q in clean]
    theirs = ir_measures.calc_aggregate(
        [ir_measures.AP, ir_measures.RR],
        [ir_measures.Qrel(q, name, label) for q, name, _, label in own],
        [ir_measures.ScoredDoc(q, name, score) for q, name, score, _ in own],
    )
    assert clean_map(pairs) == pytest.approx(theirs[ir_measures.AP])
    assert clean_mrr(pairs) == pytest.approx(theirs[ir_measures.RR])
