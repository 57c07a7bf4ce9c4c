"""The two ways to find candidates among known texts, for one text at a time: by cosine, and by 3-grams.

What they find are the candidates of al_ray/cluster/candidates, and scores have the same bits: those of pairs that may
count are computed by the same functions. Texts come and go; no score depends on the rows that they have.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from al_ray.apps.serving.growing import GrowingArray
from al_ray.apps.serving.records.best_scores import BestScores
from al_ray.apps.serving.records.gram_table import NO_ROWS, GramTable
from al_ray.core.candidates import margin
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Block, Vectors, paired_scores
from al_ray.search.candidate_ranks import FEW, NearestOf
from al_ray.search.faiss_index import exact_nearest
from al_ray.search.lexical.conditions import PairConditions
from al_ray.search.lexical.nearest import nearest_among, prepare_others
from al_ray.search.lexical.weights import WeightedTexts

SPARE = 12
"""Neighbours beyond those wanted, of which float32 decides which they are; and scores that are kept of a known text, so
that its list need not be made again when one of its nearest goes."""
BLOCK = 2**13  # Texts whose nearest are looked for at a time.
FRESH = 32  # Texts that are compared with all others at a time, as they come.
InOrder = Callable[[Rows], Rows]
"""Puts rows of known texts into the order in which equal scores are taken."""
Pairs = tuple[Rows, Rows, Floats]
"""Places (m,) of texts, rows (m,) of known ones, and scores (m,)."""
NO_PAIRS: Pairs = NO_ROWS, NO_ROWS, np.empty(0)


@dataclass(frozen=True)
class Counts:
    """How many nearest are candidates: of a text that is asked about, and of a known text.

    dense: how many of a text that is asked about at most, by cosine, of those whose cosine is at least `least`.
    """

    own: int
    of_known: int
    dense: int = 0
    least: float = np.inf

    @property
    def needed(self) -> int:
        """Return how many scores of a known text are looked at."""
        return max(self.of_known, FEW)

    @property
    def kept(self) -> int:
        """Return how many scores of a known text are kept."""
        return self.needed + SPARE


@dataclass(frozen=True)
class Near:
    """What a way says of one text: summary (2,) of its scores, as NearestOf has it; rows (f,) of its candidates."""

    summary: Floats
    rows: Rows


class CosineWay:
    """Texts by their unit vectors (n, d)."""

    def __init__(self, vectors: Vectors) -> None:
        """Keep them in float32, too, in which products are fast."""
        self.vectors = vectors
        self._single = GrowingArray(np.ascontiguousarray(vectors, dtype=np.float32))
        self._absent = NO_ROWS
        self._margin = 2 * margin(vectors.shape[1])

    def change(self, vectors: Vectors, rows: Rows, present: npt.NDArray[np.bool_]) -> None:
        """Take over all vectors (n, d), of which those of (m,) rows are new. present: (n,) whether there is a text."""
        self.vectors, self._absent = vectors, np.flatnonzero(~present)
        if vectors.dtype == np.float32:
            self._single = GrowingArray(vectors)
            return
        self._single.grow(len(vectors))
        self._single.rows[rows] = vectors[rows]

    def __len__(self) -> int:
        """Return the number of texts that are present."""
        return len(self.vectors) - len(self._absent)

    def near(self, vector: Vectors, best: BestScores, counts: Counts, in_order: InOrder) -> Near:
        """(d,) unit vector of a text -> what is near to it. best: of the known texts with those of its side."""
        products = self.products(vector)
        nearest = self.nearest(vector, products, max(counts.own, FEW), in_order)
        entered = np.flatnonzero(products >= best.least(counts.of_known) - self._margin)
        entered = entered[products[entered] > -np.inf]
        entered = entered[self.scores(vector, entered) > best.least(counts.of_known)[entered]]
        entered = np.concatenate([nearest.best(counts.own).rows, entered])
        if counts.dense and np.isfinite(counts.least):
            rows = in_order(np.flatnonzero(products >= counts.least - self._margin))
            of_dense = Sorted(rows, self.scores(vector, rows)).best(counts.dense)
            entered = np.concatenate([entered, of_dense.rows[of_dense.scores >= counts.least]])
        return Near(nearest.summary(), np.unique(entered))

    def products(self, vector: Vectors) -> npt.NDArray[np.float32]:
        """(d,) unit vector of a text -> (n,) its products with all texts, in float32; -inf for one that is absent."""
        products = self._single.rows @ vector.astype(np.float32)
        products[self._absent] = -np.inf
        return products

    def scores(self, vector: Vectors, rows: Rows) -> Floats:
        """(d,) unit vector of a text, (m,) rows of known ones -> (m,) cosines in float64."""
        return paired_scores(vector[None], np.zeros(len(rows), dtype=np.int64), self.vectors, rows)

    def lists(self, texts: Rows, of: "CosineWay", width: int, floor: Floats | None) -> tuple[BestScores, Pairs]:
        """Compare (m,) texts of a way, which may be this one, with all of this one.

        Returns their lists, and the pairs whose score is above `floor` (n,) of this way's text; none without a floor.
        """
        products = of._single.rows[texts] @ self._single.rows.T
        products[:, self._absent] = -np.inf
        if of is self:
            products[np.arange(len(texts)), texts] = -np.inf
        nearest = [self.nearest(of.vectors[row], own, width) for row, own in zip(texts.tolist(), products, strict=True)]
        if floor is None:
            return lists_of(nearest, width), NO_PAIRS
        above = (products >= floor - self._margin) & (products > -np.inf)
        lines, rows = np.nonzero(above)
        scores = paired_scores(of.vectors[texts], lines, self.vectors, rows)
        return lists_of(nearest, width), (lines, rows, scores)

    def best_of(self, others: "CosineWay", count: int) -> BestScores:
        """Return the lists of all texts with those of another way, or of this one: all pairs are compared."""
        rows, same, vectors = np.arange(len(self.vectors)), others is self, others.vectors
        scores, partners = np.full((len(rows), count), -np.inf), np.full((len(rows), count), -1)
        block = Block(np.arange(len(vectors)), vectors)
        for start in range(0, len(rows), BLOCK):
            own = rows[start : start + BLOCK]
            rough, found = exact_nearest(block, self.vectors[own], count + SPARE + same, "ip")
            lines = np.repeat(np.arange(len(own)), found.shape[1])
            exact = paired_scores(self.vectors[own], lines, vectors, found.ravel()).reshape(found.shape)
            if same:
                exact[found == own[:, None]] = -np.inf
            order = np.lexsort((found, -exact), axis=1)[:, :count]
            here = slice(start, start + len(own))
            scores[here, : order.shape[1]] = np.take_along_axis(exact, order, axis=1)
            partners[here, : order.shape[1]] = np.take_along_axis(found, order, axis=1)
            if found.shape[1] == len(vectors):
                continue
            # Where one that was not found may be among the best, the text is compared with all.
            for line in np.flatnonzero(rough[:, -1] + self._margin >= scores[here, -1]).tolist():
                every = paired_scores(self.vectors[own], np.full(len(vectors), line), vectors, np.arange(len(vectors)))
                if same:
                    every[own[line]] = -np.inf
                first = np.argsort(-every, kind="stable")[:count]
                scores[start + line], partners[start + line] = every[first], first
        return BestScores(scores, np.where(np.isfinite(scores), partners, -1))

    def nearest(
        self, vector: Vectors, products: npt.NDArray[Any], count: int, in_order: InOrder | None = None
    ) -> "Sorted":
        """Return the `count` nearest of a text, or all if there are fewer; products: (n,), -inf for no pair."""
        wanted = min(count, int(np.count_nonzero(products > -np.inf)))
        if not wanted:
            return Sorted(NO_ROWS, np.empty(0))
        least = np.partition(products, len(products) - wanted)[len(products) - wanted] - self._margin
        rows = np.flatnonzero(products >= least)
        rows = rows if in_order is None else in_order(rows)
        return Sorted(rows, self.scores(vector, rows)).best(wanted)


class TrigramWay:
    """Texts by the weights of their 3-grams."""

    def __init__(self, texts: WeightedTexts) -> None:
        """Take the weights of all texts."""
        self.table = GramTable(texts)

    def near(
        self, query: WeightedTexts, best: BestScores, counts: Counts, in_order: InOrder
    ) -> tuple[Near, Floats]:  # fmt: skip
        """Return what is near to one text, and its scores (n,) with all known texts; -inf without a common 3-gram."""
        [(rows, found)] = self.table.scores(query)
        scores = np.full(len(self.table), -np.inf)
        scores[rows] = found
        nearest = _highest(rows, found, max(counts.own, FEW), in_order)
        entered = rows[found > best.least(counts.of_known)[rows]]
        return Near(nearest.summary(), np.union1d(nearest.best(counts.own).rows, entered)), scores

    def lists(
        self, texts: WeightedTexts, width: int, floor: Floats | None, own: Rows | None = None
    ) -> tuple[BestScores, Pairs]:  # fmt: skip
        """Compare (m,) texts with all of this way, as CosineWay does. own: the rows that they have here."""
        nearest, pairs = list[Sorted](), [NO_PAIRS]
        for line, (rows, found) in enumerate(self.table.scores(texts)):
            if own is not None:
                others = rows != own[line]
                rows, found = rows[others], found[others]
            nearest.append(_highest(rows, found, width))
            above = NO_ROWS if floor is None else np.flatnonzero(found > floor[rows])
            pairs.append((np.full(len(above), line), rows[above], found[above]))
        lines, rows, scores = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        return lists_of(nearest, width), (lines, rows, scores)

    def best_of(self, others: "TrigramWay", count: int, threads: int) -> BestScores:
        """Return the lists of all texts with those of another way, or of this one: all pairs are compared."""
        conditions = PairConditions(symmetric=others is self)
        prepared = list(prepare_others([others.table.texts], conditions))
        parts, texts = list[tuple[Floats, Rows]](), self.table.texts
        for start in range(0, len(texts), BLOCK):
            own = texts.take(np.arange(start, min(start + BLOCK, len(texts))))
            scores, partners = nearest_among(own, prepared, count, conditions, threads)
            parts.append((scores.astype(np.float64), partners))
        return BestScores(
            np.concatenate([np.empty((0, count)), *(scores for scores, _ in parts)]),
            np.concatenate([np.empty((0, count), dtype=np.int64), *(partners for _, partners in parts)]),
        )


@dataclass(frozen=True)
class Sorted:
    """Rows (k,) of known texts in the order in which equal scores are taken, and their scores (k,) with one text."""

    rows: Rows
    scores: Floats

    def best(self, count: int) -> "Sorted":
        """Return those of the `count` highest scores, the best first."""
        first = np.argsort(-self.scores, kind="stable")[:count]
        return Sorted(self.rows[first], self.scores[first])

    def summary(self) -> Floats:
        """Return (2,) what NearestOf.summary says of one text."""
        lines = np.zeros(len(self.rows), dtype=np.int64)
        return NearestOf(np.zeros(1, dtype=np.int64), lines, self.rows, self.scores).summary()[0]


def lists_of(nearest: list[Sorted], width: int) -> BestScores:
    """Return lists of the nearest of each text, sorted; one of fewer than `width` has all that there are."""
    lists = BestScores.empty(len(nearest), width)
    for line, own in enumerate(nearest):
        lists.scores[line, : len(own.rows)], lists.partners[line, : len(own.rows)] = own.scores, own.rows
    return BestScores(lists.scores, lists.partners)


def blocks(rows: Rows) -> Iterator[Rows]:
    """Yield rows in parts of FRESH."""
    for start in range(0, len(rows), FRESH):
        yield rows[start : start + FRESH]


def _highest(rows: Rows, scores: Floats, count: int, in_order: InOrder | None = None) -> Sorted:
    """Return the `count` highest of (k,) rows and scores, or all if there are fewer."""
    wanted = min(count, len(rows))
    if not wanted:
        return Sorted(NO_ROWS, np.empty(0))
    few = np.flatnonzero(scores >= np.partition(scores, len(scores) - wanted)[len(scores) - wanted])
    kept = dict(zip(rows[few].tolist(), scores[few].tolist(), strict=True))
    ordered = rows[few] if in_order is None else in_order(rows[few])
    return Sorted(ordered, np.array([kept[row] for row in ordered.tolist()])).best(wanted)
