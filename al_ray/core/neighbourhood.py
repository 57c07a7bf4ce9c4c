"""How near a text lies to all texts of the other side: what is subtracted from cosines to compare them across texts.

Average precision ranks pairs of different left texts. A left text whose nearest right texts are all similar to it ranks
too many of its pairs high (hubness). So the score of a pair is

    s = cosine - a * h(left text),  h = the mean cosine of its NEIGHBOURS nearest right texts

With a = 0 the score is the cosine. For one left text the order of the right texts does not change. With both sides the
mean of the right text with its nearest left texts is subtracted, too, and the order changes:

    s = cosine - (a * h(left text) + a * h(right text))

as CSLS does (Conneau et al. 2018, Eq. 5) with 10 nearest each. In one set of texts the nearest are other texts of the
set, and the score of (x, y) is that of (y, x), to the bit.
"""

import numpy as np

from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Vectors

NEIGHBOURS = 5
ROWS, COLUMNS = 1024, 16_384  # Left and right texts of a product.


def mean_of_nearest(cosines: Floats, lines: Rows, texts: int, count: int = NEIGHBOURS) -> Floats:
    """(n,) cosines of pairs and (n,) left text of each pair, below `texts` -> (texts,) means of the `count` highest.

    With fewer pairs, the mean of all. Summed from the highest to the lowest, so that the last bit does not depend on
    the order of pairs.
    """
    order = np.lexsort((-cosines, lines))
    cosines, lines = cosines[order], lines[order]
    ranks = np.arange(len(lines)) - np.searchsorted(lines, lines)
    sums, numbers = np.zeros(texts), np.zeros(texts, dtype=np.int64)
    for rank in range(count):
        here = ranks == rank
        sums[lines[here]] += cosines[here]
        numbers[lines[here]] += 1
    return sums / np.maximum(numbers, 1)


def means_in(collection: Vectors, vectors: Vectors) -> Floats:
    """(m, d) unit vectors of all right texts, (n, d) of left texts -> (n,) means of the cosines with the nearest."""
    means = np.zeros(len(vectors))
    for start in range(0, len(vectors) if len(collection) else 0, ROWS):
        rows, nearest = vectors[start : start + ROWS].astype(np.float64), np.empty((0, 0))
        for first in range(0, len(collection), COLUMNS):
            cosines = rows @ collection[first : first + COLUMNS].T.astype(np.float64)
            cosines = np.concatenate([nearest.reshape(len(rows), -1), cosines], axis=1)
            least = max(0, cosines.shape[1] - NEIGHBOURS)
            nearest = np.partition(cosines, least, axis=1)[:, least:]
        means[start : start + ROWS] = nearest.mean(axis=1)
    return means
