"""The known texts in memory: ids, clusters and vectors, with texts that came later, and the nearest of a query."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from al_ray.apps.serving.growing import GrowingArray
from al_ray.apps.serving.index import KnownIndex
from al_ray.core.candidates import margin
from al_ray.core.id_order import id_key
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Vectors, paired_scores

QUERIES, COLUMNS = 64, 65_536  # Queries and known texts of a product.
SPARE = 64
"""Rows that are asked of an index beyond the number that is sought, as some of them may have been removed."""


class Nearest(NamedTuple):
    """The nearest known texts of a query, the best first, equally near ones by id: rows (k,) and cosines (k,)."""

    rows: Rows
    cosines: Floats


class Scored(NamedTuple):
    """Known texts of a query, the best first, equal scores by id: rows (k,), cosines (k,) and scores (k,)."""

    rows: Rows
    cosines: Floats
    scores: Floats

    def first(self, count: int) -> "Scored":
        """Return the first `count`."""
        return Scored(self.rows[:count], self.cosines[:count], self.scores[:count])


class Catalogue:
    """Known texts by id. A new text takes the row of one that was replaced or removed, unless the index has it."""

    def __init__(self, vectors: Vectors, index: KnownIndex | None = None) -> None:
        """(n, d) unit vectors of the rows that `add` will name first. index: of all of these."""
        self.ids, self.clusters, self.row_of = list[str](), list[int | None](), dict[str, int]()
        self._vectors, self._present = GrowingArray(vectors), GrowingArray(np.zeros(len(vectors), dtype=np.bool_))
        self.index = index
        self._removed, self._free = 0, list[int]()

    def __len__(self) -> int:
        """Return the number of present texts."""
        return len(self.row_of)

    @property
    def beside(self) -> int:
        """Return the number of rows that are compared one by one, as no index has them."""
        return len(self.ids) - (0 if self.index is None else self.index.size)

    @property
    def vectors(self) -> Vectors:
        """Return the vectors (rows, d) of all rows, present or not."""
        return self._vectors.rows

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """Return (rows,) whether there is a text."""
        return self._present.rows

    def add_first(self, ids: Sequence[str], clusters: Sequence[int | None]) -> None:
        """Name the texts whose vectors the catalogue was made with."""
        assert not self.ids
        assert len(ids) == len(self.vectors)
        self.ids, self.clusters = list(ids), list(clusters)
        self.row_of = {one: row for row, one in enumerate(self.ids)}
        self.present[:] = True

    def put(self, ids: Sequence[str], vectors: Vectors) -> Rows:
        """Add texts with unit vectors (n, d), in place of those with the same ids; they are in no cluster.

        Returns their rows (n,).
        """
        self.remove(ids)
        reused = [self._free.pop() for _ in range(min(len(ids), len(self._free)))]
        rows = np.array([*reused, *range(len(self.ids), len(self.ids) + len(ids) - len(reused))], dtype=np.int64)
        fresh = len(ids) - len(reused)
        self.ids.extend([""] * fresh)
        self.clusters.extend([None] * fresh)
        self._vectors.grow(len(self.ids))
        self._present.grow(len(self.ids))
        self.vectors[rows], self.present[rows] = vectors, True
        for one, row in zip(ids, rows.tolist(), strict=True):
            self.ids[row], self.clusters[row], self.row_of[one] = one, None, row
        return rows

    def remove(self, ids: Sequence[str]) -> Rows:
        """Remove texts; return the rows that they had. Ids that are not there change nothing."""
        rows = [self.row_of.pop(one) for one in ids if one in self.row_of]
        indexed = 0 if self.index is None else self.index.size
        self.present[rows] = False
        self._removed += sum(row < indexed for row in rows)
        # The index has the vectors of its rows.
        self._free += [row for row in rows if row >= indexed]
        return np.array(rows, dtype=np.int64)

    def ordered(self, rows: Rows, cosines: Floats, scores: Floats) -> Scored:
        """Return known texts by their scores with a query: (k,) rows, cosines and scores."""
        ids = [self.ids[row] for row in rows.tolist()]
        order = sorted(range(len(ids)), key=lambda place: (-scores[place], id_key(ids[place])))
        return Scored(rows[order], cosines[order], scores[order])

    def nearest(self, queries: Vectors, count: int) -> list[Nearest]:
        """(q, d) unit vectors -> of each the `count` known texts with the highest cosines, or all if there are fewer.

        Cosines are sums in float64. Without an index all present texts are compared. With one, those that it finds, and
        all that came after it was made.
        """
        answers = list[Nearest]()
        for start in range(0, len(queries), QUERIES):
            block = queries[start : start + QUERIES]
            candidates = [[] for _ in block] if self.index is None else self._indexed(self.index, block, count)
            first = 0 if self.index is None else self.index.size
            for row in range(first, len(self.ids), COLUMNS):
                self._compare(block, count, row, candidates)
            pairs = zip(block, candidates, strict=True)
            answers += [self._ordered(query, rows, count) for query, rows in pairs]
        return answers

    def _compare(self, block: Vectors, count: int, start: int, candidates: list[list[Rows]]) -> None:
        """Add to the candidates of each query those of the next COLUMNS rows that may be among the nearest."""
        stop = min(start + COLUMNS, len(self.ids))
        alive = self.present[start:stop]
        present = int(np.count_nonzero(alive))
        if not present:
            return
        # All rows of the slice: to choose those that are present would copy their vectors for each batch of queries.
        known = self.vectors[start:stop].astype(np.float32, copy=False)
        products = block.astype(np.float32, copy=False) @ known.T
        if present < len(alive):
            products[:, ~alive] = -np.inf
        last = len(alive) - min(count, present)
        # Products in float32 this near the last one that is taken are computed again in float64.
        least = np.partition(products, last, axis=1)[:, last] - 2 * margin(block.shape[1])
        for own, bound, found in zip(products, least, candidates, strict=True):
            found.append(start + np.flatnonzero(own >= bound))

    def _indexed(self, index: KnownIndex, block: Vectors, count: int) -> list[list[Rows]]:
        """Return the rows that the index finds for each query. Where too many were removed, it is asked for more."""
        asked, sought = count + SPARE, min(count, index.size - self._removed)
        while True:
            found = index.candidates(block, min(asked, index.size))
            kept = [rows[(rows >= 0) & self.present[rows]] for rows in found]
            if asked >= index.size + SPARE or not self._removed or min(map(len, kept)) >= sought:
                return [[rows] for rows in kept]
            # An index of cells may not reach as many: then it ends with all that it has.
            asked *= 4

    def _ordered(self, query: Vectors, candidates: list[Rows], count: int) -> Nearest:
        rows = np.concatenate([np.empty(0, dtype=np.int64), *candidates]).astype(np.int64)
        cosines = paired_scores(query[None], np.zeros(len(rows), dtype=np.int64), self.vectors, rows)
        order = sorted(range(len(rows)), key=lambda place: (-cosines[place], id_key(self.ids[rows[place]])))[:count]
        return Nearest(rows[order], cosines[order])
