"""From an index's neighbours to candidates: merge shards' answers, and recompute scores near the cut in float64.

An index says roughly how near a text is, within MARGIN. That is enough for nearly all: only pairs near the cut between
the m nearest and the rest, and pairs that may be among the least, are looked at again in float64, by the shard that has
the right text. So the answer depends neither on shards nor on blocks.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from al_ray.core.candidates import MARGIN, Candidates, Order, unlabelled_candidates
from al_ray.core.nearest_means import NearestMeans
from al_ray.core.pairs import NO_KEYS, Keys, Mask, Pairs, PairSpace, Rows, as_pairs, is_in
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Block, paired_scores
from al_ray.search.faiss_index import NONE
from al_ray.search.merge import Neighbors

SPARE = 8  # Neighbours beyond those wanted: enough, but for many texts at one cosine, to see what is near the cut.
WIDEST = 2048  # Neighbours, or four times as many as wanted: of more at one cosine, the index says which come first.


@dataclass(frozen=True)
class KnnRequest:
    """What is asked of the merge of a block of left texts: the `count` candidates of least cost, ties by key.

    symmetric: a text may find itself, which is no pair.
    """

    space: PairSpace
    symmetric: bool
    neighbours: int
    order: Order
    count: int


@dataclass(frozen=True)
class Shortlist:
    """The pairs of a block that float64 must look at.

    pairs: (k, 2). lines: (k,) which of the block's left texts. close: (k,) whether the pair is near the cut, so that
    it may not be among its text's nearest. wanted: (k,) whether it is unlabelled and may cost little enough.
    room: (b,) how many of a text's close pairs are among its nearest. offsets, right_offsets: (k,) of the pairs' texts,
    or 0.
    """

    pairs: Pairs
    lines: npt.NDArray[np.int64]
    close: Mask
    wanted: Mask
    room: npt.NDArray[np.int64]
    offsets: Floats | float = 0.0
    right_offsets: Floats | float = 0.0


class PairIndex(Protocol):
    """Finds the nearest of a shard's texts: a CosineIndex, or a FlatIndex.

    widest: neighbours that it gives at most. plain: its cosines are products of the vectors themselves. nested: it
    compares the same texts whatever the count, so that the nearest few are the first of the nearest many.
    """

    size: int
    widest: int
    plain: bool
    nested: bool

    def probed(self, queries: Block) -> Block:
        """Return queries with the cells that are searched for each, if there are any (faiss_index.ProbedBlock)."""
        ...

    def nearest_to(self, queries: Block, count: int) -> tuple[npt.NDArray[np.float32], Rows]:
        """(q,) queries -> cosines (q, count) and places (q, count), best first; -inf and -1 where there are fewer."""
        ...


def nearest(index: PairIndex, held: Block, queries: Block, count: int) -> Neighbors:
    """At least the `count` nearest of the texts held, and all that may be as near as the last of them.

    The cosines are within MARGIN of the true ones; those of an index that keeps codes are recomputed at once.
    """
    cosines, places = index.nearest_to(queries, count + SPARE)
    width, most = cosines.shape[1], min(index.widest, max(WIDEST, 4 * count))
    while width < min(most, index.size):
        unclear = np.flatnonzero((places[:, -1] != NONE) & (cosines[:, -1] >= cosines[:, count - 1] - 2 * MARGIN))
        if not len(unclear):
            break
        width = min(4 * width, most)
        shape, some = (len(queries.rows), width), queries.take(unclear)
        wider = np.full(shape, -np.inf, dtype=np.float32), np.full(shape, NONE)
        wider[0][:, : cosines.shape[1]], wider[1][:, : places.shape[1]] = cosines, places
        wider[0][unclear], wider[1][unclear] = index.nearest_to(some, width)
        cosines, places = wider
    rows = rows_of(held, places)
    if index.plain:
        return cosines, rows
    exact = np.full(rows.shape, -np.inf)
    lines, columns = np.nonzero(places != NONE)
    exact[lines, columns] = paired_scores(queries.vectors, lines, held.vectors, places[lines, columns])
    best = np.lexsort((rows, -exact), axis=1)[:, :count]
    return np.take_along_axis(exact, best, axis=1), np.take_along_axis(rows, best, axis=1)


def rows_of(held: Block, places: Rows) -> Rows:
    """Places among the texts held, or NONE -> their rows, or NONE."""
    return np.where(places == NONE, NONE, held.rows[places])


def joined_answers(request: KnnRequest, rows: Rows, answers: list[Neighbors]) -> tuple[Floats, Rows]:
    """Every shard's nearest of a block of (b,) left rows -> cosines and rows (b, w); -inf where there is no pair."""
    cosines = np.concatenate([answer[0] for answer in answers], axis=1, dtype=np.float64)
    right = np.concatenate([answer[1] for answer in answers], axis=1)
    cosines[(right == NONE) | ((right == rows[:, None]) if request.symmetric else False)] = -np.inf
    return cosines, right


def mth_best(cosines: Floats, count: int) -> Floats:
    """(b, w) cosines -> (b,) the `count`-th highest of each line; -inf if there are fewer."""
    place = cosines.shape[1] - count
    return np.full(len(cosines), -np.inf) if place < 0 else np.partition(cosines, place, axis=1)[:, place]


