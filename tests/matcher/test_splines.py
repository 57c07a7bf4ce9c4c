"""The curves of the splines: a value by hand, scikit-learn's own pipeline, one class, and far values."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer
from threadpoolctl import threadpool_limits

from al_ray.core.rng import generator
from al_ray.matcher.splines import Splines, fit_splines
from tests.matcher.labelled import NAMES, examples


def by_hand() -> Splines:
    """The log-odds rise by 4 where the cosine goes from 0 to 1, from -1; the other comparisons say nothing."""
    knots = np.tile(np.arange(5) / 4, (3, 1))
    heights = np.zeros((3, 5))
    heights[0] = np.arange(5) - 2
    return Splines(NAMES, knots, heights, np.array([1.0]))


def test_p_by_hand():
    # log-odds at 0.125: 1 + (-2 + -1) / 2 = -0.5; outside the knots the curve is constant: 1 - 2 = -1, and 1 + 2 = 3.
    x = np.array([[0.125, 0, 0], [-1, 0, 0], [9, 0, 0]], dtype=np.float32)
    expected = 1 / (1 + np.exp([0.5, 1, -3]))
    np.testing.assert_allclose(by_hand().probability(x), expected, rtol=1e-15)
    found = by_hand().contributions(x)
    assert found.base == pytest.approx(1 / (1 + np.exp(-1)), rel=1e-15)
    np.testing.assert_allclose(found.values[:, 0], expected - found.base, rtol=1e-12)


def test_a_short_way_is_explained_as_well_as_a_long_one():
    """Two comparisons that nearly cancel each other: log-odds of +1.5 and -1.5 - tiny."""
    knots = np.tile(np.arange(5) / 4, (3, 1))
    for tiny in (0, 1e-12, 1e-6, 0.9e-5, 1.1e-5, 1e-4, 1e-2):
        heights = np.zeros((3, 5))
        heights[0], heights[1] = 1.5, -1.5 - tiny
        model = Splines(NAMES, knots, heights, np.array([0.3]))
        x = np.zeros((1, 3), dtype=np.float32)
        found = model.contributions(x)
        np.testing.assert_allclose(found.base + found.values.sum(), model.probability(x)[0], atol=1e-15, rtol=0)
        assert found.values[0, 0] > 0 > found.values[0, 1]


def test_p_is_that_of_scikit_learn():
    x, y = examples()
    theirs = make_pipeline(SplineTransformer(5, degree=1), LogisticRegression(C=0.3, max_iter=2000, tol=1e-8)).fit(x, y)
    other, _ = examples(500, 3)
    ours = fit_splines(x, y, np.ones(len(y)), NAMES, 0).probability(other)
    np.testing.assert_allclose(ours, theirs.predict_proba(other)[:, 1], atol=1e-3)


@pytest.mark.parametrize(("labels", "p"), [([], 0.5), ([0, 0, 0], 0.5 / 4), ([1, 1], 2.5 / 3)])
def test_of_one_class_or_none_p_is_the_same_everywhere(labels: list[int], p: float):
    x, _ = examples(len(labels))
    model = fit_splines(x, labels, np.ones(len(labels)), NAMES, 0)
    np.testing.assert_allclose(model.probability(examples(4, 1)[0]), p, rtol=1e-15)


def test_a_constant_comparison_adds_nothing():
    x, y = examples()
    x[:, 1] = 0.5
    model = fit_splines(x, y, np.ones(len(y)), NAMES, 0)
    other, _ = examples(50, 1)
    assert not model.contributions(other).values[:, 1].any()


def test_threads_of_blas_do_not_change_what_is_learnt():
    """So many rows and columns that BLAS divides its sums among threads, and their bits differ without the limit."""
    x, y = examples(3001)
    wide = generator(0, "columns").random((3001, 39)).astype(np.float32)
    wide[:, :3] = x
    names = [str(column) for column in range(39)]
    found: list[Splines] = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(fit_splines(wide, y, np.ones(3001), names, 0))
    assert found[0].heights.tobytes() == found[1].heights.tobytes()
    # So many columns that NumPy adds some of them in another order if a block has one row.
    model, few = found[0], wide[:40]
    each = np.concatenate([model.probability(few[row : row + 1]) for row in range(40)])
    assert each.tobytes() == model.probability(few).tobytes()
