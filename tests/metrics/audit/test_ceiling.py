"""A ceiling of p fitted to labels: by hand, by laws, and against another optimiser of the same likelihood."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from al_ray.core.rng import generator
from al_ray.core.scorer import refit
from al_ray.metrics.audit.ceiling import GAIN, SLOPE, with_ceiling


def fitted(x, labels, weights=None):
    """The fits without and with a ceiling."""
    weights = np.ones(len(x)) if weights is None else weights
    without = refit(x, labels, weights=weights)
    assert without.outcome == "fitted"
    return without, with_ceiling(without, x, labels, weights)


def levelled(rng, number, ceiling):
    x = rng.random(number)
    return x, (rng.random(number) < ceiling / (1 + np.exp(-20 * (x - 0.4)))).astype(np.uint8)


def test_three_shares_determine_the_three_numbers():
    # 0.8 * sigmoid(-2), 0.8 * sigmoid(0) and 0.8 * sigmoid(2) of a million pairs each match: w = 2, b = -2, c = 0.8.
    shares = 0.8 / (1 + np.exp(-np.array([-2.0, 0.0, 2.0])))
    x, labels = np.repeat([0.0, 1.0, 2.0], 2), np.tile([1, 0], 3).astype(np.uint8)
    _, scorer = fitted(x, labels, 1e6 * np.stack([shares, 1 - shares], axis=1).ravel())
    assert (scorer.weight, scorer.bias, scorer.ceiling) == pytest.approx((2, -2, 0.8), rel=1e-3)
    assert scorer.probability(np.array([0.0, 1.0, 2.0])) == pytest.approx(shares, rel=1e-3)


def test_where_labels_do_not_level_off_w_and_b_are_those_of_before():
    # Every label above 0.7 is yes, and every one below 0.3 no.
    x = np.linspace(0, 1, 101)
    without, scorer = fitted(x, (x + 0.2 * np.cos(40 * x) > 0.5).astype(np.uint8))
    assert scorer is without


def test_few_labels_show_no_ceiling():
    without, scorer = fitted(np.arange(8) / 8, np.array([0, 0, 0, 1, 0, 1, 0, 1], dtype=np.uint8))
    assert scorer is without


@given(st.integers(0, 10_000), st.floats(0.2, 1), st.integers(20, 300))
def test_p_rises_with_the_score_and_stays_below_the_ceiling(seed, ceiling, number):
    x, labels = levelled(generator(seed, "x"), number, ceiling)
    without = refit(x, labels)
    if without.outcome != "fitted":
        return
    scorer = with_ceiling(without, x, labels, np.ones(number))
    p = scorer.probability(np.linspace(-1, 2, 200))
    assert (np.diff(p) >= -1e-15).all()
    assert p[-1] <= scorer.ceiling <= 1
    assert scorer.loss <= without.loss + 1e-12


@pytest.mark.parametrize("seed", range(8))
def test_another_optimiser_finds_the_same_likelihood(seed):
    rng = generator(seed, "twin")
    x, labels = levelled(rng, 200, (0.6, 0.9)[seed % 2])
    weights = rng.uniform(0.5, 1, 200)
    without, scorer = fitted(x, labels, weights)
    spread = x.std()

    def loss(at):
        p = at[2] / (1 + np.exp(-(at[0] * x + at[1])))
        terms = weights * np.where(labels == 1, np.log(p), np.log1p(-p))
        return -terms.sum() - np.log(at[2]) + (at[0] * spread / SLOPE) ** 2 / 2

    ours = loss((scorer.weight, scorer.bias, scorer.ceiling))
    starts = [(weight, -0.4 * weight, ceiling) for weight in (5, 20, 80) for ceiling in (0.5, 0.7, 0.95)]
    bounds = [(0, 400), (-400, 400), (1e-6, 1 - 1e-9)]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        best = min((minimize(loss, start, bounds=bounds) for start in starts), key=lambda one: one.fun)
    if scorer is without:
        assert best.fun >= ours - GAIN - 1e-4
    else:
        assert ours == pytest.approx(best.fun, abs=1e-3)
        assert scorer.ceiling == pytest.approx(best.x[2], abs=0.01)
