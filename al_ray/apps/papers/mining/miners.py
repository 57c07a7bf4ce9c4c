"""Mine pairs of unlabelled texts, at random or by similarity (papers 003 and 004), and select among them.

The pairs are used as silver pairs, which a cross-encoder labels (paper 003), or as negatives, which should not be
unlabelled positives (paper 004, 2).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from al_ray.core.pairs import NO_KEYS, Keys, Mask, Pairs, Rows, is_in
from al_ray.core.scorer import Floats

MINERS = ("random", "bm25", "tfidf", "neighbours", "model")
Words = npt.NDArray[np.str_]
Ranks = npt.NDArray[np.int64]
DRAWN = 0
"""Rank of a random pair."""


@dataclass(frozen=True)
class Pool:
    """Texts to mine pairs from: any of `queries` with any of `candidates`, never a text with itself.

    queries (q,), candidates (c,): sorted distinct rows of the texts. (a, b) and (b, a) are the same pair.
    """

    texts: tuple[str, ...]
    queries: Rows
    candidates: Rows

    def keys(self, pairs: Pairs) -> Keys:
        """Return the (n,) keys of (n, 2) pairs of rows; both orders of a pair have the same key."""
        return pairs.min(axis=1) * len(self.texts) + pairs.max(axis=1)

    @cached_property
    def rows(self) -> Rows:
        """Return the sorted rows of all queries and candidates."""
        return np.union1d(self.queries, self.candidates)

    @property
    def members(self) -> list[str]:
        """Return the texts of `rows`."""
        return [self.texts[row] for row in self.rows.tolist()]

    @cached_property
    def own(self) -> Rows:
        """Return (q,) each query's place among the candidates, -1 if it is no candidate."""
        at = np.minimum(np.searchsorted(self.candidates, self.queries), max(0, len(self.candidates) - 1))
        return np.where(is_in(self.queries, self.candidates), at, -1)


@dataclass(frozen=True)
class MinedPairs:
    """Pairs (n, 2) of a query and a candidate, those of a query together, the best first.

    sources (n,): name of the miner. scores (n,): the similarity it used, NaN for random pairs. ranks (n,): from 1 among
    the candidates of the query, DRAWN for random pairs.
    """

    pairs: Pairs
    sources: Words
    scores: Floats
    ranks: Ranks

    def __len__(self) -> int:
        return len(self.pairs)

    def select(self, where: Mask | Rows) -> "MinedPairs":
        """Return some of the pairs, by mask or by place."""
        return MinedPairs(self.pairs[where], self.sources[where], self.scores[where], self.ranks[where])

    @staticmethod
    def concatenate(parts: "list[MinedPairs]") -> "MinedPairs":
        """Return the pairs of all parts, one part after the other."""
        columns = zip(*((part.pairs, part.sources, part.scores, part.ranks) for part in parts), strict=True)
        return MinedPairs(*map(np.concatenate, columns))

    @staticmethod
    def unranked(pairs: Pairs, source: str) -> "MinedPairs":
        """Return (n, 2) pairs without similarity and rank."""
        count = len(pairs)
        return MinedPairs(pairs, np.full(count, source), np.full(count, np.nan), np.full(count, DRAWN, dtype=np.int64))


NO_PAIRS = MinedPairs(np.empty((0, 2), np.int64), np.empty(0, np.str_), np.empty(0), np.empty(0, np.int64))


class Miner(Protocol):
    """Finds pairs in its pool."""

    def mine(self, count: int) -> MinedPairs:
        """Return up to `count` candidates of every query; no pair of a text with itself."""
        ...

    def scores(self, pairs: Pairs) -> Floats:
        """Return the (n,) similarities of (n, 2) pairs of the pool's rows; NaN if the miner uses none."""
        ...


