"""Spherical k-means over shards, for the cells of an IVF index: the same bits on any shards and in any blocks.

As Faiss's IVF index learns them for the inner product: the first centroids are vectors of random texts; in each
iteration every text of a sample goes to its nearest centroid, and the mean of a cell, scaled to length 1, is its next
centroid. Each shard does this for its own texts. What makes the result the same:

- A float32 product depends on the shape of its blocks, so it decides only where it is certain (exact_join says how
  wrong it can be). Else float64 decides, and of equally near centroids the one with the lowest number.
- Vectors are added as integers, in any order.

Unlike Faiss, an empty cell gets half of the largest cell, not of a random one.
"""

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from al_ray.core.hashing import hash_keys
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Vectors, dots, paired_scores
from al_ray.encoders.products import product
from al_ray.search.join.exact_join import UNIT
from al_ray.search.vector_files import single

SHARED = re.compile(r"IVF(\d+),(Flat|SQ\w+|PQ\w+)")  # Kinds of indexes whose cells are learned here.
ITERATIONS = 10  # As in Faiss's IVF index.
SCALE = 2.0**30  # Numbers are added in units of 1 / SCALE; 64 bits hold the sum of 2^32 of them.
TEXTS = 4096  # Texts added at a time.
TILE = {"cpu": 2**22, "cuda": 2**25}  # Cosines of one product.
SHIFT = 1 / 1024  # How far the halves of a split cell are moved, as in Faiss.

Ints = npt.NDArray[np.int64]
Centroids = npt.NDArray[np.float32]


@dataclass(frozen=True)
class CellSums:
    """Texts of consecutive cells: how many (c,), and the sums of their vectors (c, d) in units of 1 / SCALE."""

    counts: Ints
    sums: Ints

    def __add__(self, other: "CellSums") -> "CellSums":
        return CellSums(self.counts + other.counts, self.sums + other.sums)

    def pieces(self, count: int) -> list["CellSums"]:
        """Return `count` parts of consecutive cells."""
        parts = zip(np.array_split(self.counts, count), np.array_split(self.sums, count), strict=True)
        return [CellSums(*part) for part in parts]

    def centroids(self) -> Centroids:
        """Return the means (c, d), scaled to length 1; 0 of an empty cell."""
        return _unit(self.sums.astype(np.float64))


def shared_cells(factory: str) -> int:
    """Return x of a Faiss index IVFx,Flat, IVFx,SQ... or IVFx,PQ...; 0 of other kinds, which Faiss trains alone."""
    match = SHARED.fullmatch(factory)
    return int(match[1]) if match else 0


def spaced_rows(rows: Rows, count: int) -> Rows:
    """Return `count` of the rows, evenly spaced, or all if there are fewer."""
    count = min(count, len(rows))
    return rows[np.arange(count) * len(rows) // max(1, count)]


def first_rows(rows: Rows, count: int) -> Rows:
    """Draw the rows whose vectors are the first centroids."""
    return rows[np.argsort(hash_keys(rows, 0, "cells"))[:count]]


class Cells:
    """Centroids on a device, which find the nearest of them to texts."""

    def __init__(self, centroids: Centroids, device: str = "cpu") -> None:
        """Load (c, d) centroids of length 1, or 0."""
        whole = np.ascontiguousarray(centroids)
        # Of equal centroids only the first is ever the nearest. Copies would have to be compared with every text.
        lines = whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1])))[:, 0]
        self.numbers = np.sort(np.unique(lines, return_index=True)[1])
        self.centroids = whole[self.numbers]
        self.device = torch.device(device)
        self.table = single(self.centroids).to(self.device)
        # Both products may be wrong; a GPU may cut bits off where a CPU rounds.
        self.margin = 2 * UNIT**2 * whole.shape[1] * 2.0**-22

    def nearest(self, vectors: Vectors) -> Ints:
        """(n, d) vectors of length 1 -> (n,) numbers of the nearest centroids."""
        height = max(1, TILE[self.device.type] // len(self.numbers))
        parts = [self._nearest(vectors[start : start + height]) for start in range(0, len(vectors), height)]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    def _nearest(self, vectors: Vectors) -> Ints:
        tile = product(single(vectors).to(self.device), self.table)
        texts, near = _places(tile >= tile.amax(dim=1, keepdim=True) - self.margin)
        scores, unclear = np.zeros(len(texts)), np.bincount(texts)[texts] > 1
        scores[unclear] = paired_scores(vectors, texts[unclear], self.centroids, near[unclear], dots)
        order = np.lexsort((near, -scores, texts))
        return self.numbers[near[order[np.unique(texts[order], return_index=True)[1]]]]


def sum_by_cell(vectors: Vectors, places: Rows, centroids: Centroids, device: str = "cpu") -> CellSums:
    """Add up those of the (n, d) vectors that are at some places, each in the cell of its nearest centroid (c, d)."""
    cells, counts = Cells(centroids, device), np.zeros(len(centroids), dtype=np.int64)
    sums = np.zeros(centroids.shape, dtype=np.int64)
    for start in range(0, len(places), TEXTS):
        part = vectors[places[start : start + TEXTS]]
        nearest = cells.nearest(part)
        order = np.argsort(nearest, kind="stable")
        there, first = np.unique(nearest[order], return_index=True)
        whole = np.rint(part[order].astype(np.float64) * SCALE).astype(np.int64)
        sums[there] += np.add.reduceat(whole, first, axis=0)
        counts += np.bincount(nearest, minlength=len(counts))
    return CellSums(counts, sums)


def next_centroids(pieces: Sequence[tuple[Ints, Centroids]]) -> Centroids:
    """Counts (c,) and centroids (c, d) of consecutive cells -> all centroids, with a half of another for an empty cell.

    Of the cell with the most texts, the lowest of several, each time; a half of a cell counts as a cell of half of its
    texts.
    """
    counts, centroids = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    largest = [(-int(count), cell) for cell, count in enumerate(counts) if count]
    heapq.heapify(largest)
    shift = np.where(np.arange(centroids.shape[1]) % 2, -SHIFT, SHIFT)
    for empty in np.flatnonzero(counts == 0).tolist():
        count, cell = largest[0]
        centroids[[empty, cell]] = _unit(centroids[cell] * np.stack([1 + shift, 1 - shift]))
        heapq.heapreplace(largest, (count - count // 2, cell))
        heapq.heappush(largest, (count // 2, empty))
    return centroids


def _unit(vectors: Floats) -> Centroids:
    """(n, d) -> (n, d) of length 1; 0 stays 0."""
    lengths = np.sqrt(dots(vectors, vectors))[:, None]
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0).astype(np.float32)


def _places(mask: torch.Tensor) -> tuple[Ints, Ints]:
    """(n, c) -> rows and columns of what is true, by row. On a CPU NumPy is several times as fast as torch."""
    flat = mask.view(-1)
    places = np.flatnonzero(flat.numpy()) if mask.device.type == "cpu" else flat.nonzero().view(-1).cpu().numpy()
    return np.divmod(places, mask.shape[1])
