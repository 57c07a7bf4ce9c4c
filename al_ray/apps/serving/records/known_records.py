"""The p that a matcher gives the pairs of one record with known ones, as `match` does; no Ray.

The answer to a record is what `match` says of it when it is one more left text, after all others, of the known left
texts and the known right ones; of one table, when it is one more text of that table. So what is kept of each known
text is its highest scores with the known texts of the other side, and those with the record are merged in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from al_ray.apps.serving.records.best_scores import BestScores
from al_ray.apps.serving.records.gram_table import NO_ROWS
from al_ray.apps.serving.records.renewal import renew
from al_ray.apps.serving.records.ways import (
    CosineWay,
    Counts,
    Near,
    Pairs,
    TrigramWay,
)
from al_ray.cluster.candidates.reference import Reference
from al_ray.core.config.sections import CandidatesConfig
from al_ray.core.id_order import id_key
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats
from al_ray.core.two_stage_score import candidate_scores
from al_ray.core.vectors import Vectors
from al_ray.matcher.comparisons.record_comparer import RecordComparer
from al_ray.matcher.comparisons.records import Records
from al_ray.matcher.model import Features, Model
from al_ray.search.candidate_ranks import rank_features
from al_ray.search.lexical.grams import Grams
from al_ray.search.lexical.weights import GramWeights, WeightedTexts

Cells = tuple[str, ...]
"""The cells of a record, in the order of the fields of its side; of a side without fields its text alone."""


Present = npt.NDArray[np.bool_]
Best = tuple[BestScores, ...]
"""Of each way."""


@dataclass(frozen=True)
class RecordSide:
    """Records of a side, their unit vectors (n, d), and their ids, by which equal scores are ordered.

    ids: () for those that are in the order of their ids, and that none is added to.
    """

    cells: Sequence[Cells]
    vectors: Vectors
    ids: Sequence[str] = ()

    @property
    def keys(self) -> list[Any]:
        """Return what the records are ordered by."""
        return [id_key(one) for one in self.ids] if self.ids else list(range(len(self.cells)))


@dataclass(frozen=True)
class Compared:
    """The candidates of a record: known rows (k,), scores of two stages (k,), and features (k, F), the best first."""

    rows: Rows
    scores: Floats
    features: Features


def text_of(cells: Cells) -> str:
    """Return the text of a record: its cells that are not empty, joined by a space."""
    return " ".join(cell for cell in cells if cell)


class KnownRecords:
    """Known records and a matcher, which come and go. Not for two threads at a time.

    counts: of candidates by each of WAYS. best: the highest scores of known records with those of the other side, by
    each way.
    """

    def __init__(
        self, reference: Reference, matcher: Model, known: RecordSide, others: RecordSide | None,
        config: CandidatesConfig, threads: int = 1,
    ) -> None:  # fmt: skip
        """others: the left records; None if there is one set of records. config: how many are candidates."""
        self.reference, self.matcher, self.threads = reference, matcher, threads
        self.cells, self._keys = list(known.cells), known.keys
        self._present = np.ones(len(self.cells), dtype=np.bool_)
        least = inf if reference.dense is None else reference.dense
        of_known = [own if others is None else config.of_right for own in (config.cosine, config.trigrams)]
        self.counts = [
            Counts(config.cosine, of_known[0], config.dense(others is None), least),
            Counts(config.trigrams, of_known[1]),
        ]
        self._fields, self._places = reference.sides.shared
        self._weights = reference.weights()
        self._cosine, self._trigrams = self._ways(known)
        self._others = None if others is None else self._ways(others)
        self.best: Best | None = None

    @property
    def digest(self) -> str:
        """Return the digest of what scores depend on beside the records."""
        return self.reference.digest

    @property
    def symmetric(self) -> bool:
        """Return whether there is one set of records."""
        return self._others is None

    def find_best(self) -> Best:
        """Find the highest scores of all known records, by each way: all pairs are compared."""
        cosine, trigrams = (self._cosine, self._trigrams) if self._others is None else self._others
        kept = [one.kept for one in self.counts]
        return self._cosine.best_of(cosine, kept[0]), self._trigrams.best_of(trigrams, kept[1], self.threads)

    def use(self, best: Best, fresh: Rows = NO_ROWS) -> None:
        """Take the highest scores of all known records, but for those of (m,) rows, which are found now."""
        self.best = best
        self._renew(fresh)

    def change(self, gone: Rows, rows: Rows, fresh: RecordSide, vectors: Vectors, present: Present) -> None:
        """Take away the records of (g,) rows, and put others (m,) in (m,) rows, which are new or have none.

        vectors, present: (n, d) and (n,) of all rows then.
        """
        assert self.best is not None
        more = len(vectors) - len(self.cells)
        self.cells += [()] * more
        self._keys += [id_key("")] * more
        for row, cells, key in zip(rows.tolist(), fresh.cells, fresh.keys, strict=True):
            self.cells[row], self._keys[row] = cells, key
        self._present = present
        self._cosine.change(vectors, rows, present)
        self._trigrams.table.change(gone, rows, self._weigh(rows))
        if self.symmetric:
            for best in self.best:
                best.drop(gone)
        self._renew(rows)

    def candidates(self, cells: Cells, vector: Vectors) -> Compared:
        """Return the candidates of a record with its unit vector (d,), the best first, equal ones by id."""
        assert self.best is not None
        by_cosine = self._cosine.near(vector, self.best[0], self.counts[0], self._in_order)
        query = weigh(self._weights, [text_of(cells)])
        by_trigrams, trigrams = self._trigrams.near(query, self.best[1], self.counts[1], self._in_order)
        rows = self._in_order(np.union1d(by_cosine.rows, by_trigrams.rows))
        cosines = self._cosine.scores(vector, rows)
        ranks = [
            self._ranks(by_cosine, self.best[0], rows, cosines),
            self._ranks(by_trigrams, self.best[1], rows, trigrams[rows]),
        ]
        features = np.concatenate([*ranks, self._compare(cells, rows)], axis=1)
        scores = candidate_scores(self.matcher.probability(features, self.threads), cosines)
        order = np.argsort(-scores, kind="stable")
        return Compared(rows[order], scores[order], features[order])

    def _ways(self, side: RecordSide) -> tuple[CosineWay, TrigramWay]:
        return CosineWay(side.vectors), TrigramWay(weigh(self._weights, [text_of(cells) for cells in side.cells]))

    def _weigh(self, rows: Rows) -> WeightedTexts:
        return weigh(self._weights, [text_of(self.cells[row]) for row in rows.tolist()])

    def _in_order(self, rows: Rows) -> Rows:
        """Return rows in the order of their ids."""
        return np.array(sorted(rows.tolist(), key=self._keys.__getitem__), dtype=np.int64)

    def _renew(self, fresh: Rows) -> None:
        """Find the highest scores of fresh records, and of others that need it, by each way."""
        assert self.best is not None
        for number, (best, counts) in enumerate(zip(self.best, self.counts, strict=True)):

            def compare(
                rows: Rows, number: int = number, best: BestScores = best, width: int = counts.kept
            ) -> tuple[BestScores, Pairs]:
                return self._lists(number, rows, best, width)

            renew(best, counts, fresh, self._present, self.symmetric, compare)

    def _lists(self, number: int, rows: Rows, best: BestScores, width: int) -> tuple[BestScores, Pairs]:
        """Compare (m,) rows with all texts of the other side, by a way."""
        if self._others is None:
            if number == 0:
                return self._cosine.lists(rows, self._cosine, width, best.floor)
            return self._trigrams.lists(self._weigh(rows), width, best.floor, rows)
        if number == 0:
            return self._others[0].lists(rows, self._cosine, width, None)
        return self._others[1].lists(self._weigh(rows), width, None)

    def _ranks(self, near: Near, best: BestScores, rows: Rows, scores: Floats) -> Features:
        """(k,) rows and scores by a way, -inf for none -> (k, 5) how the pairs stand among those of their texts."""
        known, own = best.summary_with(rows, scores), np.broadcast_to(near.summary, (len(rows), 2))
        return rank_features(_found(scores), own, known, self.symmetric)

    def _compare(self, cells: Cells, rows: Rows) -> Features:
        """Compare a record with those of (k,) rows; of one set of records it comes after them."""
        known = _records([self.cells[row] for row in rows.tolist()], self._places[1])
        asked = _records([cells], self._places[0])
        sides, own = (known, asked) if self.symmetric else (asked, known), np.zeros(len(rows), dtype=np.int64)
        comparer = RecordComparer(self._fields, *sides, self.reference.frequencies, self.threads)
        pairs = (np.arange(len(rows)), own) if self.symmetric else (own, np.arange(len(rows)))
        return comparer.compare(np.stack(pairs, axis=1))


def weigh(weights: GramWeights, texts: Sequence[str]) -> WeightedTexts:
    """Return the weights of the 3-grams of texts, whose rows are their places."""
    return weights.weigh(np.arange(len(texts)), Grams.of(texts))


def _found(scores: Floats) -> Floats:
    """Return scores with 0 for those that a way does not find, as lexical_scores has them."""
    return np.where(scores > -np.inf, scores, 0.0)


def _records(rows: Sequence[Cells], places: Sequence[int]) -> Records:
    return Records([text_of(cells) for cells in rows], tuple([cells[place] for cells in rows] for place in places))
