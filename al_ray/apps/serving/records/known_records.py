"""The p that a matcher gives the pairs of one record with known ones, as jobs.match does; no Ray.

The answer to a record is what jobs.match says of it when it is one more left text, after all others, of the known left
texts and the known right ones; of one table, when it is one more text of that table. So what is kept of each known
text is its highest scores with the known texts of the other side, and those with the record are merged in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from al_ray.apps.serving.records.best_scores import BestScores
from al_ray.apps.serving.records.ways import CosineWay, Counts, Near, TrigramWay, weigh
from al_ray.cluster.candidates.reference import Reference
from al_ray.core.config.sections import CandidatesConfig
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats
from al_ray.core.two_stage_score import candidate_scores
from al_ray.core.vectors import Vectors
from al_ray.matcher.comparisons.record_comparer import RecordComparer
from al_ray.matcher.comparisons.records import Records
from al_ray.matcher.model import Features, Model
from al_ray.search.candidate_ranks import rank_features

Cells = tuple[str, ...]
"""The cells of a record, in the order of the fields of its side; of a side without fields its text alone."""


@dataclass(frozen=True)
class RecordSide:
    """Records of a side, and their unit vectors (n, d)."""

    cells: Sequence[Cells]
    vectors: Vectors


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
    """Known records and a matcher. Not for two threads at a time.

    counts: of candidates by each of WAYS. best: the highest scores of known records with those of the other side, by
    each way.
    """

    def __init__(
        self, reference: Reference, matcher: Model, known: RecordSide, others: RecordSide | None,
        config: CandidatesConfig, threads: int = 1,
    ) -> None:  # fmt: skip
        """others: the left records; None if there is one set of records. config: how many are candidates."""
        self.reference, self.matcher, self.threads = reference, matcher, threads
        self.known, self.others = known, others
        least = inf if reference.dense is None else reference.dense
        of_known = [own if others is None else config.of_right for own in (config.cosine, config.trigrams)]
        self.counts = [
            Counts(config.cosine, of_known[0], config.dense(others is None), least),
            Counts(config.trigrams, of_known[1]),
        ]
        self._fields, self._places = reference.sides.shared
        self._cosine = CosineWay(known.vectors)
        self._weights = reference.weights()
        self._trigrams = TrigramWay(self._weights, [text_of(cells) for cells in known.cells])
        self.best: tuple[BestScores, BestScores] | None = None

    @property
    def symmetric(self) -> bool:
        """Return whether there is one set of records."""
        return self.others is None

    def find_best(self) -> tuple[BestScores, BestScores]:
        """Find the highest scores of all known records, by each way: all pairs are compared."""
        rows, kept = np.arange(len(self.known.cells)), [one.kept for one in self.counts]
        if self.others is None:
            vectors, texts = self.known.vectors, self._trigrams.texts
        else:
            vectors = self.others.vectors
            texts = weigh(self._weights, [text_of(cells) for cells in self.others.cells])
        cosines = self._cosine.best_of(rows, vectors, kept[0], self.symmetric)
        return cosines, self._trigrams.best_of(rows, texts, kept[1], self.symmetric, self.threads)

    def use(self, best: tuple[BestScores, BestScores]) -> None:
        """Take the highest scores of all known records."""
        self.best = best

    def candidates(self, cells: Cells, vector: Vectors) -> Compared:
        """Return the candidates of a record with its unit vector (d,), the best first, equal ones by row."""
        assert self.best is not None
        text = text_of(cells)
        by_cosine = self._cosine.near(vector, self.best[0], self.counts[0])
        by_trigrams, trigrams = self._trigrams.near(text, self.best[1], self.counts[1])
        rows = np.union1d(by_cosine.rows, by_trigrams.rows)
        cosines = self._cosine.scores(vector, rows)
        ranks = [
            self._ranks(by_cosine, self.best[0], rows, cosines),
            self._ranks(by_trigrams, self.best[1], rows, trigrams[rows]),
        ]
        features = np.concatenate([*ranks, self._compare(cells, rows)], axis=1)
        scores = candidate_scores(self.matcher.probability(features, self.threads), cosines)
        order = np.lexsort((rows, -scores))
        return Compared(rows[order], scores[order], features[order])

    def _ranks(self, near: Near, best: BestScores, rows: Rows, scores: Floats) -> Features:
        """(k,) rows and scores by a way, -inf for none -> (k, 5) how the pairs stand among those of their texts."""
        known, own = best.summary_with(rows, scores), np.broadcast_to(near.summary, (len(rows), 2))
        return rank_features(_found(scores), own, known, self.symmetric)

    def _compare(self, cells: Cells, rows: Rows) -> Features:
        """Compare a record with those of (k,) rows; of one set of records it comes after them."""
        known = _records([self.known.cells[row] for row in rows.tolist()], self._places[1])
        asked = _records([cells], self._places[0])
        sides, own = (known, asked) if self.symmetric else (asked, known), np.zeros(len(rows), dtype=np.int64)
        comparer = RecordComparer(self._fields, *sides, self.reference.frequencies, self.threads)
        pairs = (np.arange(len(rows)), own) if self.symmetric else (own, np.arange(len(rows)))
        return comparer.compare(np.stack(pairs, axis=1))


def _found(scores: Floats) -> Floats:
    """Return scores with 0 for those that a way does not find, as lexical_scores has them."""
    return np.where(scores > -np.inf, scores, 0.0)


def _records(rows: Sequence[Cells], places: Sequence[int]) -> Records:
    return Records([text_of(cells) for cells in rows], tuple([cells[place] for cells in rows] for place in places))
