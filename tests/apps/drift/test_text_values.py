"""Values of texts and pairs: words and distances worked by hand, a slow twin, and laws."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.apps.drift import text_values
from al_ray.apps.drift.pair_values import SideSample, best_cosines, random_cosines
from al_ray.apps.drift.text_values import (
    MOST_MATCHES,
    count_texts,
    distance_to,
    distance_within,
    unknown_in_training,
    unknown_shares,
    words_of,
)
from al_ray.core.rng import generator

TRAINING = ["red tent", "Red tent!", "blue rope, 60 m"]
SEEDS = st.integers(0, 2**32 - 1)


def units(seed: int, count: int, dimension: int = 4) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def at_angles(*degrees: float) -> np.ndarray:
    radians = np.radians(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


def test_words_are_counted_by_text():
    assert words_of("Ørn-socks, x_1 60m ß") == ["ørn", "socks", "x_1", "60m", "ß"]
    assert count_texts(TRAINING) == Counter(red=2, tent=2, blue=1, rope=1, m=1, **{"60": 1})
    assert count_texts(["tent tent"]) == Counter(tent=1)


def test_the_share_of_unknown_words_of_a_text():
    known = count_texts(TRAINING)
    # green is unknown; of "a green tent a" the words a, green and a; no word at all.
    shares = unknown_shares(["Red ROPE", "green tent", "a green tent a", "?!"], known)
    assert shares.tolist() == [0, 1 / 2, 3 / 4, 0]


def test_a_training_text_is_unknown_where_only_it_and_its_matches_have_a_word():
    known, none, first_two = count_texts(TRAINING), np.array([], dtype=int), (np.array([1]), np.array([0]))
    # Each word of the first two is in the other one, and no word of the third is in another text.
    assert unknown_in_training(TRAINING, known, [none] * 3).tolist() == [0, 0, 1]
    # If these two match, both their words are unknown without them.
    assert unknown_in_training(TRAINING, known, [*first_two, none]).tolist() == [1, 1, 1]
    # A fourth text, which was counted and is not in the sample, has the words too.
    assert unknown_in_training(TRAINING, known + Counter(red=1), [*first_two, none]).tolist() == [0.5, 0.5, 1]


def test_the_distance_to_the_nearest_training_text():
    # cos 30 degrees and cos 0; without training texts nothing is near.
    found = distance_to(at_angles(0, 90), at_angles(30, 90))
    assert found == pytest.approx([1 - 3**0.5 / 2, 0], abs=1e-6)
    assert np.isinf(distance_to(at_angles()[:0], at_angles(30))).all()


def test_matches_of_a_training_text_are_left_out():
    # The first two match at 10 degrees; 60 and 50 degrees lie between them and the third.
    training, boundary = at_angles(0, 10, 60), float(np.cos(np.radians(20)))
    distances, matches = distance_within(training, boundary)
    assert distances == pytest.approx(1 - np.cos(np.radians([60, 50, 50])), abs=1e-6)
    assert [one.tolist() for one in matches] == [[1], [0], []]
    # Without a boundary only the text itself is left out.
    distances, matches = distance_within(training, np.inf)
    assert distances == pytest.approx(1 - np.cos(np.radians([10, 10, 50])), abs=1e-6)
    assert [len(one) for one in matches] == [0, 0, 0]
    # If all match there is no distance, and a text alone has none.
    assert np.isnan(distance_within(training, -1.0)[0]).all()
    assert np.isnan(distance_within(training[:1], 0.5)[0]).all()


def test_at_most_ten_matches_are_left_out():
    count = MOST_MATCHES + 5
    distances, matches = distance_within(at_angles(*range(count)), -1.0)
    assert {len(one) for one in matches} == {MOST_MATCHES}
    # The eleventh nearest of the first is at 11 degrees.
    assert distances[0] == pytest.approx(1 - np.cos(np.radians(MOST_MATCHES + 1)), abs=1e-6)


@given(SEEDS, st.integers(1, 12), st.floats(-0.5, 1))
def test_distances_are_those_of_loops_whatever_the_block(seed, count, boundary):
    training, new = units(seed, count), units(seed + 1, 7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_values, "BLOCK", 3)
        within, matches = distance_within(training, boundary)
        found = distance_to(training, new)
    assert found == pytest.approx([1 - max(float(one @ other) for other in training) for one in new], abs=1e-6)
    for row, one in enumerate(training):
        cosines = sorted(((float(one @ other), place) for place, other in enumerate(training) if place != row))[::-1]
        near = [place for cosine, place in cosines if cosine >= boundary][:MOST_MATCHES]
        left = [cosine for cosine, place in cosines if place not in near]
        assert sorted(matches[row].tolist()) == sorted(near)
        assert within[row] == pytest.approx(1 - left[0] if left else np.nan, abs=1e-6, nan_ok=True)


@given(SEEDS, st.permutations(range(9)))
def test_the_order_of_training_texts_changes_no_distance(seed, order):
    training, new, order = units(seed, 9), units(seed + 1, 5), np.array(order)
    assert distance_to(training[order], new) == pytest.approx(distance_to(training, new), abs=1e-6)
    within = distance_within(training, 0.6)[0]
    assert distance_within(training[order], 0.6)[0] == pytest.approx(within[order], abs=1e-6, nan_ok=True)


def sample(rows, vectors) -> SideSample:
    return SideSample(np.array(rows), vectors[np.array(rows)], len(vectors))


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("ruled", [False, True])
def test_pairs_are_those_that_can_match(make_task, make_ruled, symmetric, ruled):
    task = (make_ruled if ruled else make_task)(symmetric)
    rng = np.random.default_rng(0)
    vectors = units(1, len(task.left)), units(1 if symmetric else 2, len(task.right))
    left = sample(rng.permutation(len(task.left))[:17], vectors[0])
    right = left if symmetric else sample(rng.permutation(len(task.right))[:11], vectors[1])
    cosine = {
        (one, other): float(vectors[0][one].astype(float) @ vectors[1][other].astype(float))
        for one in left.rows.tolist()
        for other in right.rows.tolist()
        if (one != other or not symmetric)
        and (task.rule is None or task.rule.allows(np.array([[one, other]]))[0])
    }  # fmt: skip
    best = [
        max((value for pair, value in cosine.items() if pair[0] == row), default=None) for row in left.rows.tolist()
    ]
    assert best_cosines(task, left, right) == pytest.approx([one for one in best if one is not None], abs=1e-6)
    unordered = sorted(value for (one, other), value in cosine.items() if one < other or not symmetric)
    every = random_cosines(task, left, right, 10_000, generator(0, "test"))
    assert sorted(every) == pytest.approx(unordered)
    few = random_cosines(task, left, right, 20, generator(0, "test"))
    assert len(few) == 20
    assert np.isclose(few[:, None], np.array(unordered)[None, :], atol=1e-12).any(axis=1).all()
