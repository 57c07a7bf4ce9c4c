"""Vectors in memory, and float64 scores of pairs of them, each summed in a fixed order."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats

Vectors = npt.NDArray[np.float32 | np.float16]
PAIRS_AT_ONCE = 1024  # Pairs whose vectors are gathered at a time: beyond the cache `dots` takes three times as long.


def dots(ones: np.ndarray, others: np.ndarray) -> Floats:
    """(n, d) and (n, d) -> (n,) inner products in float64, each summed in the same order whatever n is."""
    return np.einsum("nd,nd->n", ones.astype(np.float64), others.astype(np.float64))


def squared_distances(ones: np.ndarray, others: np.ndarray) -> Floats:
    """(n, d) and (n, d) -> (n,) squared Euclidean distances in float64."""
    return ((ones.astype(np.float64) - others.astype(np.float64)) ** 2).sum(axis=1)


def paired_scores(
    ones: Vectors, left: Rows, others: Vectors, right: Rows, score: Callable[[np.ndarray, np.ndarray], Floats] = dots
) -> Floats:
    """Return the (n,) float64 scores of pairs, computed in blocks: their cosines, unless another `score` is given.

    (a, d) and (c, d) vectors; left, right: (n,) the places of each pair's vectors in them.
    """
    scores = np.empty(len(left))
    for start in range(0, len(left), PAIRS_AT_ONCE):
        here = slice(start, start + PAIRS_AT_ONCE)
        scores[here] = score(ones[left[here]], others[right[here]])
    return scores


@dataclass(frozen=True)
class Block:
    """Some texts with their vectors: rows (b,), unit vectors (b, d). What travels between shards.

    offsets: (b,) of left texts, subtracted from each text's cosines to give scores that compare across texts
    (core/neighbourhood.py); None where the cosine is the score.
    """

    rows: Rows
    vectors: Vectors
    offsets: Floats | None = field(default=None, kw_only=True)

    def take(self, places: Rows) -> "Block":
        """Return the texts at (k,) places."""
        offsets = None if self.offsets is None else self.offsets[places]
        return Block(self.rows[places], self.vectors[places], offsets=offsets)

    def scores(self, places: Rows, cosines: Floats) -> Floats:
        """(n,) places of left texts here and (n,) cosines with others -> (n,) scores."""
        return cosines if self.offsets is None else cosines - self.offsets[places]