def shortlist(
    request: KnnRequest,
    bound: float,
    rows: Rows,
    labelled: Keys,
    answers: list[Neighbors],
    offsets: Floats | None = None,
    right_offsets: NearestMeans | None = None,
) -> Shortlist:
    """Every shard's nearest of a block of (b,) left rows -> the pairs that must be looked at again.

    bound: a cost that `count` unlabelled candidates do not exceed. labelled: sorted keys. offsets: (b,) as in Block.
    right_offsets: as in Block; they are subtracted from the answers already, so that these are the nearest by score.
    """
    cosines, right, close, certain, room = _among_nearest(request, rows, answers)
    costs = request.order.cost(cosines if offsets is None else cosines - offsets[:, None])
    if np.isinf(bound) and bound > 0:
        bound = _bound_of(request, costs[certain & ~_labelled(request, rows, right, certain, labelled)])
    cheap = (close | certain) & (costs <= bound + 2 * MARGIN)
    wanted = cheap & ~_labelled(request, rows, right, cheap, labelled)
    lines, columns = np.nonzero(close | wanted)
    pairs = as_pairs(rows[lines], right[lines, columns])
    own = 0.0 if offsets is None else offsets[lines]
    theirs = 0.0 if right_offsets is None else right_offsets.of(pairs[:, 1])
    return Shortlist(pairs, lines, close[lines, columns], wanted[lines, columns], room, own, theirs)


def contenders(request: KnnRequest, rows: Rows, answers: list[Neighbors]) -> Shortlist:
    """Every shard's nearest of a block of (b,) left rows -> all pairs that may be among the nearest of their text."""
    _, right, close, certain, room = _among_nearest(request, rows, answers)
    lines, columns = np.nonzero(close | certain)
    every = np.ones(len(lines), dtype=np.bool_)
    return Shortlist(as_pairs(rows[lines], right[lines, columns]), lines, close[lines, columns], every, room)


def members(request: KnnRequest, rows: Rows, answers: list[Neighbors]) -> tuple[Keys, Shortlist]:
    """The same without costs: keys of pairs that are surely among the nearest, and those to be recomputed."""
    _, right, close, certain, room = _among_nearest(request, rows, answers)
    lines, columns = np.nonzero(certain)
    keys = request.space.keys(as_pairs(rows[lines], right[lines, columns]))
    lines, columns = np.nonzero(close)
    every = np.ones(len(lines), dtype=np.bool_)
    return keys, Shortlist(as_pairs(rows[lines], right[lines, columns]), lines, every, every, room)


def select(request: KnnRequest, listed: Shortlist, answers: list[Floats]) -> Candidates:
    """Shortlisted pairs with every shard's (k,) cosines, NaN where it has not the right text -> candidates, in order.

    Of each left text's close pairs the best by (-cosine, row) stay, as many as there is room for; with offsets of right
    texts, by the cosine less these.
    """
    cosines = settled(listed, answers)
    nearness = cosines - listed.right_offsets
    stay = ~listed.close
    close = np.flatnonzero(listed.close)
    close = close[np.lexsort((listed.pairs[close, 1], -nearness[close], listed.lines[close]))]
    lines = listed.lines[close]
    stay[close[np.arange(len(close)) - np.searchsorted(lines, lines) < listed.room[lines]]] = True
    stay &= listed.wanted
    keys, scores = request.space.keys(listed.pairs[stay]), (cosines - (listed.offsets + listed.right_offsets))[stay]
    return unlabelled_candidates(keys, scores, NO_KEYS).least(request.order, request.count)


def settled(listed: Shortlist, answers: list[Floats]) -> Floats:
    """Join what the shards answered to shortlisted pairs: (k,) cosines each, NaN where the right text is not theirs."""
    cosines = np.full(len(listed.pairs), np.nan)
    for answer in answers:
        cosines = np.where(np.isnan(cosines), answer, cosines)
    assert not np.isnan(cosines).any()
    return cosines


def _among_nearest(
    request: KnnRequest, rows: Rows, answers: list[Neighbors]
) -> tuple[Floats, Rows, Mask, Mask, npt.NDArray[np.int64]]:
    """Cosines and rows (b, w), which of them are close to the cut and which surely above it, and room for the close.

    The m-th highest true cosine lies within MARGIN of the m-th highest rough one, so what is twice as far from that is
    certain. Where no more than m may be among the m nearest, all of them are.
    """
    cosines, right = joined_answers(request, rows, answers)
    there = cosines > -np.inf
    count = request.neighbours
    if cosines.shape[1] <= count:
        return cosines, right, np.zeros_like(there), there, np.zeros(len(rows), dtype=np.int64)
    cut = mth_best(cosines, count)[:, None]
    possible = there & (cosines >= cut - 2 * MARGIN)
    close = possible & (cosines <= cut + 2 * MARGIN) & (possible.sum(axis=1) > count)[:, None]
    certain = possible & ~close
    return cosines, right, close, certain, count - certain.sum(axis=1)


def _labelled(request: KnnRequest, rows: Rows, right: Rows, asked: Mask, labelled: Keys) -> Mask:
    """(b, w) whether each requested pair is labelled."""
    known = np.zeros(asked.shape, dtype=np.bool_)
    lines, columns = np.nonzero(asked)
    known[lines, columns] = is_in(request.space.keys(as_pairs(rows[lines], right[lines, columns])), labelled)
    return known


def _bound_of(request: KnnRequest, costs: Floats) -> float:
    """What a block alone says of the cost that `count` candidates do not exceed; of an unordered pair it may have two.

    costs: (n,) rough ones of certain, unlabelled candidates.
    """
    count = request.count * (2 if request.space.symmetric else 1)
    return float(np.partition(costs, count - 1)[count - 1]) if 0 < count <= len(costs) else np.inf
