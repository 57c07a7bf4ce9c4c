"""The texts of a task as a shard compares them: their 3-grams, and the values of their fields."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from al_ray.cluster.candidates.reference import Reference, Sides
from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.scorer import Floats
from al_ray.core.task import Corpus, strings_at
from al_ray.datasets.field_types import field_pairs
from al_ray.datasets.task_folder import read_sides
from al_ray.matcher.comparisons.frequencies import frequencies_of
from al_ray.matcher.comparisons.record_comparer import RecordComparer
from al_ray.matcher.comparisons.records import Records, records_of
from al_ray.search.candidate_ranks import FEW, Features, NearestOf, rank_features, rank_names
from al_ray.search.lexical.conditions import PairConditions
from al_ray.search.lexical.grams import DEFINITION, Grams, StoredGrams, has_chunk
from al_ray.search.lexical.nearest import lexical_scores, nearest_lexical
from al_ray.search.lexical.weights import ADDITIONS, SHARE, TEXTS, DocumentFrequencies, WeightedTexts
from al_ray.search.shard_spec import ShardSpec
from al_ray.storage.download import fetched
from al_ray.storage.uri import storage_path

PAIRS = 2**16  # Pairs whose texts are in memory at a time.
ROWS = 2**16  # Texts whose 3-grams are weighed, or whose words are counted, at a time.
GRAMS = f"grams-{DEFINITION}"
GramTable = Grams | StoredGrams
WAYS = ("cosine", "3-grams")
"""How candidates are found."""


def write_grams(spec: ShardSpec) -> None:
    """Write the missing part of a shard's share of the 3-grams of all texts of the task into the pool folder."""
    left, right = read_sides(storage_path(spec.task))
    sides = {"left": left} if right is left else {"left": left, "right": right}
    chunks = [(side, number, rows) for side, corpus in sides.items() for number, rows in enumerate(_blocks(corpus))]
    for side, number, rows in chunks[spec.shard :: spec.shards]:
        folder = storage_path(spec.folder) / GRAMS / side
        if not has_chunk(folder, number):
            Grams.of(strings_at(sides[side].texts, rows)).write(folder, number)


def definition_of(left: Corpus, right: Corpus) -> dict[str, Any]:
    """Return what decides comparisons beside the joined texts: names, types and cells of the fields, and 3-grams."""
    shared = [[one.name, one.type, one.left, one.right] for one in field_pairs(left, right)]
    cells = hashlib.sha256()
    for corpus in (left, right):
        if corpus.fields is not None:
            cells.update(np.ascontiguousarray(corpus.fields.lengths, dtype="<i4").data)
    return {"fields": shared, "cells": cells.hexdigest(), "3-grams": [DEFINITION, SHARE, TEXTS, ADDITIONS], "few": FEW}


def feature_names(left: Corpus, right: Corpus) -> tuple[str, ...]:
    """Return the names of all features of a task's pairs: ranks by each way, then comparisons."""
    fields, _ = Sides.of(left, right).shared
    nothing = Records((), tuple(() for _ in fields))
    ranks = (name for way in WAYS for name in rank_names(way, right is left))
    return (*ranks, *RecordComparer(fields, nothing, nothing).names)


