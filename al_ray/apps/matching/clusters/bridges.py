"""Bridges of a graph of texts: edges that alone hold two parts of a cluster together."""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from al_ray.core.graph import components
from al_ray.core.pairs import Mask, Pairs, Rows


def bridges(texts: int, pairs: Pairs) -> Mask:
    """(m, 2) distinct pairs, left < right -> (m,) whether removing a pair leaves two parts of two or more texts each.

    Tarjan 1974, A note on finding the bridges of a graph: an edge of a spanning tree is a bridge if no other edge
    leaves the subtree below it. In preorder a subtree is a range of numbers, so the least and greatest number that its
    texts are connected with decide that. Linear time, and no recursion.
    """
    result = np.zeros(len(pairs), dtype=np.bool_)
    parts = components(texts, pairs)
    # A part of three texts has no such bridge, and most parts are small.
    large = np.flatnonzero(np.bincount(parts, minlength=texts)[parts[pairs[:, 0]]] >= 4)
    if not len(large):
        return result
    rows, ends = np.unique(pairs[large], return_inverse=True)
    left, right = ends.reshape(-1, 2).T
    order, parents = _spanning_forest(left, right, np.flatnonzero(parts[rows] == rows), len(rows))
    sizes, number = _preorder(order, parents)
    up = parents[left] == right
    tree = up | (parents[right] == left)
    lower = np.where(up, left, right)
    closed = _closed(order, parents, sizes, number, np.stack([left[~tree], right[~tree]], axis=1))
    rest = sizes[np.searchsorted(rows, parts[rows[lower]])] - sizes[lower]
    result[large] = tree & closed[lower] & (sizes[lower] >= 2) & (rest >= 2)
    return result


def _spanning_forest(left: Rows, right: Rows, tops: Rows, texts: int) -> tuple[Rows, Rows]:
    """Return the texts from the tops down, (texts,), and the parent of each, (texts,); the tops' parent is `texts`."""
    # An extra node above all tops makes one tree of the forest: scipy searches from one node only.
    root = np.full(len(tops), texts)
    heads, tails = np.concatenate([left, right, root]), np.concatenate([right, left, tops])
    graph = csr_array((np.ones(len(heads), dtype=np.int8), (heads, tails)), shape=(texts + 1, texts + 1))
    order, parents = breadth_first_order(graph, texts, directed=True, return_predecessors=True)
    return order[1:].astype(np.int64), parents[:texts].astype(np.int64)


def _preorder(order: Rows, parents: Rows) -> tuple[Rows, Rows]:
    """Return the (n,) size of the subtree of each text, and its (n,) number in preorder."""
    up, texts = parents.tolist(), order.tolist()
    sizes = [1] * (len(texts) + 1)
    for text in reversed(texts):
        sizes[up[text]] += sizes[text]
    number = [0] * len(sizes)
    # The number of the next child, of each text and of the root.
    following = [0] * len(sizes)
    for text in texts:
        parent = up[text]
        number[text] = following[parent]
        following[parent] += sizes[text]
        following[text] = number[text] + 1
    return np.array(sizes[:-1], dtype=np.int64), np.array(number[:-1], dtype=np.int64)


def _closed(order: Rows, parents: Rows, sizes: Rows, number: Rows, others: Pairs) -> Mask:
    """Return (n,) whether none of the `others`, the (k, 2) edges outside the tree, leaves the subtree of a text."""
    least, greatest = number.copy(), number.copy()
    for side in (0, 1):
        np.minimum.at(least, others[:, side], number[others[:, 1 - side]])
        np.maximum.at(greatest, others[:, side], number[others[:, 1 - side]])
    up, low, high = parents.tolist(), [*least.tolist(), 0], [*greatest.tolist(), 0]
    for text in reversed(order.tolist()):
        parent = up[text]
        low[parent] = min(low[parent], low[text])
        high[parent] = max(high[parent], high[text])
    return (np.array(low[:-1]) >= number) & (np.array(high[:-1]) < number + sizes)
