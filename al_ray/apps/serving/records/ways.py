"""The two ways to find candidates among known texts, for one text at a time: by cosine, and by 3-grams.

What they find are the candidates of al_ray/cluster/candidates, and scores have the same bits: those of pairs that may
count are computed by the same functions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from al_ray.apps.serving.records.best_scores import BestScores
from al_ray.core.candidates import margin
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Block, Vectors, paired_scores
from al_ray.search.candidate_ranks import FEW, NearestOf
from al_ray.search.faiss_index import exact_nearest
from al_ray.search.lexical.conditions import OtherTexts, PairConditions
from al_ray.search.lexical.grams import Grams
from al_ray.search.lexical.nearest import nearest_among, prepare_others, scores_of_sums
from al_ray.search.lexical.weights import GramWeights, WeightedTexts

SPARE = 12
"""Neighbours beyond those wanted, of which float32 decides which they are."""
BLOCK = 2**13  # Texts whose nearest are looked for at a time.


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
    def kept(self) -> int:
        """Return how many scores of a known text are kept."""
        return max(self.of_known, FEW)


@dataclass(frozen=True)
class Near:
    """What a way says of one text: summary (2,) of its scores, as NearestOf has it; rows (f,) of its candidates."""

    summary: Floats
    rows: Rows


class CosineWay:
    """Known texts by their unit vectors (n, d)."""

    def __init__(self, vectors: Vectors) -> None:
        """Keep them in float32, too, in which products are fast."""
        self.vectors = vectors
        self._single = np.ascontiguousarray(vectors, dtype=np.float32)
        self._margin = 2 * margin(vectors.shape[1])

    def near(self, vector: Vectors, best: BestScores, counts: Counts) -> Near:
        """(d,) unit vector of a text -> what is near to it. best: of the known texts with those of its side."""
        products = self._single @ vector.astype(np.float32)
        wanted = min(max(counts.own, FEW), len(products))
        least = np.partition(products, len(products) - wanted)[len(products) - wanted] - self._margin
        rows = np.flatnonzero(products >= least)
        nearest = _nearest(rows, self.scores(vector, rows), wanted)
        entered = np.flatnonzero(products >= best.least(counts.of_known) - self._margin)
        entered = entered[self.scores(vector, entered) > best.least(counts.of_known)[entered]]
        entered = np.concatenate([nearest.best(counts.own).partners, entered])
        if counts.dense and np.isfinite(counts.least):
            rows = np.flatnonzero(products >= counts.least - self._margin)
            of_dense = _nearest(rows, self.scores(vector, rows), counts.dense)
            entered = np.concatenate([entered, of_dense.partners[of_dense.scores >= counts.least]])
        return Near(nearest.summary()[0], np.unique(entered))

    def scores(self, vector: Vectors, rows: Rows) -> Floats:
        """(d,) unit vector of a text, (m,) rows of known ones -> (m,) cosines in float64."""
        return paired_scores(vector[None], np.zeros(len(rows), dtype=np.int64), self.vectors, rows)

    def best_of(self, rows: Rows, others: Vectors, count: int, same: bool) -> BestScores:
        """Return the best scores of (m,) rows with the texts of others (o, d). same: these are all known texts."""
        scores, partners = np.full((len(rows), count), -np.inf), np.full((len(rows), count), -1)
        block = Block(np.arange(len(others)), others)
        for start in range(0, len(rows), BLOCK):
            own = rows[start : start + BLOCK]
            rough, found = exact_nearest(block, self.vectors[own], count + SPARE + same, "ip")
            lines = np.repeat(np.arange(len(own)), found.shape[1])
            exact = paired_scores(self.vectors[own], lines, others, found.ravel()).reshape(found.shape)
            if same:
                exact[found == own[:, None]] = -np.inf
            order = np.lexsort((found, -exact), axis=1)[:, :count]
            here = slice(start, start + len(own))
            scores[here, : order.shape[1]] = np.take_along_axis(exact, order, axis=1)
            partners[here, : order.shape[1]] = np.take_along_axis(found, order, axis=1)
            if found.shape[1] == len(others):
                continue
            # Where one that was not found may be among the best, the text is compared with all.
            for line in np.flatnonzero(rough[:, -1] + self._margin >= scores[here, -1]).tolist():
                every = paired_scores(self.vectors[own], np.full(len(others), line), others, np.arange(len(others)))
                if same:
                    every[own[line]] = -np.inf
                first = np.argsort(-every, kind="stable")[:count]
                scores[start + line], partners[start + line] = every[first], first
        return BestScores(scores, np.where(np.isfinite(scores), partners, -1))


class TrigramWay:
    """Known texts by the weights of their 3-grams."""

    def __init__(self, weights: GramWeights, texts: Sequence[str]) -> None:
        """Weigh the 3-grams of all texts."""
        self.weights, self.texts = weights, weigh(weights, texts)
        # One block, because a product with one text is small.
        self._matrix = OtherTexts(self.texts, PairConditions()).matrix

    def near(self, text: str, best: BestScores, counts: Counts) -> tuple[Near, Floats]:
        """Return what is near to a text, and its scores (n,) with all known texts; -inf without a common 3-gram."""
        query: Any = weigh(self.weights, [text]).weights.astype(np.int64)
        sums = query @ self._matrix
        rows, found = sums.indices.astype(np.int64), scores_of_sums(sums.data).astype(np.float64)
        rows, found = rows[sums.data > 0], found[sums.data > 0]
        scores = np.full(len(self.texts), -np.inf)
        scores[rows] = found
        wanted = min(max(counts.own, FEW), len(rows))
        few = np.flatnonzero(found >= np.partition(found, len(found) - wanted)[len(found) - wanted]) if wanted else rows
        nearest = _nearest(rows[few], found[few], wanted)
        entered = rows[found > best.least(counts.of_known)[rows]]
        return Near(nearest.summary()[0], np.union1d(nearest.best(counts.own).partners, entered)), scores

    def best_of(self, rows: Rows, others: WeightedTexts, count: int, same: bool, threads: int) -> BestScores:
        """Return the best scores of (m,) rows with other texts. same: these are all known texts."""
        conditions = PairConditions(symmetric=same)
        prepared = list(prepare_others([others], conditions))
        parts = list[BestScores]()
        for start in range(0, len(rows), BLOCK):
            own = self.texts.take(rows[start : start + BLOCK])
            scores, partners = nearest_among(own, prepared, count, conditions, threads)
            parts.append(BestScores(scores.astype(np.float64), partners))
        return BestScores(
            np.concatenate([np.empty((0, count)), *(part.scores for part in parts)]),
            np.concatenate([np.empty((0, count), dtype=np.int64), *(part.partners for part in parts)]),
        )


def weigh(weights: GramWeights, texts: Sequence[str]) -> WeightedTexts:
    """Return the weights of the 3-grams of texts, whose rows are their places."""
    return weights.weigh(np.arange(len(texts)), Grams.of(texts))


def _nearest(rows: Rows, scores: Floats, count: int) -> NearestOf:
    """Return the nearest of one text, row 0."""
    lines = np.zeros(len(rows), dtype=np.int64)
    return NearestOf(np.zeros(1, dtype=np.int64), lines, rows, scores).best(count)
