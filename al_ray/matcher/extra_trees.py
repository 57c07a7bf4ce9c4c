"""Extremely randomised trees (Geurts, Ernst, Wehenkel 2006, Extremely randomized trees), learnt by scikit-learn.

Each tree sees all labelled rows. At a node it draws one threshold for each of some comparisons, and takes the one that
separates matches from non-matches best. A leaf holds at least LEAF rows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from al_ray.core.rng import generator
from al_ray.core.scorer import Floats
from al_ray.matcher.forest import STEP, Forest
from al_ray.matcher.model import Arrays, Features, Learner, array_of, check_examples

TREES, LEAF = 300, 2
UNKNOWN = 0.5
"""p of a forest that saw no label."""


def fit_trees(
    features: Features, labels: npt.ArrayLike, weights: npt.ArrayLike, names: Sequence[str], seed: int
) -> Forest:
    """Learn a forest from (n, F) features, (n,) labels of 0 and 1, and (n,) weights of at least 0.

    The same values in the same order give the same bits. Rows of weight 0 are left out. p is 1/2 everywhere if no row
    is left, and 0 or 1 everywhere if all labels are equal. BadOption for NaN or infinite features.
    """
    x, y, w = check_examples(features, labels, weights, names)
    if len(set(y.tolist())) < 2:
        return _constant(tuple(names), float(y[0]) if len(y) else UNKNOWN)
    from sklearn.ensemble import ExtraTreesClassifier

    trees = ExtraTreesClassifier(
        TREES, min_samples_leaf=LEAF, random_state=int(generator(seed, "forest").integers(2**31)), n_jobs=1
    )
    return from_sklearn(trees.fit(x, y, sample_weight=w), names)


def from_sklearn(trees: Any, names: Sequence[str]) -> Forest:
    """Return a fitted forest of scikit-learn, such as ExtraTreesClassifier, of the classes 0 and 1 as flat arrays."""
    found = [one.tree_ for one in trees.estimators_]
    starts = np.concatenate([[0], np.cumsum([tree.node_count for tree in found])])
    feature = np.concatenate([tree.feature for tree in found])
    inner = feature >= 0
    right = np.concatenate([tree.children_right + start for tree, start in zip(found, starts[:-1], strict=True)])
    share = np.concatenate([tree.value[:, 0, 1] for tree in found])
    threshold = _rounded_down(np.concatenate([tree.threshold for tree in found]))
    return Forest(
        tuple(names),
        starts.astype(np.int32),
        np.where(inner, feature, -1).astype(np.int16),
        np.where(inner, threshold, np.float32(0)),
        np.where(inner, right, -1).astype(np.int32),
        (np.round(share / STEP) * STEP).astype(np.float32),
    )


def _rounded_down(thresholds: Floats) -> npt.NDArray[np.float32]:
    """Return the largest float32 <= each threshold: for x of float32, x <= one where x <= the other."""
    near = thresholds.astype(np.float32)
    return np.where(near > thresholds, np.nextafter(near, np.float32(-np.inf)), near)


def _constant(names: tuple[str, ...], value: float) -> Forest:
    """Return a forest of one leaf."""
    return Forest(
        names,
        np.array([0, 1], dtype=np.int32),
        np.array([-1], dtype=np.int16),
        np.zeros(1, dtype=np.float32),
        np.array([-1], dtype=np.int32),
        np.array([value], dtype=np.float32),
    )


def read_forest(names: tuple[str, ...], arrays: Arrays) -> Forest:
    """Return a forest of arrays that others wrote; ValueError unless each tree is one, and all values are in range."""
    starts = array_of(arrays, "starts", np.int32, (None,))
    if len(starts) < 2 or starts[0] != 0 or (np.diff(starts.astype(np.int64)) < 1).any():
        raise ValueError("starts does not rise from 0")
    nodes = int(starts[-1])
    feature = array_of(arrays, "feature", np.int16, (nodes,))
    threshold = array_of(arrays, "threshold", np.float32, (nodes,))
    right = array_of(arrays, "right", np.int32, (nodes,))
    value = array_of(arrays, "value", np.float32, (nodes,))
    if (feature < -1).any() or (feature >= len(names)).any():
        raise ValueError(f"feature has columns that are not of the {len(names)}")
    if not np.isfinite(threshold).all():
        raise ValueError("threshold is not finite everywhere")
    # The comparison is false for NaN, too.
    if not ((value >= 0) & (value <= 1)).all() or (np.mod(value.astype(np.float64), STEP) != 0).any():
        raise ValueError("value is not a multiple of 2^-24 from 0 to 1 everywhere")
    _check_trees(starts.astype(np.int64), feature, right.astype(np.int64))
    return Forest(names, starts, feature, threshold, right, value)


def _check_trees(starts: npt.NDArray[np.int64], feature: npt.NDArray[np.int16], right: npt.NDArray[np.int64]) -> None:
    """ValueError unless each inner node has two later children in its tree, and each node but a root one parent."""
    inner = np.flatnonzero(feature >= 0)
    if (right[feature < 0] != -1).any():
        raise ValueError("right names a child of a leaf")
    ends = np.repeat(starts[1:], np.diff(starts))[inner]
    if (right[inner] <= inner + 1).any() or (right[inner] >= ends).any():
        raise ValueError("right leads out of its tree, or back")
    parents = np.bincount(np.concatenate([inner + 1, right[inner]]), minlength=len(feature))
    expected = np.ones(len(feature), dtype=np.int64)
    expected[starts[:-1]] = 0
    if (parents != expected).any():
        raise ValueError("a node has no parent, or two")


EXTRA_TREES = Learner(fit_trees, read_forest)
