"""From cosine to probability, and the refit: every outcome by hand, the usual one against other solvers."""

from dataclasses import replace
from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from al_ray.core.scorer import Scorer, cross_entropy, refit, sigmoid


def zeros_and_ones(*labels: int):
    return np.array(labels, dtype=np.uint8)


def test_the_boundary_is_where_p_is_one_half():
    scorer = Scorer(weight=20.0, bias=-12.0)
    assert scorer.boundary == pytest.approx(0.6)
    assert scorer.probability(np.array([0.6])) == pytest.approx([0.5])
    # w * 0.7 + b = 2, and sigmoid(2) = 1 / (1 + e^-2)
    assert scorer.probability(np.array([0.7], dtype=np.float32)) == pytest.approx([1 / (1 + exp(-2))], rel=1e-5)


@pytest.mark.parametrize(("bias", "boundary"), [(-3.0, inf), (0.0, inf), (3.0, -inf)])
def test_without_slope_the_boundary_is_infinitely_far(bias, boundary):
    assert Scorer(weight=0.0, bias=bias).boundary == boundary


def test_a_ceiling_is_approached_and_moves_the_boundary_up():
    # 0.8 * sigmoid(0) at 0.6; 1/2 where sigmoid is 5/8, log-odds log(5/3), so at 0.6 + log(5/3) / 20.
    scorer = Scorer(20.0, -12.0, ceiling=0.8)
    assert scorer.probability(np.array([-100.0, 0.6, 100.0])) == pytest.approx([0, 0.4, 0.8])
    assert scorer.boundary == pytest.approx(0.6 + log(5 / 3) / 20)
    assert scorer.logit(np.array([scorer.boundary])) == pytest.approx([0], abs=1e-9)
    assert [scorer.score_at(p) for p in (0.4, 0.8, 0.9)] == [pytest.approx(0.6), inf, inf]
    assert replace(scorer, ceiling=0.5).boundary == inf


@given(st.floats(0.01, 1), st.floats(0.1, 50), st.floats(-20, 20), st.floats(0.001, 0.999))
def test_the_score_of_a_p_has_that_p_under_any_ceiling(ceiling, weight, bias, share):
    scorer = Scorer(weight, bias, ceiling=ceiling)
    score = scorer.score_at(share * ceiling)
    assert scorer.probability(np.array([score])) == pytest.approx([share * ceiling], rel=1e-6)
    # Without a ceiling it is the scorer of before, to the bit, and files have no field more.
    plain = Scorer(weight, bias)
    assert scorer.probability(np.array([score]))[0] <= ceiling * (1 + 1e-12)
    if ceiling == 1:
        assert (scorer.boundary, scorer.as_dict()) == (plain.boundary, plain.as_dict())
    assert ("ceiling" in scorer.as_dict()) == (ceiling < 1)


@given(st.floats(-1e6, 1e6))
def test_sigmoid_is_symmetric_and_never_overflows(x):
    low, high = sigmoid(np.array([-x, x]))
    assert 0 <= low <= 1
    assert low + high == pytest.approx(1)


def test_cross_entropy_by_hand():
    # p = 3/4 where y = 1 and p = 1/4 where y = 1: (log 4/3 + log 4) / 2; a sure logit costs itself, never inf.
    assert cross_entropy(np.array([log(3), -log(3)]), zeros_and_ones(1, 1)) == pytest.approx((log(4 / 3) + log(4)) / 2)
    assert cross_entropy(np.array([1e4]), zeros_and_ones(0)) == pytest.approx(1e4)


def test_fitted_two_cosines_have_a_closed_form():
    # Two values of the cosine: the fit meets the share of positives at each. 1 of 4 at 0.2, 3 of 4 at 0.6:
    # log-odds -log 3 and log 3, so w = 2 log 3 / 0.4 and the boundary lies at 0.4.
    cosines = np.repeat([0.2, 0.6], 4)
    scorer = refit(cosines, zeros_and_ones(1, 0, 0, 0, 1, 1, 1, 0))
    assert scorer.outcome == "fitted"
    assert scorer.weight == pytest.approx(2 * log(3) / 0.4, rel=1e-9)
    assert scorer.boundary == pytest.approx(0.4, rel=1e-9)
    # Each pair costs -log of the share of its label: (3/4) log(4/3) + (1/4) log 4.
    assert scorer.loss == pytest.approx(0.75 * log(4 / 3) + 0.25 * log(4), rel=1e-9)


