"""Extremely randomised trees as frozen flat arrays: learnt by scikit-learn, stored and followed without it.

Geurts, Ernst, Wehenkel 2006, Extremely randomized trees. Here each tree sees all rows, and a leaf holds at least
LEAF rows. The nodes of a tree stand in preorder: the left child of a node is the next node. A row goes left where
its feature <= the threshold, both float32. p is the mean over the trees of the value of the row's leaf.

Values are multiples of 2^-24, so float32 holds them exactly, and sums of float64 are exact in any order. Therefore p
does not depend on threads, blocks, shards or the order of the trees, and ten lines of numpy return the same bits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.tree import _tree  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]

from al_ray.core.rng import generator
from al_ray.core.scorer import Floats
from al_ray.matcher.model import (
    Arrays,
    Contributions,
    Features,
    Learner,
    array_of,
    check_examples,
    check_features,
    in_blocks,
)

TREES, LEAF = 300, 2
STEP = 2.0**-24
"""All values of nodes are multiples of it."""
UNKNOWN = 0.5
"""p of a forest that saw no label."""


@dataclass(frozen=True)
class Forest:
    """A forest: all trees' nodes one after the other.

    starts: (trees + 1,) the first node of each tree, and at last the number of nodes. Of each node: feature, the column
    that it compares, or -1 for a leaf; threshold (0 for a leaf); right, the number of its right child (-1 for a leaf);
    value, the share of matches by weight among the labelled rows that reached it.
    """

    names: tuple[str, ...]
    starts: npt.NDArray[np.int32]
    feature: npt.NDArray[np.int16]
    threshold: npt.NDArray[np.float32]
    right: npt.NDArray[np.int32]
    value: npt.NDArray[np.float32]

    def __reduce__(self) -> tuple[type["Forest"], tuple[Any, ...]]:
        return Forest, tuple(getattr(self, field.name) for field in fields(self))

    def probability(self, features: Features, threads: int = 1) -> Floats:
        """Return p of each row of (n, F) features: (n,) float64 in [0, 1]. BadOption for NaN or infinity."""
        features = check_features(features, self.names)
        return np.concatenate([np.empty(0), *in_blocks(self._block_probability, features, threads)])

    def contributions(self, features: Features, threads: int = 1) -> Contributions:
        """Return what each comparison adds to p, by following the paths (Saabas 2014, Interpreting random forests).

        Each step from a node to its child adds the difference of their values to the comparison of the node. Before
        the division by the number of trees all sums are exact.
        """
        features = check_features(features, self.names)
        blocks = in_blocks(self._block_contributions, features, threads)
        values = np.concatenate([np.empty((0, len(self.names))), *blocks])
        return Contributions(float(self.value[self.starts[:-1]].sum(dtype=np.float64) / self.trees), values)

    def arrays(self) -> Arrays:
        """Return all that the forest consists of but its names, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "names"}

    @property
    def trees(self) -> int:
        """Return the number of trees."""
        return len(self.starts) - 1

    @cached_property
    def _walkers(self) -> list[tuple[Any, Floats]]:
        """Of each tree, what scikit-learn follows it with, and the values of its nodes."""
        value = self.value.astype(np.float64)
        return [(self._walker(part), value[part]) for part in self._parts]

    @property
    def _parts(self) -> Iterator[slice]:
        return (slice(*ends) for ends in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True))

    def _walker(self, part: slice) -> Any:
        """Return one tree as scikit-learn's: it follows 100,000 rows a hundred times as fast as numpy."""
        inner = self.feature[part] >= 0
        count = len(inner)
        nodes = np.zeros(count, dtype=_tree.NODE_DTYPE)
        nodes["left_child"] = np.where(inner, np.arange(1, count + 1), -1)
        nodes["right_child"] = np.where(inner, self.right[part] - part.start, -1)
        nodes["feature"] = np.where(inner, self.feature[part], -2)
        nodes["threshold"] = self.threshold[part]
        tree = _tree.Tree(len(self.names), np.array([1], dtype=np.intp), 1)
        # The depth is for those who ask a tree for its paths, which nobody does here.
        values = np.zeros((count, 1, 1))
        tree.__setstate__({"max_depth": 0, "node_count": count, "nodes": nodes, "values": values})
        return tree

    def _block_probability(self, block: Features) -> Floats:
        total = np.zeros(len(block))
        for tree, value in self._walkers:
            total += value[tree.apply(block)]
        return total / self.trees

    def _block_contributions(self, block: Features) -> Floats:
        total = np.zeros((len(block), len(self.names)))
        for (tree, _), added in zip(self._walkers, self._added, strict=True):
            total += added[tree.apply(block)]
        return total / self.trees

    @cached_property
    def _added(self) -> list[Floats]:
        """Of each tree, (nodes, F): what each comparison adds on the way from the root to a node."""
        found: list[Floats] = []
        value = self.value.astype(np.float64)
        for part in self._parts:
            added = np.zeros((part.stop - part.start, len(self.names)))
            for node in np.flatnonzero(self.feature[part] >= 0).tolist():
                column = self.feature[part.start + node]
                for child in (node + 1, self.right[part.start + node] - part.start):
                    added[child] = added[node]
                    added[child, column] += value[part.start + child] - value[part.start + node]
            found.append(added)
        return found


def fit_forest(
    features: Features, labels: npt.ArrayLike, weights: npt.ArrayLike, names: Sequence[str], seed: int
) -> Forest:
    """Learn a forest from (n, F) features, (n,) labels of 0 and 1, and (n,) weights of at least 0.

    The same values in the same order give the same bits. Rows of weight 0 are left out. p is 1/2 everywhere if no row
    is left, and 0 or 1 everywhere if all labels are equal. BadOption for NaN or infinite features.
    """
    x, y, w = check_examples(features, labels, weights, names)
    if len(set(y.tolist())) < 2:
        return _constant(tuple(names), float(y[0]) if len(y) else UNKNOWN)
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


EXTRA_TREES = Learner(fit_forest, read_forest)
