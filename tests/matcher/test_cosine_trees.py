"""Trees of the cosine beside those of all comparisons: what p is made of, and how much the cosine counts."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from al_ray.core.rng import generator
from al_ray.matcher.cosine_trees import LEAVES, MOST, PRIOR, fit_with_cosine
from al_ray.matcher.extra_trees import TREES, fit_trees
from al_ray.matcher.forest import Forest
from al_ray.matcher.model import Features
from tests.matcher.labelled import NAMES, examples


def only_the_curve(model: Forest, x: Features) -> np.ndarray:
    """Return p of the trees that compare the cosine alone, which are the last ones."""
    own = [set(model.feature[start:end]) <= {-1, 0} for start, end in pairwise(model.starts)]
    first = len(own) - own[::-1].index(False) if False in own else 0
    start = int(model.starts[first])
    parts = {name: getattr(model, name)[start:] for name in ("feature", "threshold", "value")}
    right = np.where(model.right[start:] >= 0, model.right[start:] - start, -1).astype(np.int32)
    return Forest(model.names, model.starts[first:] - start, right=right, **parts).probability(x)


# The last has 3 trees of the curve, so that its steps are coarse.
@pytest.mark.parametrize(("weight", "share", "near"), [(0.5, 0.887, 0.03), (1.4, 0.5, 0.03), (14.0, 0.0099, 0.1)])
def test_p_is_between_the_trees_and_a_logistic_curve_of_the_cosine(weight, share, near):
    x, y = examples(200)
    w = np.full(len(y), weight)
    model = fit_with_cosine(x, y, w, NAMES, 3)
    # As many rows as count PRIOR weigh half.
    assert (PRIOR**2 / (PRIOR**2 + (200 * weight) ** 2)) == pytest.approx(share, abs=0.001)
    platt = LogisticRegression(C=10).fit(x[:, :1].astype(float), y, sample_weight=w)
    others, _ = examples(300, 8)
    inside = others[others[:, 0] >= 0]
    curve = platt.predict_proba(inside[:, :1].astype(float))[:, 1]
    # Steps of a sixteenth of the range, at other places in each tree.
    assert only_the_curve(model, inside) == pytest.approx(curve, abs=near)
    trees = fit_trees(x, y, w, NAMES, 3).probability(inside)
    # Of fewer trees where the curve takes more than MOST.
    assert model.probability(inside) == pytest.approx((1 - share) * trees + share * curve, abs=0.04)


@pytest.mark.parametrize("count", [4, 40, 200, 2000])
def test_few_labels_make_trees_of_the_curve_and_many_make_one(count):
    x, y = examples(count)
    model = fit_with_cosine(x, y, np.ones(count), NAMES, 0)
    odds = (PRIOR / count) ** 2
    expected = TREES + max(1, round(TREES * odds)) if TREES * odds <= MOST else MOST + max(1, round(MOST / odds))
    assert model.trees == expected
    assert len(model.starts) == expected + 1
    assert model.starts[-1] == len(model.feature)


def test_a_few_labels_keep_the_order_of_the_cosine():
    x, y = examples(6, 4)
    assert len(set(y.tolist())) == 2
    grid = np.repeat(np.linspace(x[:, 0].min(), x[:, 0].max(), 50, dtype=np.float32)[:, None], len(NAMES), axis=1)
    grid[:, 1:] = x[0, 1:]
    p = fit_with_cosine(x, y, np.ones(6), NAMES, 0).probability(grid)
    assert (np.diff(p) > 0).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(4, 60))
def test_the_curve_never_falls(seed, count):
    rng = generator(seed, "curve")
    x = rng.random((count, len(NAMES))).astype(np.float32)
    y = (rng.random(count) < 0.5).astype(np.int64)
    y[:2] = 0, 1
    model = fit_with_cosine(x, y, rng.random(count) + 0.1, NAMES, 0)
    grid = np.zeros((64, len(NAMES)), dtype=np.float32)
    grid[:, 0] = np.linspace(-1, 2, 64)
    assert (np.diff(only_the_curve(model, grid)) >= 0).all()


def test_a_curve_that_would_fall_is_flat():
    x, y = examples(60)
    model = fit_with_cosine(x, 1 - y, np.ones(60), NAMES, 0)
    curve = only_the_curve(model, x)
    assert curve == pytest.approx(np.full(60, 1 - y.mean()), abs=1e-6)


def test_one_kind_of_label_or_one_cosine_gives_the_trees_alone():
    x, y = examples(30)
    ones = np.ones(30)
    for labels in (np.zeros(30, dtype=np.int64), np.ones(30, dtype=np.int64)):
        alone, found = fit_trees(x, labels, ones, NAMES, 0), fit_with_cosine(x, labels, ones, NAMES, 0)
        assert found.probability(x).tolist() == alone.probability(x).tolist()
    x[:, 0] = 0.5
    assert fit_with_cosine(x, y, ones, NAMES, 0).trees == TREES


def test_the_base_is_that_of_the_trees_and_the_cosine_explains_its_own_part():
    x, y = examples(80)
    w = np.ones(80)
    model = fit_with_cosine(x, y, w, NAMES, 0)
    found = model.contributions(x)
    assert found.base == pytest.approx(y.mean(), abs=0.02)
    assert found.base + found.values.sum(axis=1) == pytest.approx(model.probability(x), abs=1e-12)
    # Against the trees alone, most of what decides is the cosine.
    alone = fit_trees(x, y, w, NAMES, 0).contributions(x).values
    assert np.abs(found.values[:, 0]).mean() > np.abs(alone[:, 0]).mean()
    assert LEAVES == 16
