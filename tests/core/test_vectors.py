"""Scores of pairs of vectors: in blocks the same bits as one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.vectors import LENGTH, PAIRS_AT_ONCE, cosines, dots, paired_scores, round_to_halves, squared_distances


@pytest.mark.parametrize("score", [cosines, dots, squared_distances])
@pytest.mark.parametrize("pairs", [0, 1, PAIRS_AT_ONCE, 2 * PAIRS_AT_ONCE + 7])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_scores_in_blocks_have_the_bits_of_each_pair_alone(score, pairs, kind):
    rng = np.random.default_rng(0)
    ones, others = (rng.normal(size=(size, 33)).astype(kind) for size in (40, 50))
    left, right = rng.integers(40, size=pairs), rng.integers(50, size=pairs)
    alone = [score(ones[a][None], others[b][None])[0] for a, b in zip(left, right, strict=True)]
    assert paired_scores(ones, left, others, right, score).tolist() == alone


def test_squared_distances_are_in_float64():
    # In float32 the sum of 1 and 2^-26 is 1.
    assert squared_distances(np.array([[1, 2**-13]], np.float32), np.zeros((1, 2), np.float32)).tolist() == [1 + 2**-26]


def test_paired_scores_are_cosines_of_unit_vectors():
    ones = np.array([[1, 0], [0.6, 0.8]], np.float32)
    found = paired_scores(ones, np.array([0, 1]), ones, np.array([1, 1]))
    assert found == pytest.approx([0.6, 1.0], abs=1e-6)


def drawn(seed: int, dimension: int, count: int = 50) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@given(st.integers(0, 2**32 - 1), st.sampled_from([64, 384, 768]), st.sampled_from([np.float32, np.float16]))
def test_equal_vectors_have_the_cosine_1_and_none_leaves_its_range(seed, dimension, kind):
    vectors = drawn(seed, dimension)
    # As of the same texts in another batch: the last bit of each number is another.
    again = np.nextafter(vectors, np.float32(np.random.default_rng(seed).choice([-1.0, 1.0])))
    if kind == np.float16:
        vectors, again = round_to_halves(vectors), round_to_halves(again)
    raw = dots(vectors, vectors)
    assert (raw != 1).any()
    assert np.abs(raw - 1).max() < LENGTH
    assert cosines(vectors, vectors).tolist() == [1.0] * len(vectors)
    if kind == np.float32:
        assert cosines(vectors, again).tolist() == [1.0] * len(vectors)
    opposite = cosines(vectors, -vectors)
    assert opposite.min() >= -1
    assert opposite == pytest.approx(-1)


def test_near_vectors_are_not_equal():
    # At an angle t: 1 - cos t = t^2 / 2, which is 5e-9 at t = 1e-4. The length of 1.0000001 is divided out.
    one = np.array([[1.0000001, 0.0]], np.float32)
    other = np.array([[1.0, 1e-4]], np.float32)
    assert 1 - cosines(one, other)[0] == pytest.approx(5e-9, rel=1e-3)
    # Below 1 - 2^-9 the inner product is the cosine as it is.
    assert cosines(one, np.array([[0.6, 0.8]], np.float32))[0] == np.float64(np.float32(1.0000001)) * np.float32(0.6)


def test_vectors_in_16_bits_keep_their_length_and_are_one_step_away_at_most():
    vectors = drawn(0, 384)
    halves, nearest = round_to_halves(vectors), vectors.astype(np.float16)
    assert np.abs(dots(nearest, nearest) - 1).max() > 1e-5
    assert np.abs(dots(halves, halves) - 1).max() < 1e-7
    steps = np.abs(halves.view(np.int16).astype(np.int32) - nearest.view(np.int16))
    assert steps.max() == 1
    assert steps.sum(axis=1).max() < 64
    assert round_to_halves(np.zeros((1, 4), np.float32)).tolist() == [[0.0] * 4]
    assert round_to_halves(np.zeros((0, 4), np.float32)).shape == (0, 4)
