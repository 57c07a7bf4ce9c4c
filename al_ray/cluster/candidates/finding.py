"""A shard's part in finding candidates: the nearest of its own texts, by cosine and by character 3-grams.

The shard that has a text finds its nearest, and the shard that has a pair's right text owns the pair. So pairs that
were found for left texts travel to their owners, and those that were found for right texts are there. What a shard
found stays on it until all owners have it; a shard that restarted has lost it, and the driver begins again.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from al_ray.cluster.candidates.records import WAYS, TaskRecords, write_grams
from al_ray.cluster.candidates.reference import Reference
from al_ray.cluster.candidates.reference_file import read_reference
from al_ray.cluster.pool.neighbors import Neighborhood, with_neighbors
from al_ray.cluster.pool.ring import SERVE, Ring, Stage
from al_ray.cluster.pool.strata import OwnsStrata, split_by_owner
from al_ray.cluster.watchdog import watched
from al_ray.cluster.workers import wait_for
from al_ray.core.labels import Model, SavedReference
from al_ray.core.pairs import NO_KEYS, Keys, PairSpace, Rows, as_pairs, distinct
from al_ray.core.scorer import Floats
from al_ray.metrics.average_precision import Ints
from al_ray.search.candidate_ranks import NearestOf, gather_nearest
from al_ray.search.dense_texts import added_scores, count_steps, kth_scores, near_ones, sampled
from al_ray.search.knn_merge import KnnRequest, contenders, settled
from al_ray.search.shard import PoolShard

SIDES = ("left", "right")
Summaries = dict[tuple[str, str], tuple[Rows, Floats]]
"""Rows (b,) and summaries (b, 2) of a shard's texts by way and side."""


@dataclass(frozen=True)
class FindRequest:
    """Asks for the candidates of the texts of a side, by a way.

    knn: how many nearest are looked for; its space numbers pairs. count: how many of them are candidates. reference: as
    in OwnRequest.
    """

    way: str
    side: str
    knn: KnnRequest
    count: int
    reference: SavedReference | None = None


@dataclass(frozen=True)
class Found:
    """What a shard found for its texts of a side: sorted keys by owner, and summaries (b, 2) of sorted rows (b,).

    count: how many candidates of each text are wanted. kth: (b,) the score of its last one; -inf if it has fewer.
    """

    by_owner: list[Keys]
    rows: Rows
    summary: Floats
    count: int
    kth: Floats


