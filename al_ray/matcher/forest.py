"""A forest of decision trees as frozen flat arrays: p of a pair, and what each comparison adds to it.

The nodes of a tree are in preorder: the left child of a node is the next node. A row goes left if its feature <= the
threshold, both float32. p is the mean over the trees of the value of the row's leaf.

Values are multiples of 2^-24, so float32 holds them exactly, and sums in float64 are exact in any order. Therefore p
does not depend on threads, blocks, shards or the order of the trees, and ten lines of numpy return the same bits
(docs/matcher.md).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from al_ray.core.scorer import Floats
from al_ray.matcher.model import Arrays, Contributions, Features, check_features, in_blocks

STEP = 2.0**-24
"""All values of nodes are multiples of it."""
GROUP = 1 << 15
"""Nodes whose contributions are in memory at a time, about. No result depends on it."""


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

    def __post_init__(self) -> None:
        for array in self.arrays().values():
            array.setflags(write=False)

    def __reduce__(self) -> tuple[type["Forest"], tuple[Any, ...]]:
        return Forest, tuple(getattr(self, field.name) for field in fields(self))

    def probability(self, features: Features, threads: int = 1) -> Floats:
        """Return p of each row of (n, F) features: (n,) float64 in [0, 1]. BadOption for NaN or infinity."""
        features = check_features(features, self.names)
        sums = in_blocks(partial(_sum_leaves, self._shares), features, threads)
        return np.concatenate([np.empty(0), *sums]) / self.trees

    def contributions(self, features: Features, threads: int = 1) -> Contributions:
        """Return what each comparison adds to p, by following the paths (Saabas 2014, Interpreting random forests).

        Each step from a node to its child adds the difference of their values to the comparison of the node. Before
        the division by the number of trees all sums are exact.
        """
        features = check_features(features, self.names)
        total = np.zeros(features.shape)
        for first, end in self._groups:
            ends = self.starts[first + 1 : end] - self.starts[first]
            tables = [*zip(self._walkers[first:end], np.split(self._added(first, end), ends), strict=True)]
            sums = in_blocks(partial(_sum_leaves, tables), features, threads)
            total += np.concatenate([np.empty((0, len(self.names))), *sums])
        base = self.value[self.starts[:-1]].sum(dtype=np.float64) / self.trees
        return Contributions(float(base), total / self.trees)

    def arrays(self) -> Arrays:
        """Return all that the forest consists of but its names, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "names"}

    @property
    def trees(self) -> int:
        """Return the number of trees."""
        return len(self.starts) - 1

    @cached_property
    def _shares(self) -> list[tuple[Any, Floats]]:
        """Each tree, and the share of matches of its nodes."""
        values = np.split(self.value.astype(np.float64), self.starts[1:-1])
        return [*zip(self._walkers, values, strict=True)]

    @cached_property
    def _walkers(self) -> list[Any]:
        """Each tree as scikit-learn's, which follows rows a hundred times as fast as numpy."""
        ends = zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)
        return [self._walker(slice(*part)) for part in ends]

    def _walker(self, part: slice) -> Any:
        from sklearn.tree import _tree  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]

        inner = self.feature[part] >= 0
        count = len(inner)
        # NumPy's types know no names of fields.
        nodes: Any = np.zeros(count, dtype=_tree.NODE_DTYPE)
        nodes["left_child"] = np.where(inner, np.arange(1, count + 1), -1)
        nodes["right_child"] = np.where(inner, self.right[part] - part.start, -1)
        nodes["feature"] = np.where(inner, self.feature[part], -2)
        nodes["threshold"] = self.threshold[part]
        tree = _tree.Tree(len(self.names), np.array([1], dtype=np.intp), 1)
        # The depth is for those who ask a tree for its paths, which nobody does here.
        values = np.zeros((count, 1, 1))
        tree.__setstate__({"max_depth": 0, "node_count": count, "nodes": nodes, "values": values})
        return tree

    def _added(self, first: int, end: int) -> Floats:
        """Return (nodes, F) of some trees: what each comparison adds on the way from the root to a node."""
        start, stop = self.starts[first], self.starts[end]
        value = self.value[start:stop].astype(np.float64)
        feature, right = self.feature[start:stop], self.right[start:stop] - start
        added = np.zeros((stop - start, len(self.names)))
        level = self.starts[first:end] - start
        while len(level):
            level = level[feature[level] >= 0]
            for child in (level + 1, right[level]):
                added[child] = added[level]
                added[child, feature[level]] += value[child] - value[level]
            level = np.concatenate([level + 1, right[level]])
        return added

    @property
    def _groups(self) -> Iterator[tuple[int, int]]:
        """Yield the first tree of each group of about GROUP nodes, and the one after its last."""
        firsts = np.unique(self.starts[:-1] // GROUP, return_index=True)[1].tolist()
        return zip(firsts, [*firsts[1:], self.trees], strict=True)


def _sum_leaves(tables: Sequence[tuple[Any, Floats]], block: Features) -> Any:
    """Return for each row of a block the sum over trees of what the tree's table has for the row's leaf."""
    return sum(table[tree.apply(block)] for tree, table in tables)
