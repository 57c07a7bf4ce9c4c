"""Vectors in memory, and float64 scores of pairs of them, each summed in a fixed order."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from al_ray.core.nearest_means import NearestMeans
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats

Vectors = npt.NDArray[np.float32 | np.float16]
PAIRS_AT_ONCE = 1024  # Pairs whose vectors are gathered at a time: beyond the cache `dots` takes three times as long.
LENGTH = 2.0**-20  # How far the product of two unit vectors may be from their cosine, as their lengths are rounded.
CLOSE = 1 - 2.0**-9  # Inner products above it are taken to cosines.
# Vectors of one text from two batches have 1 - cosine up to 7e-13 in float32 and 8e-9 in 16 bits (all-MiniLM-L6-v2).
SAME = (1e-10, 1e-7)
# Cosines from which equal token ids are looked for: two vectors of the same token ids from different batches have
# 1 - cosine up to 5e-5 if they are encoded in bfloat16 (all-MiniLM-L6-v2), which depends on the padding.
NEARLY_SAME = 0.999
FLIPS = 64  # Numbers of a vector that may be rounded to the other side, at most.


def dots(ones: np.ndarray, others: np.ndarray) -> Floats:
    """(n, d) and (n, d) -> (n,) inner products in float64, each summed in the same order whatever n is."""
    return np.einsum("nd,nd->n", ones.astype(np.float64), others.astype(np.float64))


def cosines(ones: Vectors, others: Vectors) -> Floats:
    """(n, d) and (n, d) unit vectors -> (n,) cosines in [-1, 1], in float64. Of vectors that are the same, exactly 1.

    The length of a unit vector is rounded, so its inner product with itself may be 0.9999998 or 1.0000002. Above CLOSE
    the lengths are divided out; elsewhere they do not matter. Vectors of one text from two batches differ in their last
    bits, so they are the same up to SAME (docs/search.md, Equal texts).
    """
    products = dots(ones, others)
    close = np.flatnonzero(products > CLOSE)
    if len(close):
        ones, others = ones[close], others[close]
        true = products[close] / np.sqrt(dots(ones, ones) * dots(others, others))
        halves = np.float16 in (ones.dtype, others.dtype)
        true[true >= 1 - SAME[halves]] = 1.0
        products[close] = true
    return np.clip(products, -1.0, 1.0, out=products)


def round_to_halves(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float16]:
    """(n, d) unit vectors -> the same in 16 bits, whose lengths are 1 as nearly as in float32.

    Rounding each number to the nearest changes the length by 1e-4. So some numbers of each vector are rounded to the
    other side: in each step the one that changes the length most, but not by more than is missing.
    """
    halves = vectors.astype(np.float16)
    missing = 1 - dots(halves, halves)
    away = np.where(missing[:, None] > 0, np.copysign(np.inf, halves), 0).astype(np.float16)
    flipped = np.nextafter(halves, away)
    gains = np.abs(flipped.astype(np.float64) ** 2 - halves.astype(np.float64) ** 2)
    gains[halves == 0] = 0
    lines, missing = np.arange(len(halves)), np.abs(missing)
    for _ in range(FLIPS if halves.size else 0):
        best = np.where(gains <= missing[:, None], gains, 0).argmax(axis=1)
        gain = gains[lines, best]
        chosen = np.flatnonzero((gain <= missing) & (gain > 0))
        if not len(chosen):
            break
        halves[chosen, best[chosen]] = flipped[chosen, best[chosen]]
        missing[chosen] -= gain[chosen]
        gains[chosen, best[chosen]] = 0
    return halves


def squared_distances(ones: np.ndarray, others: np.ndarray) -> Floats:
    """(n, d) and (n, d) -> (n,) squared Euclidean distances in float64."""
    return ((ones.astype(np.float64) - others.astype(np.float64)) ** 2).sum(axis=1)


def paired_scores(
    ones: Vectors, left: Rows, others: Vectors, right: Rows, score: Callable[[np.ndarray, np.ndarray], Floats] = cosines
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
    (core/neighbourhood.py); None where the cosine is the score. right_offsets: with offsets of both sides, those of the
    right texts that may meet these, by row.
    """

    rows: Rows
    vectors: Vectors
    offsets: Floats | None = field(default=None, kw_only=True)
    right_offsets: NearestMeans | None = field(default=None, kw_only=True)

    def take(self, places: Rows) -> "Block":
        """Return the texts at (k,) places."""
        offsets = None if self.offsets is None else self.offsets[places]
        return Block(self.rows[places], self.vectors[places], offsets=offsets, right_offsets=self.right_offsets)

    def scores(self, places: Rows, rows: Rows, cosines: Floats) -> Floats:
        """(n,) places of left texts here, (n,) rows of right texts, and their (n,) cosines -> (n,) scores."""
        if self.offsets is None:
            return cosines
        own = self.offsets[places]
        # A sum first: it has the same bits whichever text of a pair is the left one.
        return cosines - (own if self.right_offsets is None else own + self.right_offsets.of(rows))
