"""AP and F1 of a ranking of all pairs: worked by hand, and as slow loops have them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.records.pair_figures import StatedPairs, Truth, best_threshold, first_of_each

# In order: .9 match, .8, .7, .6 match, .5, .4 match, .3, .2, .1
SCORES = np.array([[0.9, 0.8, 0.1], [0.7, 0.6, 0.2], [0.5, 0.3, 0.4]])
EVERY = np.ones((3, 3), dtype=bool)
TRUTH = Truth(np.eye(3, dtype=bool), EVERY, False)


def test_average_precision_by_hand():
    assert TRUTH.average_precision(SCORES) == pytest.approx((1 + 2 / 4 + 3 / 6) / 3)


def test_average_precision_over_unlabelled_pairs_by_hand():
    labelled = np.zeros((3, 3), dtype=bool)
    labelled[0, 1] = labelled[1, 1] = True
    # What is left: .9 match, .7, .5, .4 match.
    assert TRUTH.without(labelled).average_precision(SCORES) == pytest.approx((1 + 2 / 4) / 2)


def test_the_best_f1_by_hand():
    # Of the six highest pairs three are right: 2 * 3 / (6 + 3).
    best = TRUTH.best_f1(SCORES)
    assert (best.f1, best.threshold) == (pytest.approx(2 / 3), 0.4)


def test_the_best_f1_one_to_one_by_hand():
    # .9 is taken; .8 and .7 have one of its texts; .6 is taken; .5 has a text of .9; .4 is taken.
    best = TRUTH.best_f1(SCORES, one_to_one=True)
    assert (best.f1, best.threshold) == (1.0, 0.4)


def test_f1_at_a_threshold_by_hand():
    assert TRUTH.f1_at(SCORES, 0.6) == pytest.approx(2 * 2 / (4 + 3))
    assert TRUTH.f1_at(SCORES, 0.6, one_to_one=True) == pytest.approx(2 * 2 / (2 + 3))
    assert TRUTH.f1_at(SCORES, 2.0) == 0.0


def test_of_one_set_of_texts_each_is_taken_once_on_either_side():
    # Texts 0, 1, 2: (0, 1) is taken, so (1, 2) is not.
    scores, counted = np.array([[0, 0.9, 0.1], [0, 0, 0.8], [0, 0, 0]]), np.triu(EVERY, 1)
    matches = np.zeros((3, 3), dtype=bool)
    matches[1, 2] = True
    assert Truth(matches, counted, True).best_f1(scores, one_to_one=True).f1 == 0.0
    assert Truth(matches, counted, False).best_f1(scores, one_to_one=True).f1 == pytest.approx(2 / 3)


def test_equal_scores_are_one_threshold():
    # A match alone at the top would have F1 1; its equal comes along.
    assert best_threshold(np.array([0.5, 0.5]), np.array([True, False]), 1).f1 == pytest.approx(2 / 3)
    assert best_threshold(np.empty(0), np.empty(0, dtype=bool), 1).f1 == 0.0


def test_all_that_equal_the_last_pair_looked_at_are_looked_at():
    scores, matches = np.zeros((1, 60)), np.zeros((1, 60), dtype=bool)
    matches[0, 59] = True
    assert Truth(matches, np.ones((1, 60), dtype=bool), False).best_f1(scores).f1 == pytest.approx(2 / 61)


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_figures_are_those_of_slow_loops(seed, symmetric, one_to_one):
    rng = np.random.default_rng(seed)
    lefts, rights = (5, 5) if symmetric else (4, 6)
    scores = rng.integers(0, 6, (lefts, rights)) / 4
    matches = rng.random((lefts, rights)) < 0.3
    counted = rng.random((lefts, rights)) < 0.8
    counted = np.triu(counted, 1) if symmetric else counted
    truth, pairs = Truth(matches, counted, symmetric), [tuple(pair) for pair in np.argwhere(counted).tolist()]
    known = [pair for pair in pairs if matches[pair]]
    ranked, used = [], set()
    for left, right in sorted(pairs, key=lambda pair: (-scores[pair], pair)):
        both = {left, right if symmetric else ("right", right)}
        if not one_to_one or not used & both:
            ranked.append((left, right))
            used |= both
    thresholds = [float(scores[pair]) for pair in ranked]
    values = [0.0]
    for threshold in thresholds:
        found = [pair for pair in ranked if scores[pair] >= threshold]
        values.append(2 * len(set(found) & set(known)) / (len(found) + len(known)))
        assert truth.f1_at(scores, threshold, one_to_one) == pytest.approx(values[-1])
    if known:
        assert truth.best_f1(scores, one_to_one).f1 == pytest.approx(max(values))
        steps = [
            sum(scores[pair] >= scores[own] for pair in known) / sum(scores[pair] >= scores[own] for pair in pairs)
            for own in known
        ]
        assert truth.average_precision(scores) == pytest.approx(np.mean(steps))


def test_what_is_taken_has_no_text_of_what_was_taken_before():
    taken = first_of_each(np.array([0, 0, 1, 2, 2]), np.array([10, 11, 10, 11, 12]))
    assert taken.tolist() == [True, False, False, True, False]


def test_stated_pairs_count_alone():
    stated = StatedPairs(np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([True, False, True]))
    # .9 match, .8 no, .6 match: at .6 two of three are right.
    best = stated.best(SCORES)
    assert (best.f1, best.threshold) == (pytest.approx(0.8), 0.6)
    assert stated.f1(SCORES, 0.7) == pytest.approx(2 / 4)
    labelled = np.zeros((3, 3), dtype=bool)
    labelled[0, 1] = True
    assert stated.f1(SCORES, 0.6, labelled) == 1.0
