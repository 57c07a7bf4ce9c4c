"""Which unlabelled pairs are worth having (papers 003 and 004): what a miner offers, and what is kept of it.

A miner offers pairs of a pool, by draw or by some similarity. What becomes of them is the same for every miner: silver
pairs for a cross-encoder to label (paper 003), or negatives, which must not be positives in truth (paper 004, 2).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from al_ray.core.pairs import NO_KEYS, Keys, Mask, Pairs, Rows, is_in
from al_ray.core.scoring import Floats

Words = npt.NDArray[np.str_]
Ranks = npt.NDArray[np.int64]
DRAWN = 0
"""The rank of a pair that was drawn."""


@dataclass(frozen=True)
class Pool:
    """Texts of which pairs are mined: any of `queries` with any of `candidates`, never a text with itself.

    queries (q,), candidates (c,): sorted distinct rows of the texts. (a, b) and (b, a) are one pair.
    """

    texts: tuple[str, ...]
    queries: Rows
    candidates: Rows

    def keys(self, pairs: Pairs) -> Keys:
        """(n, 2) pairs of rows -> (n,) keys, the same for both orders."""
        return pairs.min(axis=1) * len(self.texts) + pairs.max(axis=1)

    @cached_property
    def own(self) -> Rows:
        """(q,) each query's place among the candidates, -1 where it is none."""
        at = np.minimum(np.searchsorted(self.candidates, self.queries), max(0, len(self.candidates) - 1))
        there = is_in(self.queries, self.candidates)
        return np.where(there, at, -1)


@dataclass(frozen=True)
class Mined:
    """What a miner offers: pairs (n, 2), a query and a candidate each, those of a query together, the best first.

    sources (n,): which miner. scores (n,): the similarity that it went by, NaN of a draw. ranks (n,): from 1 among the
    candidates of its query, DRAWN of a draw.
    """

    pairs: Pairs
    sources: Words
    scores: Floats
    ranks: Ranks

    def __len__(self) -> int:
        return len(self.pairs)

    def kept(self, where: Mask | Rows) -> "Mined":
        """Some of them, by mask or by place."""
        return Mined(self.pairs[where], self.sources[where], self.scores[where], self.ranks[where])

    @staticmethod
    def joined(parts: "list[Mined]") -> "Mined":
        """Several, one after the other."""
        one = [(part.pairs, part.sources, part.scores, part.ranks) for part in parts]
        return Mined(*(np.concatenate(columns) for columns in zip(*one, strict=True)))


NOTHING = Mined(np.empty((0, 2), np.int64), np.empty(0, np.str_), np.empty(0), np.empty(0, np.int64))


class Miner(Protocol):
    """Offers pairs of the pool that it was made of."""

    def mined(self, count: int) -> Mined:
        """`count` candidates of every query, fewer where there are no more; no pair of a text with itself."""
        ...

    def scores(self, pairs: Pairs) -> Floats:
        """(n, 2) pairs of the pool's rows -> (n,) the similarity that it goes by; NaN where it goes by none."""
        ...


class Random:
    """Draws candidates at random, each once for a query (paper 003: 5 for every first sentence)."""

    def __init__(self, pool: Pool, rng: np.random.Generator) -> None:
        """Every call draws anew."""
        self.pool, self.rng = pool, rng

    def mined(self, count: int) -> Mined:
        """`count` candidates of every query."""
        found = [NOTHING.pairs]
        for query, own in zip(self.pool.queries.tolist(), self.pool.own.tolist(), strict=True):
            others = len(self.pool.candidates) - (own >= 0)
            drawn = self.rng.choice(others, size=min(count, others), replace=False, shuffle=False)
            # The places after the query's own stand one further on.
            drawn = drawn + (drawn >= own) if own >= 0 else drawn
            found.append(np.stack([np.full(len(drawn), query), self.pool.candidates[drawn]], axis=1))
        pairs = np.concatenate(found)
        drawn = np.full(len(pairs), DRAWN, dtype=np.int64)
        return Mined(pairs, np.full(len(pairs), "random"), np.full(len(pairs), np.nan), drawn)

    def scores(self, pairs: Pairs) -> Floats:
        """It goes by none."""
        return np.full(len(pairs), np.nan)


