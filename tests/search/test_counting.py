"""Sampled pairs scored in float32: every count is that of float64."""

import numpy as np
import pytest

from al_ray.core.candidates import MARGIN
from al_ray.core.pairs import as_pairs
from al_ray.core.scorer import Scorer
from al_ray.core.vectors import Block, paired_scores
from al_ray.metrics.average_precision import counts_above
from al_ray.metrics.bootstrap import QueryBootstrap
from al_ray.metrics.estimator import CountRequest, count_sample
from al_ray.search import counting
from al_ray.search.counting import SampleCounter, SampleWeights, score_pairs


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


@pytest.mark.parametrize("wanted", [0, 5, 200])
def test_places_of_few_and_of_many_rows_are_the_same(wanted):
    rng = np.random.default_rng(1)
    rows = np.sort(rng.permutation(5000)[:1000])
    places = rng.integers(1000, size=wanted)
    assert counting._places(rows, rows[places]).tolist() == places.tolist()
    assert counting._places(rows[:0], rows[:0]).tolist() == []


@pytest.mark.parametrize("at_a_time", [1, 70, 10**6])
def test_a_sample_is_counted_the_same_however_many_pairs_at_a_time(monkeypatch, at_a_time):
    rng, width = np.random.default_rng(2), 50
    cosines, thresholds = rng.uniform(-1, 1, 400), np.linspace(0.9, -0.5, 30)
    keys = np.sort(rng.permutation(width * width)[:400])
    request = CountRequest(thresholds, QueryBootstrap(np.arange(width), True, thresholds[::3]), compared=True)
    weights, scorer = SampleWeights(width, (2.5, 1.0)), Scorer(9.0, -3.0)
    whole = [
        count_sample(request, of, as_pairs(*np.divmod(of, width)), scores, scorer.logit(scores), weight)
        for of, scores, weight in ((keys, cosines, 2.5), (keys[:0], cosines[:0], 1.0))
    ]
    monkeypatch.setattr(counting, "COUNTED", at_a_time)
    counter = SampleCounter(request, weights, scorer)
    for start in range(0, 400, 30):
        counter.add(0, keys[start : start + 30], cosines[start : start + 30])
    for found, expected in zip(counter.result(), whole, strict=True):
        assert found.above.tolist() == expected.above.tolist()
        assert found.replicates.tolist() == expected.replicates.tolist()
        np.testing.assert_array_equal(found.resampled, expected.resampled)
        for name in ("weight", "confidence", "positives", "squares"):
            # Sums in another order.
            ours, theirs = (getattr(one.reliability, name) for one in (found, expected))
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
