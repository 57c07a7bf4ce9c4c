"""How near left texts lie to all right ones: values by hand, and the same bits in any order."""

import numpy as np
import pytest

from al_ray.core.nearest_means import NearestMeans
from al_ray.core.neighbourhood import NEIGHBOURS, mean_of_nearest, means_in


def test_the_mean_is_of_the_highest_few_of_each_text():
    cosines = np.array([0.5, 0.25, 1.0, -0.5, 0.75, 0.125])
    lines = np.array([0, 0, 2, 0, 2, 0])
    # Text 0: 0.5, 0.25 and 0.125 of four; text 1 has no pair; text 2 two pairs alone.
    assert mean_of_nearest(cosines, lines, 3, 3).tolist() == [0.875 / 3, 0.0, 0.875]


def test_the_mean_has_the_same_bits_in_any_order():
    rng = np.random.default_rng(0)
    cosines, lines = rng.uniform(-1, 1, 4000), rng.integers(50, size=4000)
    whole = mean_of_nearest(cosines, lines, 50)
    for _ in range(5):
        order = rng.permutation(4000)
        assert mean_of_nearest(cosines[order], lines[order], 50).tolist() == whole.tolist()
    assert whole == pytest.approx([np.sort(cosines[lines == line])[-NEIGHBOURS:].mean() for line in range(50)])


@pytest.mark.parametrize("texts", [0, 3, 5, 40])
def test_the_means_in_a_collection_are_those_of_its_nearest(monkeypatch, texts):
    rng = np.random.default_rng(1)
    every, vectors = (rng.normal(size=(size, 8)).astype(np.float32) for size in (texts, 7))
    means = means_in(every, vectors)
    monkeypatch.setattr("al_ray.core.neighbourhood.ROWS", 2)
    monkeypatch.setattr("al_ray.core.neighbourhood.COLUMNS", 3)
    assert means_in(every, vectors) == pytest.approx(means)
    if not texts:
        assert means.tolist() == [0.0] * 7
        return
    cosines = vectors.astype(np.float64) @ every.T.astype(np.float64)
    assert means == pytest.approx(np.sort(cosines, axis=1)[:, -NEIGHBOURS:].mean(axis=1))


def test_means_of_parts_join_and_are_looked_up_by_row():
    joined = NearestMeans(np.array([2, 9]), np.array([0.2, 0.9])).joined(
        NearestMeans(np.array([5]), np.array([0.5])), NearestMeans(np.array([], dtype=np.int64), np.array([]))
    )
    assert joined.rows.tolist() == [2, 5, 9]
    assert joined.of(np.array([9, 5, 9, 2])).tolist() == [0.9, 0.5, 0.9, 0.2]
