"""Connected components against a slow twin, and in the order on which the draws of splits depend."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from al_ray.core.graph import components, components_of_texts
from al_ray.core.pairs import as_pairs

EDGES = st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=20)


def edges_of(edges):
    return np.array(edges, dtype=np.int64).reshape(-1, 2)


@given(EDGES)
def test_a_component_is_labelled_with_its_lowest_row(edges):
    groups = [{row} for row in range(15)]
    for a, b in edges:
        one, other = (next(group for group in groups if row in group) for row in (a, b))
        if one is not other:
            groups.remove(other)
            one |= other
    labels = components(15, edges_of(edges))
    assert labels.tolist() == [min(next(group for group in groups if row in group)) for row in range(15)]


@given(EDGES)
def test_components_are_in_the_order_of_scipys(edges):
    # Splits were once drawn over scipy's numbers 0, 1, 2, ...: other ranks would change every prepared task.
    left, right = edges_of(edges).T
    graph = coo_array((np.ones(len(edges)), (left, right)), shape=(15, 15))
    ranks = np.unique(components(15, edges_of(edges)), return_inverse=True)[1]
    assert ranks.tolist() == connected_components(graph, directed=False)[1].tolist()


def test_a_long_chain_in_random_order_is_one_component():
    rows = np.random.default_rng(0).permutation(5_000)
    assert not components(5_000, as_pairs(rows[:-1], rows[1:])).any()


def test_equal_texts_are_of_one_component():
    # Texts 0 and 2 are equal, and so are 1 and 4; 2-3 is an edge.
    assert components_of_texts(np.array([5, 7, 5, 0, 7, 9]), as_pairs([2], [3])).tolist() == [0, 1, 0, 0, 1, 5]
