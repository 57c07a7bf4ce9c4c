"""Ask every shard for a few neighbours of a query, and again only those shards that may have more of the nearest.

This is a threshold algorithm. The last neighbour that a shard gave bounds all that it did not give. Where the bound is
below the cut between the m nearest so far and the rest, nothing is missing; the texts left are those of one round.
"""

from dataclasses import dataclass
from math import ceil, sqrt
from typing import TypeAlias

import numpy as np

from al_ray.core.candidates import MARGIN
from al_ray.core.pairs import Mask, Rows
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Block
from al_ray.search.faiss_index import NONE
from al_ray.search.knn_merge import KnnRequest, PairIndex, joined_answers, mth_best, nearest, rows_of
from al_ray.search.merge import Neighbors, Scores

# First answers exceed a shard's share of the m nearest by this number of standard deviations. If texts are dealt
# to the shards at random, less than one (shard, query) in a thousand is asked again.
DEVIATIONS = 4
LARGEST = 0.75  # Where first answers would be a larger part of the nearest, one round is quicker (docs/shards.md).


@dataclass(frozen=True)
class First:
    """The first `count` of each query's nearest."""

    count: int


@dataclass(frozen=True)
class Rest:
    """All nearest of some queries of a block that are near enough.

    lines: (k,) places of the queries in the block. floors: (k,) cosines below which a text is surely not needed.
    """

    lines: Rows
    floors: Floats


Portion: TypeAlias = First | Rest | None
"""Which part of its nearest a shard gives; None: all."""


@dataclass(frozen=True)
class FirstRound:
    """First answers of all shards to a block of (b,) queries.

    cosines, right: (b, w) those of all shards side by side. columns: (s,) those of each shard. floors: (b,) cosines
    below which a text is surely not among the nearest. rests: shards that must be asked again, and for what.
    """

    cosines: Floats
    right: Rows
    columns: list[slice]
    floors: Floats
    rests: dict[int, Rest]


def first_portion(count: int, shards: int) -> Portion:
    """Return what each shard gives at first of the `count` nearest: its share and more, or all if that is about all."""
    share = count / shards
    first = ceil(share + DEVIATIONS * sqrt(share)) + 1
    return First(first) if first <= LARGEST * count else None


def portion_of_nearest(index: PairIndex, held: Block, queries: Block, count: int, portion: Portion) -> Neighbors:
    """Return a portion of knn_merge.nearest of the texts held, best first."""
    if isinstance(portion, Rest):
        cosines, rows = nearest(index, held, queries.take(portion.lines), count)
        needed = int(_needed(portion, cosines, rows).sum(axis=1).max(initial=0))
        return cosines[:, :needed], rows[:, :needed]
    if portion is None:
        return nearest(index, held, queries, count)
    # Cosines of codes are wrong by more than MARGIN, by which the first round decides what it asks for again.
    if index.nested and index.plain:
        cosines, places = index.nearest_to(queries, portion.count)
        return cosines, rows_of(held, places)
    cosines, rows = nearest(index, held, queries, count)
    return cosines[:, : portion.count], rows[:, : portion.count]


def first_round(request: KnnRequest, rows: Rows, answers: list[Neighbors]) -> FirstRound:
    """Every shard's first nearest of a block of (b,) left rows -> what each shard must be asked for again.

    A true cosine lies within MARGIN of a rough one. So the m-th highest is at least the m-th highest rough one so far
    less MARGIN, and of a text that was not given at most the shard's last rough one and MARGIN.
    """
    cosines, right = joined_answers(request, rows, answers)
    floors, rests = mth_best(cosines, request.neighbours) - 2 * MARGIN, dict[int, Rest]()
    for shard, (found, places) in enumerate(answers):
        lines = np.flatnonzero((places[:, -1] != NONE) & (found[:, -1] >= floors))
        if len(lines):
            rests[shard] = Rest(lines, floors[lines])
    ends = np.cumsum([found.shape[1] for found, _ in answers]).tolist()
    columns = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    return FirstRound(cosines, right, columns, floors, rests)


def join_rounds(first: FirstRound, answers: list[Neighbors]) -> Neighbors:
    """Return (b, k) cosines and rows of both rounds, those that may be among the nearest: -inf and -1 where fewer are.

    answers: of the shards in `first.rests`. They replace what these shards gave before.
    """
    needed = (first.cosines > -np.inf) & (first.cosines >= first.floors[:, None])
    for shard, rest in first.rests.items():
        needed[rest.lines, first.columns[shard]] = False
    parts = [(np.nonzero(needed)[0], first.cosines[needed], first.right[needed])]
    for rest, (cosines, right) in zip(first.rests.values(), answers, strict=True):
        at, columns = np.nonzero(_needed(rest, cosines, right))
        parts.append((rest.lines[at], cosines[at, columns].astype(np.float64), right[at, columns]))
    lines, found, rows = (np.concatenate(every) for every in zip(*parts, strict=True))
    order = np.argsort(lines, kind="stable")
    lines, counts = lines[order], np.bincount(lines, minlength=len(first.floors))
    column = np.arange(len(lines)) - (np.cumsum(counts) - counts)[lines]
    shape = len(counts), int(counts.max(initial=0))
    joined = np.full(shape, -np.inf), np.full(shape, NONE)
    joined[0][lines, column], joined[1][lines, column] = found[order], rows[order]
    return joined


def _needed(rest: Rest, cosines: Scores, rows: Rows) -> Mask:
    """(k, w) which of the nearest of the queries of a rest are near enough."""
    return (rows != NONE) & (cosines >= rest.floors[:, None])
