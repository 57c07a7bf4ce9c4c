"""Weights of 3-grams in texts by TF-IDF, as whole numbers, so that sums have the same bits in any order.

For a 3-gram g that is tf times in a text, and in df of the N texts of the task,

    w(g) = tf * (ln((1 + N) / (1 + df)) + 1),   divided by the length of the text's vector    (scikit-learn's default)

and the weight is w * SCALE, rounded. 3-grams in more texts than `most_frequent` allows have none: they say little about
a pair, and a search spends most of its time on them (docs/search.md).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from al_ray.core.pairs import Rows
from al_ray.search.lexical.grams import COLUMNS, Grams

SCALE = 2**14
"""What a weight of 1 is. A score is wrong by about 3e-5 from rounding, and its sum has 28 bits."""
FREQUENT_SHARE, FREQUENT_TEXTS = 0.1, 1_000
"""A 3-gram in more than this share of all texts, and in more than this many of them, has no weight."""


@dataclass(frozen=True, eq=False)
class DocumentFrequencies:
    """In how many (COLUMNS,) of so many `texts` each 3-gram is. Those of parts add up to those of the whole."""

    counts: npt.NDArray[np.int64]
    texts: int

    @staticmethod
    def of(chunks: Iterable[Grams]) -> "DocumentFrequencies":
        """Count those of the texts of all chunks."""
        counts, texts = np.zeros(COLUMNS, dtype=np.int64), 0
        for chunk in chunks:
            counts += np.bincount(chunk.columns, minlength=COLUMNS)
            texts += len(chunk)
        return DocumentFrequencies(counts, texts)

    def __add__(self, other: "DocumentFrequencies") -> "DocumentFrequencies":
        return DocumentFrequencies(self.counts + other.counts, self.texts + other.texts)


@dataclass(frozen=True, eq=False)
class WeightedTexts:
    """Texts and the weights of their 3-grams. rows: (n,) of the task; weights: (n, used columns) int32, in CSR."""

    rows: Rows
    weights: csr_matrix

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: Rows | slice) -> "WeightedTexts":
        """Return the texts at (k,) places."""
        weights: Any = self.weights
        return WeightedTexts(self.rows[places], weights[places])


@dataclass(frozen=True, eq=False)
class GramWeights:
    """The weights that document frequencies give to 3-grams; all texts that are compared have the same.

    most_frequent: 3-grams in more texts than this have none; None: those of FREQUENT_SHARE and FREQUENT_TEXTS.
    """

    frequencies: DocumentFrequencies
    most_frequent: int | None = None

    @cached_property
    def used(self) -> npt.NDArray[np.int64]:
        """Return the columns (u,) that have a weight, ascending."""
        most = self.most_frequent
        if most is None:
            most = max(FREQUENT_TEXTS, int(FREQUENT_SHARE * self.frequencies.texts))
        counts = self.frequencies.counts
        return np.flatnonzero((counts > 0) & (counts <= most))

    def weigh(self, rows: Rows, grams: Grams) -> WeightedTexts:
        """Return the weights of the 3-grams of texts of (n,) rows; 3-grams that no text of the task has have none."""
        places = self._places[grams.columns]
        there = np.flatnonzero(places >= 0)
        texts, places = grams.texts[there], places[there]
        values = grams.counts[there] * self._inverse[places]
        # Its sum goes from the first to the last: a pairwise one may depend on where in memory the values lie.
        lengths = np.sqrt(np.bincount(texts, weights=values * values, minlength=len(rows)))
        weights = np.rint(values / lengths[texts] * SCALE).astype(np.int32)
        starts = np.searchsorted(texts, np.arange(len(rows) + 1))
        return WeightedTexts(rows, csr_matrix((weights, places, starts), shape=(len(rows), len(self.used))))

    @cached_property
    def _places(self) -> npt.NDArray[np.int32]:
        """For each of COLUMNS its place among those that are used, or -1."""
        places = np.full(COLUMNS, -1, dtype=np.int32)
        places[self.used] = np.arange(len(self.used), dtype=np.int32)
        return places

    @cached_property
    def _inverse(self) -> npt.NDArray[np.float64]:
        """The inverse document frequency (u,) of each used column."""
        # By the logarithm of the C library: that of NumPy may differ in its last bit from one processor to another.
        known, at = np.unique(self.frequencies.counts[self.used], return_inverse=True)
        return np.array([math.log((1 + self.frequencies.texts) / (1 + df)) + 1 for df in known.tolist()])[at]
