"""Sampled pairs scored in float32: every count is that of float64."""

import numpy as np
import pytest

from al_ray.core.candidates import MARGIN
from al_ray.core.vectors import Block, paired_scores
from al_ray.metrics.average_precision import counts_above
from al_ray.search.counting import score_pairs


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_sampled_pairs_reach_the_thresholds_that_they_reach_in_float64(kind):
    vectors = np.random.default_rng(0).normal(size=(300, 48))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(kind)
    block, pairs = Block(np.arange(300), vectors), np.argwhere(np.triu(np.ones((300, 300), bool), 1))
    exact = paired_scores(vectors, pairs[:, 0], vectors, pairs[:, 1])
    # Every hundredth cosine is a threshold: its own pair reaches it, whatever float32 would say.
    thresholds = np.unique(np.concatenate([exact[::100], [-1.0, 1.0]]))[::-1]
    found = score_pairs(block, block, pairs, thresholds)
    assert counts_above(thresholds, found).tolist() == counts_above(thresholds, exact).tolist()
    assert 0 < np.abs(found - exact).max() < MARGIN
