"""The nearest texts of a shard's left texts, for which it asks all shards in two rounds (search/knn_rounds.py)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from al_ray.cluster.pool.ring import COMPUTE, SERVE, Place, Ring, Stage, asked_ahead, is_due
from al_ray.cluster.pool.shard_actor import ShardActor
from al_ray.cluster.workers import put, wait_for
from al_ray.core.labels import Model
from al_ray.core.nearest_means import NearestMeans
from al_ray.core.neighbourhood import mean_of_nearest
from al_ray.core.pairs import NO_KEYS, Rows, is_in
from al_ray.core.vectors import Block
from al_ray.search.knn_merge import KnnRequest, contenders, settled
from al_ray.search.knn_rounds import first_portion, first_round, join_rounds
from al_ray.search.merge import Neighbors

AHEAD_AGAIN = 1  # Blocks whose second round is asked for before it is needed; the first round of others is, too.


@dataclass(frozen=True)
class Neighborhood:
    """A block of left texts, its reference, its nearest texts (one or more tables), and a progress update or None."""

    block: Block
    reference: Any
    answers: list[Neighbors]
    word: int | None


def with_neighbors(
    shard: ShardActor,
    model: Model,
    ring: Ring,
    request: KnnRequest,
    trained: tuple[Any],
    only: Rows | None = None,
    right_offsets: Any = None,
) -> Iterator[Neighborhood]:
    """Yield each block of a shard's left texts with the nearest of all right ones; those of a few are on their way.

    trained: the reference of what `train_index` returned, or None, in a tuple, so that it travels as a reference.
    only: sorted rows of the texts whose nearest are wanted, if not of all; a block may be without any. right_offsets:
    the reference of those by which the nearest are those of the highest score; None for the highest cosine.
    """
    own = [place for place in ring.places("left") if place.shard == shard.spec.shard]
    count, done = request.neighbours + request.symmetric, 0
    portion = first_portion(count, len(ring.shards))

    def ask(place: Place) -> tuple[Block, Any, list[Any]]:
        block = shard.block(model, ring.left, place.start, place.stop)
        if only is not None:
            block = block.take(np.flatnonzero(is_in(block.rows, only)))
            if not len(block.rows):
                return block, None, []
        block = shard.probed(model, ring.right, block, *trained)
        reference = put(block)
        arguments = model, ring.right, reference, count, *trained, portion, right_offsets
        return block, reference, ring.ask("nearest", COMPUTE, *arguments)

    def ask_again(asked: tuple[Place, tuple[Block, Any, list[Any]]]) -> Callable[[], list[Neighbors]]:
        block, reference, calls = asked[1]
        if portion is None or not calls:
            return lambda: wait_for(calls)
        first = first_round(request, block.rows, wait_for(calls))
        arguments = model, ring.right, reference, count, *trained
        again = [
            ring.ask_one(peer, "nearest", COMPUTE, *arguments, rest, right_offsets)
            for peer, rest in first.rests.items()
        ]
        return lambda: [join_rounds(first, wait_for(again))]

    rounds = asked_ahead(asked_ahead(own, ask), ask_again, AHEAD_AGAIN if portion else 0)
    for step, ((place, (block, reference, _)), answers) in enumerate(rounds):
        done += place.stop - place.start
        due = is_due(step, len(own))
        yield Neighborhood(block, reference, answers(), done if due else None)
        done = 0 if due else done


def means_of_nearest(
    shard: ShardActor, model: Model, ring: Ring, request: KnnRequest, trained: tuple[Any]
) -> Stage[NearestMeans]:
    """Yield a word now and then, and at last the mean cosine of each left text of a shard with its nearest right ones.

    Each cosine is a float64 product by the shard that has the right text, so the means do not depend on the shards.
    """
    found = list[NearestMeans]()
    for near in with_neighbors(shard, model, ring, request, trained):
        rows = near.block.rows
        listed = contenders(request, rows, near.answers)
        cosines = wait_for(ring.ask("cosines", SERVE, model, ring.right, near.reference, listed.pairs))
        lines = np.searchsorted(rows, listed.pairs[:, 0])
        means = mean_of_nearest(settled(listed, cosines), lines, len(rows), request.neighbours)
        found.append(NearestMeans(rows, means))
        if near.word is not None:
            yield near.word
    yield NearestMeans(NO_KEYS, np.empty(0)).joined(*found)


def with_offsets(ring: Ring, queries: Block) -> Block:
    """Return left texts with what a stage subtracts from their cosines, and from those of the right texts."""
    if ring.offsets is None:
        return queries
    theirs = None if ring.right_offsets is None else wait_for(ring.right_offsets)
    return replace(queries, offsets=wait_for(ring.offsets).of(queries.rows), right_offsets=theirs)
