"""Connected components of a graph of texts."""

import numpy as np

from al_ray.core.pairs import Pairs, Rows, as_pairs


def components(texts: int, pairs: Pairs) -> Rows:
    """Label each text with the lowest row of its connected component.

    texts: number of texts. pairs: (n, 2) edges between rows below `texts`, in any order, repeated or not.
    Returns (texts,) rows. A text without an edge is its own component, so the labels have gaps; their order is that of
    the components' first texts.
    """
    lowest = np.arange(texts, dtype=np.int64)
    while True:
        joined = lowest.copy()
        least = np.minimum(lowest[pairs[:, 0]], lowest[pairs[:, 1]])
        for side in (0, 1):
            np.minimum.at(joined, pairs[:, side], least)
            # Also lower the label's own text: otherwise a chain of n texts would take n passes, not log n.
            np.minimum.at(joined, lowest[pairs[:, side]], least)
        joined = joined[joined]
        if np.array_equal(joined, lowest):
            return lowest
        lowest = joined


def components_of_texts(same: Rows, pairs: Pairs) -> Rows:
    """Label each text as `components` does, of a graph in which equal texts are joined, whatever their ids.

    same: (n,) a number for each text, equal where texts are (core/text.py, same_text). pairs: (m, 2) edges.
    """
    _, first, number = np.unique(same, return_index=True, return_inverse=True)
    return components(len(same), np.concatenate([pairs, as_pairs(np.arange(len(same)), first[number])]))
