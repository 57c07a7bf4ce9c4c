"""What a forest learns: p of scikit-learn's trees, one class, no labels, constant comparisons, weights."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier

from al_ray.core.rng import generator
from al_ray.matcher.extra_trees import fit_trees, from_sklearn
from tests.matcher.labelled import NAMES, examples, fitted


def test_p_is_that_of_scikit_learn():
    x, y = examples()
    seed = int(generator(0, "forest").integers(2**31))
    theirs = ExtraTreesClassifier(300, min_samples_leaf=2, random_state=seed).fit(x, y)
    other, _ = examples(500, 3)
    # Values are rounded to multiples of 2^-24.
    np.testing.assert_allclose(fitted().probability(other), theirs.predict_proba(other)[:, 1], atol=2**-24)


def test_thresholds_part_float32_as_those_of_float64_do():
    """scikit-learn's thresholds lie between two float32, and the nearest one may be on the wrong side."""
    x, y = examples()
    theirs = ExtraTreesClassifier(20, random_state=0).fit(x, y)
    ours = from_sklearn(theirs, NAMES)
    exact = np.concatenate([one.tree_.threshold for one in theirs.estimators_])
    inner = ours.feature >= 0
    cuts, exact = ours.threshold[inner], exact[inner]
    assert (cuts <= exact).all()
    assert (np.nextafter(cuts, np.float32(9)) > exact).all()
    assert (exact.astype(np.float32) > exact).any(), "no threshold is near a float32 above it: the test tests nothing"


def test_another_seed_gives_another_forest():
    x, y = examples()
    assert not np.array_equal(fit_trees(x, y, np.ones(len(y)), NAMES, 1).value, fitted().value)


def test_a_leaf_holds_two_rows():
    """Four rows that one comparison parts make leaves of two, and never of one match alone."""
    x = np.array([[0, 0, 0], [0.1, 0, 0], [0.2, 0, 0], [0.9, 0, 0]], dtype=np.float32)
    forest = fit_trees(x, [0, 0, 0, 1], np.ones(4), NAMES, 0)
    assert forest.probability(x[3:]).max() <= 0.5
    # Constant comparisons ask nothing.
    assert set(forest.feature.tolist()) <= {-1, 0}


@pytest.mark.parametrize(("labels", "p"), [([], 0.5), ([0, 0, 0], 0.0), ([1, 1], 1.0)])
def test_of_one_class_or_none_p_is_the_same_everywhere(labels: list[int], p: float):
    x, _ = examples(len(labels))
    forest = fit_trees(x, labels, np.ones(len(labels)), NAMES, 0)
    other, _ = examples(4, 1)
    assert forest.probability(other).tolist() == [p] * 4
    assert forest.contributions(other).base == p
    assert not forest.contributions(other).values.any()


def test_where_all_comparisons_are_constant_p_is_the_share_of_matches_by_weight():
    x = np.full((4, 3), 0.5, dtype=np.float32)
    forest = fit_trees(x, [1, 0, 0, 0], [1, 0.25, 0.25, 0.5], NAMES, 0)
    # 1 / (1 + 0.25 + 0.25 + 0.5)
    assert forest.probability(x).tolist() == [0.5] * 4


def test_a_row_of_weight_0_is_as_if_it_was_not_there():
    x, y = examples()
    some = np.arange(len(y)) % 3 > 0
    weighed, without = fit_trees(x, y, some, NAMES, 0), fit_trees(x[some], y[some], np.ones(some.sum()), NAMES, 0)
    assert weighed.value.tobytes() == without.value.tobytes()