def highest(scores: Floats, count: int) -> Rows:
    """(c,) scores -> the places of the `count` highest above 0, best first, equal ones by place."""
    above = np.flatnonzero(scores > 0)
    if len(above) > count:
        cut = np.partition(scores[above], len(above) - count)[len(above) - count]
        above = above[scores[above] >= cut]
    return above[np.lexsort((above, -scores[above]))][:count]


def ranked(query: int, rows: Rows, scores: Floats, count: int, source: str) -> Mined:
    """Candidates of one query, best first, as what a miner offers: at most `count`, the query itself left out."""
    others = np.flatnonzero(rows != query)[:count]
    pairs = np.stack([np.full(len(others), query, dtype=np.int64), rows[others]], axis=1)
    places = np.arange(1, len(others) + 1, dtype=np.int64)
    return Mined(pairs, np.full(len(others), source), scores[others].astype(np.float64), places)


def once(mined: Mined, pool: Pool, excluded: Keys = NO_KEYS) -> Mined:
    """Every pair once, the first of its kind, and none of the sorted `excluded` keys: gold never becomes silver."""
    keys = pool.keys(mined.pairs)
    first = np.zeros(len(keys), dtype=np.bool_)
    first[np.unique(keys, return_index=True)[1]] = True
    return mined.kept(first & ~is_in(keys, excluded))


def balanced(scores: Floats, most: int, bins: int, rng: np.random.Generator) -> Rows:
    """(n,) scores from 0 to 1 -> sorted places of at most `most` of each of the equal `bins`, drawn where more are."""
    own = np.minimum((scores * bins).astype(np.int64), bins - 1)
    order = rng.permutation(len(scores))
    order = order[np.argsort(own[order], kind="stable")]
    _, starts, counts = np.unique(own[order], return_index=True, return_counts=True)
    within = np.arange(len(order)) - np.repeat(starts, counts)
    return np.sort(order[within < most])


class Hardest:
    """The candidates that a model scores highest, of a sample of the pool: those it gets most wrong (paper 004, 2.2).

    To score all pairs takes too long; so each query has a sample of candidates, drawn anew at every call. Call it after
    every epoch or round with the model as it is then.
    """

    def __init__(
        self, pool: Pool, score: Callable[[Pairs], Floats], sample: int, rng: np.random.Generator, source: str = "model"
    ) -> None:
        """score: (n, 2) pairs -> (n,) scores by the current model, a bi-encoder's or any other's."""
        self.pool, self.score, self.sample, self.rng, self.source = pool, score, sample, rng, source

    def mined(self, count: int) -> Mined:
        """`count` candidates of every query, ranked within its sample; equal scores by row."""
        drawn = Random(self.pool, self.rng).mined(self.sample)
        found = self.score(drawn.pairs)
        query = np.searchsorted(self.pool.queries, drawn.pairs[:, 0])
        order = np.lexsort((drawn.pairs[:, 1], -found, query))
        starts = np.searchsorted(query[order], np.arange(len(self.pool.queries)))
        places = np.arange(len(order)) - starts[query[order]] + 1
        sources = np.full(len(order), self.source)
        ordered = Mined(drawn.pairs[order], sources, found[order].astype(np.float64), places)
        return ordered.kept(places <= count)

    def scores(self, pairs: Pairs) -> Floats:
        """The model's."""
        return self.score(pairs)


def unsure(scores: Floats, count: int) -> Rows:
    """(n,) scores -> sorted places of the `count` nearest 1/2, equal ones by place: where a model knows least."""
    return np.sort(np.argsort(np.abs(scores - 0.5), kind="stable")[:count])
