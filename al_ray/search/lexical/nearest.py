"""For each text the others with which it shares most 3-grams, by a sparse product that keeps the best of each row.

The score of a pair is the cosine of the weights of both texts,

    score = min(1, sum_g w(g) w'(g) / SCALE^2)

The sum is of whole numbers and has the same bits in any order; it is then rounded to float32. So scores, and which
pairs are found, do not depend on chunks, blocks or threads. The product is sparse_dot_topn's, which keeps any of
several equal sums. So it is asked for some more than are needed; where the last of these is as good as the last that
is needed, it is asked again for many more.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from sparse_dot_topn import sp_matmul_topn

from al_ray.core.pairs import Pairs
from al_ray.search.lexical.conditions import OtherTexts, PairConditions
from al_ray.search.lexical.weights import SCALE, WeightedTexts
from al_ray.search.merge import Neighbors, merge_neighbors

QUERIES, OTHERS = 2**12, 2**16  # Texts of a product.
NUMBERS = 2**27  # Weights of the others of a product, about: sparse_dot_topn counts in 32 bits.
SPARE = 12  # How many more than are needed.
ANSWERS = 2**22  # Sums that are kept of a product, at most, where equal ones make it necessary to keep many.
NONE = -1
PAIRS = 2**16  # Pairs that are scored at a time.
Scores = npt.NDArray[np.float32]


def nearest_lexical(
    queries: WeightedTexts,
    others: Iterable[WeightedTexts],
    count: int,
    conditions: PairConditions,
    threads: int = 1,
) -> Neighbors:
    """Return of each query (q,) the scores (q, count) and rows (q, count) of the others of highest score, best first.

    Equal scores are ordered by row. Pairs without a common 3-gram, and those that the conditions leave out, are none:
    where there are fewer than `count`, the score is -inf and the row -1. others: in parts, such as stored chunks.
    """
    return nearest_among(queries, prepare_others(others, conditions), count, conditions, threads)


def prepare_others(others: Iterable[WeightedTexts], conditions: PairConditions) -> Iterator[OtherTexts]:
    """Yield the others in parts of bounded size, ready for any number of searches."""
    for texts in others:
        start = 0
        while start < len(texts):
            full = np.searchsorted(texts.weights.indptr, int(texts.weights.indptr[start]) + NUMBERS, side="right") - 1
            stop = max(start + 1, min(int(full), start + OTHERS))
            yield OtherTexts(texts.take(slice(start, stop)), conditions)
            start = stop


def nearest_among(
    queries: WeightedTexts,
    others: Iterable[OtherTexts],
    count: int,
    conditions: PairConditions,
    threads: int = 1,
) -> Neighbors:
    """Return what `nearest_lexical` does, among others that were prepared with the same conditions."""
    order = conditions.order(queries.rows)
    blocks = [queries.take(order[start : start + QUERIES]) for start in range(0, len(order), QUERIES)]
    best = [_none(len(block), count) for block in blocks]
    for part in others:
        for number, block in enumerate(blocks):
            reached = part.reached_by(block.rows)
            if len(reached):
                found = _nearest(reached.matrix_of(block), reached, count, count + SPARE, threads)
                best[number] = merge_neighbors([best[number], found], count, "ip")
    back = np.argsort(order, kind="stable")
    scores, rows = (np.concatenate(parts)[back] for parts in zip(_none(0, count), *best, strict=True))
    return scores, rows


def lexical_scores(texts: WeightedTexts, others: WeightedTexts, pairs: Pairs) -> Scores:
    """(n, 2) places in `texts` and in `others`, in any order -> (n,) scores, equal to those of a search to the bit."""
    scores = np.zeros(len(pairs), dtype=np.float32)
    for start in range(0, len(pairs), PAIRS):
        left, right = pairs[start : start + PAIRS].T
        weights = texts.take(left).weights.astype(np.int64)
        products: Any = weights.multiply(others.take(right).weights.astype(np.int64))
        scores[start : start + PAIRS] = scores_of_sums(np.asarray(products.sum(axis=1)).ravel())
    return scores


def _none(queries: int, count: int) -> Neighbors:
    return np.full((queries, count), -np.inf, dtype=np.float32), np.full((queries, count), NONE, dtype=np.int64)


def _nearest(queries: csr_matrix, others: OtherTexts, count: int, kept: int, threads: int) -> Neighbors:
    """Return the `count` best of each query; kept: how many sums of each are looked at first."""
    kept, least = min(kept, len(others)), others.conditions.least
    product: Any = sp_matmul_topn(queries, others.matrix, kept, threshold=least, n_threads=threads)
    starts = product.indptr.astype(np.int64)
    texts = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    ranks = np.arange(starts[-1]) - starts[texts]
    scores, rows = _none(len(starts) - 1, max(kept, count))
    scores[texts, ranks] = scores_of_sums(product.data[: starts[-1]] - least)
    rows[texts, ranks] = others.rows[product.indices[: starts[-1]]]
    best = merge_neighbors([(scores, rows)], scores.shape[1], "ip")
    scores, rows = best[0][:, :count].copy(), best[1][:, :count].copy()
    if kept < len(others) and count:
        last = best[0][:, kept - 1]
        unsure = np.flatnonzero((last > -np.inf) & (last == scores[:, count - 1]))
        at_once = max(1, ANSWERS // min(8 * kept, len(others)))
        for start in range(0, len(unsure), at_once):
            again = unsure[start : start + at_once]
            scores[again], rows[again] = _nearest(queries[again], others, count, 8 * kept, threads)
    return scores, rows


def scores_of_sums(sums: npt.NDArray[np.int64]) -> Scores:
    """(n,) sums of products of weights -> (n,) scores. Sums are rounded to 24 bits, and keep their order."""
    return np.minimum(sums / float(SCALE**2), 1).astype(np.float32)