@pytest.mark.parametrize("labels", [(0, 1, 0, 1), (0, 0, 1, 1), (1, 1, 0, 0)])
def test_a_weight_counts_as_so_many_pairs(labels):
    # The rule of succession and the separable case count them too.
    cosines, weights = np.array([0.1, 0.4, 0.4, 0.9]), np.array([1, 3, 2, 5])
    every = refit(np.repeat(cosines, weights), np.repeat(zeros_and_ones(*labels), weights))
    weighted = refit(cosines, zeros_and_ones(*labels), weights=weights.astype(np.float64))
    assert weighted.outcome == every.outcome
    assert weighted.loss == pytest.approx(every.loss)
    assert weighted.weight == pytest.approx(every.weight, rel=1e-6)


def test_separable_puts_the_boundary_half_way():
    # n = 4; nearest 0.4 and 0.8, so the boundary is 0.6; at 0.8 p = 1 - 1/6, log-odds log 5 = w * 0.2.
    scorer = refit(np.array([0.1, 0.4, 0.8, 0.9]), zeros_and_ones(0, 0, 1, 1))
    assert scorer.outcome == "separable"
    assert scorer.boundary == pytest.approx(0.6)
    assert scorer.weight == pytest.approx(log(5) / 0.2)
    assert scorer.probability(np.array([0.4, 0.8])) == pytest.approx([1 / 6, 5 / 6])


def test_separable_but_for_a_tie_keeps_the_share_at_the_tie():
    # n = 6; at 0.5 one of two is positive: log-odds 0, so b = -w / 2. Both neighbours want log-odds at least log 7 off:
    # the one 0.1 below asks for w = 10 log 7, the one 0.3 above for less.
    scorer = refit(np.array([0.2, 0.4, 0.5, 0.5, 0.8, 0.9]), zeros_and_ones(0, 0, 0, 1, 1, 1))
    assert scorer.outcome == "separable"
    assert scorer.weight == pytest.approx(10 * log(7))
    assert scorer.boundary == pytest.approx(0.5)
    # A tie at the very top: 1 of 3 positive, log-odds -log 2; n = 5; the next 0.5 below: w = (log 6 - log 2) / 0.5.
    scorer = refit(np.array([0.1, 0.5, 1.0, 1.0, 1.0]), zeros_and_ones(0, 0, 0, 1, 0))
    assert scorer.outcome == "separable"
    assert scorer.weight == pytest.approx(2 * log(3))
    assert scorer.probability(np.array([0.5, 1.0])) == pytest.approx([1 / 7, 1 / 3])


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_takes_the_rule_of_succession(label):
    # Cosines 0.2 and 0.6: mean 0.4, standard deviation 0.2, so w = 5; at the mean p = 1/4 for 0 of 2, 3/4 for 2 of 2.
    scorer = refit(np.array([0.2, 0.6]), zeros_and_ones(label, label))
    assert scorer.outcome == "one-class"
    assert scorer.weight == pytest.approx(5)
    assert scorer.probability(np.array([0.4])) == pytest.approx([0.75 if label else 0.25])


@pytest.mark.parametrize(("labels", "share"), [((0, 0, 1), 2 / 5), ((0, 0, 0), 1 / 5), ((1, 1, 1), 4 / 5)])
def test_no_variance_has_no_slope(labels, share):
    scorer = refit(np.full(3, 0.7, dtype=np.float32), zeros_and_ones(*labels))
    assert (scorer.outcome, scorer.weight) == ("no-variance", 0.0)
    assert scorer.probability(np.array([-1.0, 1.0])) == pytest.approx([share, share])


