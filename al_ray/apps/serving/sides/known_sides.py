"""Known texts under scores that know the neighbourhood of both sides (core/neighbourhood.py), as they come and go.

The answer to a text is what `match` says of it when it is one more left text, after the known left ones; of one set,
one more text of that set. So what is kept of each known text is its highest cosines with the known texts of the other
side, and that with the text is merged in.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from al_ray.apps.serving.records.best_scores import BestScores
from al_ray.apps.serving.records.gram_table import NO_ROWS
from al_ray.apps.serving.records.known_records import Best
from al_ray.apps.serving.records.renewal import renew
from al_ray.apps.serving.records.ways import CosineWay, Counts, Pairs
from al_ray.core.candidates import margin
from al_ray.core.neighbourhood import NEIGHBOURS, mean_of_nearest
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Vectors


class ScoredTexts(NamedTuple):
    """Known texts of a query: rows (k,), cosines (k,) and scores (k,)."""

    rows: Rows
    cosines: Floats
    scores: Floats


class KnownSides:
    """Vectors of known texts, and how near the texts of the other side are to each. Not for two threads at a time.

    best: the highest cosines of known texts with those of the other side; None until they are found.
    """

    def __init__(self, vectors: Vectors, others: Vectors | None, weight: float, digest: str) -> None:
        """(n, d) unit vectors of known texts, (m, d) of the left ones; None if there is one set of texts.

        weight: a of the scores. digest: of the encoder.
        """
        self.weight, self.digest = weight, digest
        self.counts = [Counts(0, NEIGHBOURS)]
        self.best: Best | None = None
        self._known, self._others = CosineWay(vectors), None if others is None else CosineWay(others)
        self._present = np.ones(len(vectors), dtype=np.bool_)
        # A score has the error of a product, and a times that of a mean; so has the one that it is compared with.
        self._margin = 2 * (1 + weight) * margin(vectors.shape[1])

    @property
    def symmetric(self) -> bool:
        """Return whether there is one set of texts."""
        return self._others is None

    def find_best(self) -> Best:
        """Find the highest cosines of all known texts: all pairs with the other side are compared."""
        return (self._known.best_of(self._others or self._known, self.counts[0].kept),)

    def use(self, best: Best, fresh: Rows = NO_ROWS) -> None:
        """Take the highest cosines of all known texts, but for those of (m,) rows, which are found now."""
        self.best = best
        self._renew(fresh)

    def change(self, gone: Rows, rows: Rows, vectors: Vectors, present: npt.NDArray[np.bool_]) -> None:
        """Take away the texts of (g,) rows, and put others in (m,) rows, which are new or have none.

        vectors, present: (n, d) and (n,) of all rows then.
        """
        assert self.best is not None
        self._present = present
        self._known.change(vectors, rows, present)
        if self.symmetric:
            self.best[0].drop(gone)
        self._renew(rows)

    def nearest(self, vector: Vectors, count: int) -> ScoredTexts:
        """(d,) unit vector of a text -> at least the `count` known texts of the highest scores, in no order.

        All if there are fewer.
        """
        products = self._known.products(vector)
        wanted = min(count, len(self._known))
        if not wanted:
            return ScoredTexts(NO_ROWS, np.empty(0), np.empty(0))
        rough = products - self.weight * self._rough_means(products)
        last = len(rough) - wanted
        rows = np.flatnonzero(rough >= np.partition(rough, last)[last] - self._margin)
        rows = rows[self._present[rows]]
        cosines = self._known.scores(vector, rows)
        near = self._known.nearest(vector, products, NEIGHBOURS).scores
        own = mean_of_nearest(near, np.zeros(len(near), dtype=np.int64), 1)
        # As Block.scores of core/vectors.py, to the bit.
        return ScoredTexts(rows, cosines, cosines - (self.weight * own + self.weight * self._means(rows, cosines)))

    def _means(self, rows: Rows, cosines: Floats) -> Floats:
        """(k,) rows and their cosines with a text (k,) -> (k,) means of their nearest, of which the text may be one."""
        assert self.best is not None
        every = np.concatenate([self.best[0].scores[rows, :NEIGHBOURS], cosines[:, None]], axis=1)
        lines, places = np.nonzero(every > -np.inf)
        return mean_of_nearest(every[lines, places], lines, len(rows))

    def _rough_means(self, products: npt.NDArray[np.float32]) -> Floats:
        """Return what `_means` does for all rows (n,), as exactly as the products are."""
        assert self.best is not None
        known = self.best[0].scores[:, :NEIGHBOURS]
        there = known > -np.inf
        sums, numbers = np.where(there, known, 0).sum(axis=1), there.sum(axis=1)
        last = known[:, -1]
        more = (sums - np.where(there[:, -1], last, 0) + products) / np.minimum(numbers + 1, NEIGHBOURS)
        return np.where(products > last, more, sums / np.maximum(numbers, 1))

    def _renew(self, fresh: Rows) -> None:
        assert self.best is not None
        best, [counts] = self.best[0], self.counts

        def compare(rows: Rows) -> tuple[BestScores, Pairs]:
            if self._others is None:
                return self._known.lists(rows, self._known, counts.kept, best.floor)
            return self._others.lists(rows, self._known, counts.kept, None)

        renew(best, counts, fresh, self._present, self.symmetric, compare)