class FindsCandidates(OwnsStrata):
    """The stages in which candidates are found."""

    def __init__(self, shard: PoolShard) -> None:
        """Nothing found yet."""
        super().__init__(shard)
        self._found = dict[tuple[str, str], Found]()
        self._records = dict[SavedReference | None, TaskRecords]()

    def find_by_cosine(self, model: Model, ring: Ring, request: FindRequest, trained: tuple[Any]) -> Stage[tuple[()]]:
        """Find the nearest of this shard's texts of a side; of the right side `ring` goes from right to left."""
        parts = list[NearestOf]()
        for near in with_neighbors(self, model, ring, request.knn, trained):
            parts.append(_nearest(model, ring, request.knn, near))
            if near.word is not None:
                yield near.word
        self._keep(model, ring, request, parts)
        yield ()

    def count_kth(self, way: str, side: str) -> Ints | None:
        """Count the scores of the last candidates of this shard's texts by step; None if the candidates are lost."""
        found = self._found.get((way, side))
        return None if found is None else count_steps(found.kth)

    def count_of_dense(
        self, model: Model, ring: Ring, request: FindRequest, least: float, texts: int, trained: tuple[Any]
    ) -> Stage[Ints | None]:
        """Count by step the cosines of candidates that thresholds from `least` on add, for a sample of the left texts.

        texts: of train, on all shards. None if what was found is lost.
        """
        found, counts = self._found.get((request.way, request.side)), count_steps(np.empty(0))
        dense = NO_KEYS if found is None else found.rows[(found.kth >= least) & sampled(found.rows, texts)]
        known = 0 if found is None else found.count
        for near in with_neighbors(self, model, ring, request.knn, trained, dense):
            if len(near.block.rows):
                part = _nearest(model, ring, request.knn, near)
                added = added_scores(part, least, known, request.count, request.knn.space.symmetric)
                counts += count_steps(added)
            if near.word is not None:
                yield near.word
        yield None if found is None else counts

    def find_of_dense(
        self, model: Model, ring: Ring, request: FindRequest, least: float, trained: tuple[Any]
    ) -> Stage[tuple[()]]:
        """Add the candidates of this shard's dense left texts to those found by cosine, unless it lost these."""
        found, keys = self._found.get((request.way, request.side)), [NO_KEYS]
        dense = NO_KEYS if found is None else found.rows[found.kth >= least]
        space = request.knn.space
        for near in with_neighbors(self, model, ring, request.knn, trained, dense):
            if len(near.block.rows):
                part = _nearest(model, ring, request.knn, near)
                part = near_ones(part, least, request.count, space.symmetric)
                keys.append(space.keys(as_pairs(part.rows[part.lines], part.partners)))
            if near.word is not None:
                yield near.word
        if found is not None:
            more = self._by_owner(model, ring, distinct(*keys), space)
            joined = [distinct(one, other) for one, other in zip(found.by_owner, more, strict=True)]
            self._found[request.way, request.side] = replace(found, by_owner=joined)
        yield ()

    def write_grams(self, model: Model, ring: Ring) -> Stage[tuple[()]]:
        """Write the missing part of this shard's share of the 3-grams of all texts."""
        write_grams(self.spec)
        yield len(self.shard.rows(ring.left))
        yield ()

    def find_by_trigrams(self, model: Model, ring: Ring, request: FindRequest, others: Rows) -> Stage[tuple[()]]:
        """Find the nearest of this shard's texts of a side by 3-grams; others: sorted rows of the other side."""
        parts, own = list[NearestOf](), self.shard.rows(ring.left)
        near = self.records(request.reference).nearest(request.side, own, others, request.knn.neighbours, self.rule)
        for part in watched(near):
            parts.append(part)
            yield len(part.rows)
        self._keep(model, ring, request, parts)
        yield ()

    def records(self, reference: SavedReference | None) -> TaskRecords:
        """Return the texts of the task, opened when they are first needed. reference: as in OwnRequest."""
        if reference not in self._records:
            read = None if reference is None else read_reference(reference)
            self._records[reference] = TaskRecords(self.spec, read)
        return self._records[reference]

    def count_texts(self) -> Reference:
        """Return the fields and frequencies of the task, by which a matcher that is trained on it compares records."""
        return self.records(None).reference

    def found_for(self, owner: int, symmetric: bool) -> tuple[list[Keys], Summaries] | None:
        """Return sorted keys of the pairs that this shard found for an owner by each of WAYS, and all summaries.

        None if any of them is lost: a shard that restarted between two ways has only what it found since.
        """
        sides = SIDES[:1] if symmetric else SIDES
        if set(self._found) != {(way, side) for way in WAYS for side in sides}:
            return None
        keys = [distinct(NO_KEYS, *(self._found[way, side].by_owner[owner] for side in sides)) for way in WAYS]
        return keys, {key: (found.rows, found.summary) for key, found in self._found.items()}

    def drop_found(self, model: Model, ring: Ring) -> Stage[tuple[()]]:
        """Free the memory of the candidates."""
        self._found.clear()
        yield ()

    def _keep(self, model: Model, ring: Ring, request: FindRequest, parts: list[NearestOf]) -> None:
        """Keep the best of each text by owner, and the summaries of all."""
        space = request.knn.space
        every, rows, summary = gather_nearest(parts, request.side, request.count, space)
        if request.side == "right":
            by_owner = [every if shard == self.spec.shard else NO_KEYS for shard in range(len(ring.shards))]
        else:
            by_owner = self._by_owner(model, ring, every, space)
        kth = np.concatenate([np.empty(0), *(kth_scores(part, request.count) for part in parts)])
        order = np.argsort(np.concatenate([NO_KEYS, *(part.rows for part in parts)]))
        self._found[request.way, request.side] = Found(by_owner, rows, summary, request.count, kth[order])

    def _by_owner(self, model: Model, ring: Ring, keys: Keys, space: PairSpace) -> list[Keys]:
        """Split sorted keys by the shard that has the right text."""
        return split_by_owner(keys, self._owners(model, ring, space)[keys % space.width], len(ring.shards))

    def _owners(self, model: Model, ring: Ring, space: PairSpace) -> npt.NDArray[np.uint16]:
        """Return (width,) the shard that has each right text."""
        owners: npt.NDArray[np.uint16] = np.zeros(space.width, dtype=np.uint16)
        for shard, rows in enumerate(ring.ask("rows_of", SERVE, model, ring.right)):
            owners[wait_for(rows)] = shard
        return owners


def _nearest(model: Model, ring: Ring, knn: KnnRequest, near: Neighborhood) -> NearestOf:
    """Return the nearest of a block of texts, by cosines of the shards that have the others."""
    rows = near.block.rows
    listed = contenders(knn, rows, near.answers)
    cosines = settled(listed, wait_for(ring.ask("cosines", SERVE, model, ring.right, near.reference, listed.pairs)))
    return NearestOf(rows, np.searchsorted(rows, listed.pairs[:, 0]), listed.pairs[:, 1], cosines).best(knn.neighbours)