@pytest.mark.parametrize(
    "labels",
    [(1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1)],
    ids=["separates the wrong way", "falls", "neither rises nor falls"],
)
def test_falling_keeps_w_at_zero(labels):
    # Two of four positive: (2 + 1) / (4 + 2) = 1/2 everywhere, loss log 2.
    scorer = refit(np.array([0.1, 0.2, 0.3, 0.4]), zeros_and_ones(*labels))
    assert (scorer.outcome, scorer.weight, scorer.bias) == ("falling", 0.0, 0.0)
    assert scorer.loss == pytest.approx(log(2))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_diverged_is_never_a_good_fit(bad):
    scorer = refit(np.array([0.1, bad, 0.3]), zeros_and_ones(0, 1, 0))
    assert (scorer.outcome, scorer.loss) == ("diverged", inf)
    assert np.isfinite([scorer.weight, scorer.bias]).all()


@pytest.mark.parametrize("seed", range(5))
def test_fitted_is_the_optimum_that_others_find(seed):
    rng = np.random.default_rng(seed)
    cosines = rng.normal(0.3, 0.1, 400)
    labels = (rng.random(400) < sigmoid(15 * (cosines - 0.35))).astype(np.uint8)
    scorer = refit(cosines, labels)
    other = LogisticRegression(C=inf, tol=1e-10, max_iter=1000).fit(cosines[:, None] * 10, labels)
    assert scorer.outcome == "fitted"
    assert scorer.weight == pytest.approx(other.coef_[0, 0] * 10, rel=1e-4)
    assert scorer.bias == pytest.approx(other.intercept_[0], rel=1e-4)
    assert scorer.loss == pytest.approx(least_loss(cosines, labels), rel=1e-9)


@pytest.mark.parametrize("rank", [2, 5, 1000, 20_000])
def test_fitted_converges_for_one_positive_in_50_000(rank):
    # The paper's 10,000 steps of gradient descent stop short here. The positive has the rank-th highest cosine.
    cosines = np.random.default_rng(0).normal(0.3, 0.1, 50_000)
    labels = np.zeros(50_000, dtype=np.uint8)
    labels[np.argsort(cosines)[-rank]] = 1
    assert_converged(cosines, labels)


@pytest.mark.parametrize("overlap", [0.1, 1e-3, 1e-6])
def test_fitted_converges_when_cosines_all_but_separate(overlap):
    rng = np.random.default_rng(0)
    cosines = np.concatenate([rng.uniform(0, 0.4, 999), [0.4 + overlap], [0.4], rng.uniform(0.4 + overlap, 1, 999)])
    assert_converged(cosines, np.repeat(zeros_and_ones(0, 1), 1000))


def assert_converged(cosines, labels) -> None:
    """At the optimum sums of p and of p * cosine are those of the labels; and no other solver gets lower."""
    scorer = refit(cosines, labels)
    assert scorer.outcome == "fitted"
    residue = scorer.probability(cosines) - labels
    assert abs(residue.sum()) < 1e-6
    assert abs((residue * cosines).sum()) < 1e-6
    assert scorer.loss <= least_loss(cosines, labels) * (1 + 1e-6)


def least_loss(cosines, labels) -> float:
    z = (cosines - cosines.mean()) / cosines.std()

    def gradient(at):
        residue = sigmoid(at[0] * z + at[1]) - labels
        return np.array([(residue * z).mean(), residue.mean()])

    start = [0.0, log(labels.mean() / (1 - labels.mean()))]
    loss = minimize(lambda at: cross_entropy(at[0] * z + at[1], labels), start, jac=gradient, method="BFGS").fun
    return float(loss)


def test_a_fit_does_not_depend_on_the_order_of_pairs_or_on_float32():
    rng = np.random.default_rng(0)
    cosines = rng.normal(0.3, 0.1, 500).astype(np.float32)
    labels = (rng.random(500) < sigmoid(15 * (cosines.astype(np.float64) - 0.35))).astype(np.uint8)
    order = rng.permutation(500)
    one, other = refit(cosines, labels), refit(cosines[order].astype(np.float64), labels[order])
    assert (one.weight, one.bias) == pytest.approx((other.weight, other.bias), rel=1e-9)
