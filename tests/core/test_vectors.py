"""Scores of pairs of vectors: in blocks the same bits as one by one."""

import numpy as np
import pytest

from al_ray.core.vectors import PAIRS_AT_ONCE, dots, paired_scores, squared_distances


@pytest.mark.parametrize("score", [dots, squared_distances])
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
