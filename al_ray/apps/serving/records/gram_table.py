"""The weights of the 3-grams of known texts as a matrix for products with a text, in which texts come and go.

A product needs a row for each 3-gram, so one text cannot be exchanged in place. The texts that came since the matrix
was made are in a second, small one, and the columns of those that went count no more. When the second one is large,
both are made into one again, which takes some tenths of a second for 100,000 texts.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack

from al_ray.apps.serving.growing import GrowingArray
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats
from al_ray.search.lexical.nearest import scores_of_sums
from al_ray.search.lexical.weights import WeightedTexts

LATER, SHARE = 1_024, 8  # Texts of the second matrix at most, or one in SHARE of all, if these are more.
NEVER = -1
NO_ROWS: Rows = np.empty(0, dtype=np.int64)


class GramTable:
    """Weights of texts by row, some of which are absent."""

    def __init__(self, texts: WeightedTexts) -> None:
        """Take the weights of the texts of rows 0, 1, ...; all are present."""
        self._begin(texts)

    def _begin(self, texts: WeightedTexts) -> None:
        self.texts = texts
        self._matrix = _turned(texts.weights)
        # Where the weights of each row are: a place in `texts`, or after these one in `_later`; NEVER without a text.
        self._place = GrowingArray(np.arange(len(texts)))
        # Their `rows` are the rows here.
        self._later = WeightedTexts(NO_ROWS, texts.take(NO_ROWS).weights)
        self._later_matrix = _turned(self._later.weights)

    def __len__(self) -> int:
        """Return the number of rows, with a text or without."""
        return len(self._place.rows)

    def scores(self, queries: WeightedTexts) -> Iterator[tuple[Rows, Floats]]:
        """Yield of each text the rows (k,) with which it shares a 3-gram that has a weight, and the scores (k,)."""
        weights: Any = queries.weights.astype(np.int64)
        sums, later = weights @ self._matrix, weights @ self._later_matrix
        place, first = self._place.rows, len(self.texts)
        for line in range(len(queries)):
            rows, found = _line(sums, line)
            # The texts of some rows are others now.
            there = (place[rows] == rows) & (found > 0)
            more, others = _line(later, line)
            now = (place[self._later.rows[more]] == first + more) & (others > 0)
            rows = np.concatenate([rows[there], self._later.rows[more[now]]])
            yield rows, scores_of_sums(np.concatenate([found[there], others[now]])).astype(np.float64)

    def change(self, gone: Rows, rows: Rows, texts: WeightedTexts) -> None:
        """Take away the texts of some rows, and then put others (m,) into rows (m,) that are new or have none."""
        self._place.grow(int(rows.max(initial=-1)) + 1, NEVER)
        place = self._place.rows
        place[gone] = NEVER
        kept = self._later.take(
            np.flatnonzero(place[self._later.rows] == len(self.texts) + np.arange(len(self._later)))
        )
        weights = csr_matrix(vstack([kept.weights, texts.weights], format="csr"))
        self._later = WeightedTexts(np.concatenate([kept.rows, rows]), weights)
        place[self._later.rows] = len(self.texts) + np.arange(len(self._later))
        if len(self._later) > max(LATER, len(self) // SHARE):
            self._make_one()
        else:
            self._later_matrix = _turned(self._later.weights)

    def _make_one(self) -> None:
        place = self._place.rows
        weights: Any = self._later.weights
        nothing = csr_matrix((1, weights.shape[1]), dtype=weights.dtype)
        every: Any = vstack([self.texts.weights, weights, nothing], format="csr")
        # NEVER is the last one, which has no 3-grams.
        self._begin(WeightedTexts(np.arange(len(place)), csr_matrix(every[place])))


def _turned(weights: csr_matrix) -> csr_matrix:
    """Return weights (n, 3-grams) as (3-grams, n) in 64 bits, which sums need."""
    return csr_matrix(weights.astype(np.int64).T)


def _line(sums: csr_matrix, line: int) -> tuple[Rows, Rows]:
    """Return the columns and the sums of a line."""
    here = slice(int(sums.indptr[line]), int(sums.indptr[line + 1]))
    return sums.indices[here].astype(np.int64), sums.data[here].astype(np.int64, copy=False)