class ComparedRecords:
    """Two sides of records, compared by a reference. names: of the features of a pair."""

    def __init__(
        self, left: Corpus, right: Corpus, grams: tuple[GramTable, GramTable], reference: Reference | None, threads: int
    ) -> None:
        """Take texts with their 3-grams, the same ones twice if both sides are one. Without a reference, count them.

        BadOption for a reference of other fields.
        """
        self.left, self.right = (left, right) if reference is None else reference.sides.typed(left, right)
        self.symmetric, self.threads = self.right is self.left, threads
        sides = Sides.of(self.left, self.right)
        self.fields, self.places = sides.shared
        self.names = feature_names(self.left, self.right)
        self._left_grams, self._right_grams = grams
        counted = DocumentFrequencies.of(
            part for side in grams[: 1 if self.symmetric else 2] for _, part in side.chunks
        )
        self.reference = self._count(sides, counted) if reference is None else reference
        self._weights = self.reference.weights(np.flatnonzero(counted.counts))

    def features(self, pairs: Pairs, cosines: Floats, left: Floats, right: Floats) -> Features:
        """(n, 2) pairs with cosines (n,) -> (n, F): ranks by each way, and comparisons.

        left, right: (texts, 2 * ways) summaries of all texts of each side (candidate_ranks.py).
        """
        ranks = list[Features]()
        for at, of_way in enumerate((cosines, self.trigrams(pairs))):
            columns = slice(2 * at, 2 * at + 2)
            summaries = left[pairs[:, 0], columns], right[pairs[:, 1], columns]
            ranks.append(rank_features(of_way, *summaries, self.symmetric))
        return np.concatenate([*ranks, self.compare(pairs)], axis=1)

    def compare(self, pairs: Pairs) -> Features:
        """(n, 2) pairs of rows -> (n, F) comparisons of their fields and texts."""
        parts = [self._compared(pairs[start : start + PAIRS]) for start in range(0, len(pairs), PAIRS)]
        empty = self._comparer(np.empty((0, 2), dtype=np.int64)).compare(np.empty((0, 2), dtype=np.int64))
        return np.concatenate([empty, *parts])

    def trigrams(self, pairs: Pairs) -> Floats:
        """(n, 2) pairs of rows -> (n,) cosines of their 3-grams."""
        scores = np.empty(len(pairs))
        for start in range(0, len(pairs), PAIRS):
            here = slice(start, start + PAIRS)
            (left, lines), (right, others) = (np.unique(side, return_inverse=True) for side in pairs[here].T)
            texts, other = self._weigh("left", left), self._weigh("right", right)
            scores[here] = lexical_scores(texts, other, np.stack([lines, others], axis=1))
        return scores

    def nearest(self, side: str, rows: Rows, others: Rows, count: int, rule: PairRule | None) -> Iterator[NearestOf]:
        """Yield the nearest by 3-grams of blocks of the texts (n,) of a side, among rows (m,) of the other side."""
        conditions, other = PairConditions(self.symmetric, rule), "right" if side == "left" else "left"
        conditions = conditions if side == "left" else conditions.turned
        for start in range(0, len(rows), ROWS):
            own = rows[start : start + ROWS]
            parts = (self._weigh(other, others[first : first + ROWS]) for first in range(0, len(others), ROWS))
            scores, found = nearest_lexical(self._weigh(side, own), parts, count, conditions, self.threads)
            lines, columns = np.nonzero(found >= 0)
            yield NearestOf(own, lines, found[lines, columns], scores[lines, columns].astype(np.float64))

    def _weigh(self, side: str, rows: Rows) -> WeightedTexts:
        grams = self._left_grams if side == "left" else self._right_grams
        return self._weights.weigh(rows, grams.take(rows))

    def _compared(self, pairs: Pairs) -> Features:
        lines = np.stack([np.unique(side, return_inverse=True)[1] for side in pairs.T], axis=1)
        return self._comparer(pairs).compare(lines)

    def _comparer(self, pairs: Pairs) -> RecordComparer:
        """Return the comparer of the texts of (n, 2) pairs, each side in order of rows."""
        left, right = (
            records_of(corpus, places, np.unique(rows))
            for corpus, places, rows in zip((self.left, self.right), self.places, pairs.T, strict=True)
        )
        return RecordComparer(self.fields, left, right, self.reference.frequencies, self.threads)

    def _count(self, sides: Sides, grams: DocumentFrequencies) -> Reference:
        """Count values and words of both sides."""
        corpora = [(self.left, self.places[0])] + ([] if self.symmetric else [(self.right, self.places[1])])
        total = None
        for corpus, places in corpora:
            for rows in _blocks(corpus):
                counts = frequencies_of(self.fields, records_of(corpus, places, rows))
                total = counts if total is None else total + counts
        assert total is not None
        return Reference(sides, total, grams, grams.most)


class TaskRecords(ComparedRecords):
    """Both sides of a task, read where they lie, with the stored 3-grams of the pool."""

    def __init__(self, spec: ShardSpec, reference: Reference | None = None) -> None:
        """Open the files of the task and of the pool; the rest as for records in memory."""
        left, right = read_sides(storage_path(spec.task))
        folder = fetched(storage_path(spec.folder) / GRAMS)
        grams = StoredGrams(folder / "left", len(left))
        others = grams if right is left else StoredGrams(folder / "right", len(right))
        super().__init__(left, right, (grams, others), reference, spec.encoder.threads)


def _blocks(corpus: Corpus) -> Iterator[Rows]:
    """Yield the rows of a corpus in blocks; one block without rows if it has none."""
    for start in range(0, max(1, len(corpus)), ROWS):
        yield np.arange(start, min(start + ROWS, len(corpus)))
