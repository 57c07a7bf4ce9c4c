"""Weights of 3-grams in texts by TF-IDF, as whole numbers, so that sums have the same bits in any order.

For a 3-gram g that is tf times in a text, and in df of the N texts of the task,

    w(g) = tf * (ln((1 + N) / (1 + df)) + 1),   divided by the length of the text's vector    (scikit-learn's default)

and the weight is w * SCALE, rounded. The most frequent 3-grams have none: they say little about a pair, and a search
spends most of its time on them (docs/search.md).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Rows
from al_ray.encoders.tokens import load_array, store_array
from al_ray.search.lexical.grams import COLUMNS, Grams
from al_ray.storage.uri import StoragePath

SCALE = 2**29
"""Integer that represents a weight of 1: equal texts score exactly 1 in float32, unless they are very long."""
SHARE, TEXTS = 0.2, 1_000
"""A 3-gram in more than this share of all texts, and in more than this number of them, has no weight."""
ADDITIONS = 500_000.0
"""Maximum mean number of additions per text in a search; above it the most frequent 3-grams have no weight."""
FREQUENCIES = "frequencies.npy"


@dataclass(frozen=True, eq=False)
class DocumentFrequencies:
    """Number of texts (COLUMNS,) that contain each 3-gram, of `texts` texts. Counts of parts add up to those of all."""

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

    @property
    def most(self) -> int:
        """Return in how many texts a 3-gram is at most that has a weight, by SHARE, TEXTS and ADDITIONS."""
        known, numbers = np.unique(self.counts[self.counts > 0], return_counts=True)
        # A text has a 3-gram with the probability df / N, and it is then compared with df texts by it.
        additions = np.cumsum(known.astype(np.float64) ** 2 * numbers) / max(1, self.texts)
        cheap = known[additions <= ADDITIONS]
        return min(int(cheap.max(initial=TEXTS)), max(TEXTS, int(SHARE * self.texts)))

    def write(self, folder: StoragePath) -> None:
        """Write a file of a folder: the counts, and after them the number of texts."""
        store_array(folder / FREQUENCIES, np.append(self.counts, self.texts))

    @staticmethod
    def read(folder: Path) -> "DocumentFrequencies":
        """Read what `write` wrote; BadFile if it is not there or damaged."""
        path = folder / FREQUENCIES
        fix = f"delete {folder} and run again"
        try:
            stored = load_array(path)
        except (OSError, ValueError) as error:
            raise BadFile(f"{path} cannot be read ({error}); {fix}") from error
        if stored.dtype != np.int64 or stored.shape != (COLUMNS + 1,) or stored.min() < 0 or stored.max() > stored[-1]:
            raise BadFile(f"{path} is damaged; {fix}")
        return DocumentFrequencies(stored[:-1], int(stored[-1]))

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

    most: a 3-gram in more texts than this has none; usually `frequencies.most`. uncounted: (k,) 3-grams that have a
    weight if df = 0, where the frequencies are of other texts.
    """

    frequencies: DocumentFrequencies
    most: int
    uncounted: Rows = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @cached_property
    def used(self) -> npt.NDArray[np.int64]:
        """Return the columns (u,) that have a weight, ascending."""
        counts = self.frequencies.counts
        has_weight = (counts > 0) & (counts <= self.most)
        # np.union1d takes a second where all 3-grams but a few are uncounted, as in a service that knows records.
        has_weight[self.uncounted[counts[self.uncounted] == 0]] = True
        return np.flatnonzero(has_weight)

    def weigh(self, rows: Rows, grams: Grams) -> WeightedTexts:
        """Return the weights of the 3-grams of texts of (n,) rows; those that no text of the task has have none."""
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
        counts = self.frequencies.counts[self.used]
        by_count = np.zeros(counts.max(initial=0) + 1)
        for df in np.flatnonzero(np.bincount(counts)).tolist():
            by_count[df] = math.log((1 + self.frequencies.texts) / (1 + df)) + 1
        return by_count[counts]
