"""Clusters with at most one record of each source: constrained single linkage, by score."""

from collections.abc import Sequence

import numpy as np

from al_ray.apps.matching.clusters.edges import Edges
from al_ray.core.graph import components
from al_ray.core.pairs import Pairs, Rows

DECIMALS = 5
"""Scores are compared to this many decimals: the last digits depend on which texts were encoded together."""


def one_of_each(edges: Edges, first: Pairs, yes: Pairs, sources: Sequence[str]) -> Rows:
    """Return the lowest node of each node's cluster (nodes,).

    The components of the pairs labelled yes are the first clusters, whatever their sources. Then the edges join two
    clusters, one after the other, unless both have a record of one source: those among `first`, (k, 2) pairs, and then
    the edge of the highest score; ties: the lowest nodes. sources: (nodes,) values, "" for a record of none.
    """
    labels = components(edges.texts, yes)
    parent = labels.tolist()
    there = dict[int, set[str]]()
    for node, source in enumerate(sources):
        if source:
            there.setdefault(parent[node], set()).add(source)

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    is_first = _is_among(edges, first)
    order = np.lexsort((edges.pairs[:, 1], edges.pairs[:, 0], -np.round(edges.scores, DECIMALS), ~is_first))
    for left, right in edges.pairs[order].tolist():
        low, high = sorted((root(left), root(right)))
        if low == high:
            continue
        one, other = there.get(low, set()), there.get(high, set())
        if one.isdisjoint(other):
            parent[high] = low
            there[low] = one | other
    return np.array([root(node) for node in range(edges.texts)], dtype=np.int64)


def clusters_with_two(labels: Rows, sources: Sequence[str]) -> int:
    """Return the number of clusters that have two or more records of one source."""
    seen, twice = set[tuple[int, str]](), set[int]()
    for label, source in zip(labels.tolist(), sources, strict=True):
        if source and (label, source) in seen:
            twice.add(label)
        seen.add((label, source))
    return len(twice)


def _is_among(edges: Edges, pairs: Pairs) -> np.ndarray:
    keys, others = (np.sort(one, axis=1) @ np.array([edges.texts, 1]) for one in (edges.pairs, pairs))
    return np.isin(keys, others)