class Random:
    """Draws candidates at random without replacement (paper 003: 5 for every first sentence)."""

    def __init__(self, pool: Pool, rng: np.random.Generator) -> None:
        """Use this generator; every call draws other candidates."""
        self.pool, self.rng = pool, rng

    def mine(self, count: int) -> MinedPairs:
        """Return `count` candidates of every query."""
        pairs = [NO_PAIRS.pairs]
        for query, own in zip(self.pool.queries.tolist(), self.pool.own.tolist(), strict=True):
            others = len(self.pool.candidates) - (own >= 0)
            # In random order (`shuffle`, which is numpy's default), as some take only the first few.
            drawn = self.rng.choice(others, size=min(count, others), replace=False)
            # A query is no candidate of its own: skip its own place.
            drawn = drawn + (drawn >= own) if own >= 0 else drawn
            pairs.append(np.stack([np.full(len(drawn), query), self.pool.candidates[drawn]], axis=1))
        return MinedPairs.unranked(np.concatenate(pairs), "random")

    def scores(self, pairs: Pairs) -> Floats:
        """Return NaN: a random draw uses no similarity."""
        return np.full(len(pairs), np.nan)


def highest_above_zero(scores: Floats, count: int) -> Rows:
    """Return the places of the `count` highest of (c,) scores above 0, best first, ties by place."""
    above = np.flatnonzero(scores > 0)
    if len(above) > count:
        cut = np.partition(scores[above], len(above) - count)[len(above) - count]
        above = above[scores[above] >= cut]
    return above[np.lexsort((above, -scores[above]))][:count]


def rank_candidates(query: int, rows: Rows, scores: Floats, count: int, source: str) -> MinedPairs:
    """Return one query's candidates, given best first, as mined pairs: at most `count`, without the query itself."""
    others = np.flatnonzero(rows != query)[:count]
    pairs = np.stack([np.full(len(others), query, dtype=np.int64), rows[others]], axis=1)
    places = np.arange(1, len(others) + 1, dtype=np.int64)
    return MinedPairs(pairs, np.full(len(others), source), scores[others].astype(np.float64), places)


def deduplicate(mined: MinedPairs, pool: Pool, excluded: Keys = NO_KEYS) -> MinedPairs:
    """Return the first occurrence of every pair, without the sorted `excluded` keys (gold never becomes silver)."""
    keys = pool.keys(mined.pairs)
    first = np.zeros(len(keys), dtype=np.bool_)
    first[np.unique(keys, return_index=True)[1]] = True
    return mined.select(first & ~is_in(keys, excluded))


def balance_bins(scores: Floats, most: int, bins: int, rng: np.random.Generator) -> Rows:
    """Return sorted places of at most `most` of the (n,) scores in [0, 1] in each of equal `bins`, drawn at random."""
    own = np.minimum((scores * bins).astype(np.int64), bins - 1)
    order = rng.permutation(len(scores))
    order = order[np.argsort(own[order], kind="stable")]
    _, starts, counts = np.unique(own[order], return_index=True, return_counts=True)
    within = np.arange(len(order)) - np.repeat(starts, counts)
    return np.sort(order[within < most])


class Hardest:
    """Finds the candidates that a model scores highest: the negatives it gets most wrong (paper 004, 2.2).

    Scoring all pairs takes too long: each call draws a new sample of candidates for each query. Call it after every
    epoch or round with the current model.
    """

    def __init__(self, pool: Pool, score: Callable[[Pairs], Floats], sample: int, rng: np.random.Generator) -> None:
        """score: (n, 2) pairs -> (n,) scores by the current model, a bi-encoder or any other."""
        self.pool, self.score, self.sample, self.rng = pool, score, sample, rng

    def mine(self, count: int) -> MinedPairs:
        """Return `count` candidates of every query, ranked within its sample; ties by row."""
        drawn = Random(self.pool, self.rng).mine(self.sample)
        scores = self.score(drawn.pairs)
        query = np.searchsorted(self.pool.queries, drawn.pairs[:, 0])
        order = np.lexsort((drawn.pairs[:, 1], -scores, query))
        starts = np.searchsorted(query[order], np.arange(len(self.pool.queries)))
        places = np.arange(len(order)) - starts[query[order]] + 1
        sources = np.full(len(order), "model")
        ordered = MinedPairs(drawn.pairs[order], sources, scores[order].astype(np.float64), places)
        return ordered.select(places <= count)

    def scores(self, pairs: Pairs) -> Floats:
        """Return the model's scores."""
        return self.score(pairs)


def most_uncertain(scores: Floats, count: int) -> Rows:
    """Return sorted places of the `count` of (n,) scores nearest 1/2, ties by place: where a model is least certain."""
    return np.sort(np.argsort(np.abs(scores - 0.5), kind="stable")[:count])
