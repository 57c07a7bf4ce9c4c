"""Mine by the vectors of an encoder; build a miner by its name (papers 003 and 004)."""

from dataclasses import dataclass

import numpy as np

from al_ray.apps.papers.mining.lexical import Bm25, Tfidf
from al_ray.apps.papers.mining.miners import NO_PAIRS, Hardest, MinedPairs, Miner, Pool, Random, rank_candidates
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Vectors, paired_scores
from al_ray.encoders.encoder import TextEncoder, embed_rows
from al_ray.encoders.prompts import Side
from al_ray.search.faiss_index import CosineIndex

BLOCK = 1024  # Queries searched at a time.
PROBES = 10  # Cells that an IVF index searches; not used by the Flat index here.


@dataclass(frozen=True)
class PoolVectors:
    """Unit vectors (t, d) of some sorted rows (t,) of a pool."""

    rows: np.ndarray
    vectors: Vectors

    def vectors_of(self, rows: np.ndarray) -> Vectors:
        """Return the vectors (n, d) of (n,) of these rows."""
        return self.vectors[np.searchsorted(self.rows, rows)]

    def cosines(self, pairs: Pairs) -> Floats:
        """Return the (n,) float64 cosines of (n, 2) pairs of rows."""
        left, right = np.searchsorted(self.rows, pairs).T
        return paired_scores(self.vectors, left, self.vectors, right)

    @staticmethod
    def encode(encoder: TextEncoder, pool: Pool, symmetric: bool = True) -> "PoolVectors":
        """Encode the pool's queries and candidates.

        symmetric: whether these are the same kind of texts, and all have the prompt of left texts.
        """

        def encoded(rows: Rows, side: Side) -> Vectors:
            tokens = encoder.tokenise([pool.texts[row] for row in rows.tolist()], side)
            return embed_rows(encoder, tokens, np.arange(len(tokens)))

        if symmetric or not encoder.sided:
            return PoolVectors(pool.rows, encoded(pool.rows, "left"))
        # In a task of two sides the rows of left texts come first.
        both = encoded(pool.queries, "left"), encoded(pool.candidates, "right")
        return PoolVectors(np.concatenate([pool.queries, pool.candidates]), np.concatenate(both))


class Nearest:
    """Finds the candidates of the highest cosine, by Faiss."""

    def __init__(self, pool: Pool, embedded: PoolVectors) -> None:
        """Index the candidates' vectors."""
        self.pool, self.embedded = pool, embedded
        self.index = CosineIndex(embedded.vectors_of(pool.candidates), "Flat", PROBES)

    def mine(self, count: int) -> MinedPairs:
        """Return `count` candidates of every query."""
        mined = [NO_PAIRS]
        for start in range(0, len(self.pool.queries), BLOCK):
            block = self.pool.queries[start : start + BLOCK]
            cosines, places = self.index.nearest(self.embedded.vectors_of(block), count + 1)
            for query, near, at in zip(block.tolist(), cosines, places, strict=True):
                valid = at >= 0
                mined.append(rank_candidates(query, self.pool.candidates[at[valid]], near[valid], count, "neighbours"))
        return MinedPairs.concatenate(mined)

    def scores(self, pairs: Pairs) -> Floats:
        """Return the (n,) cosines of (n, 2) pairs."""
        return self.embedded.cosines(pairs)


def build_miner(name: str, pool: Pool, embedded: PoolVectors | None, sample: int, rng: np.random.Generator) -> Miner:
    """Build the miner of that name; `neighbours` and `model` need vectors, `model` those of the current model."""
    if name == "random":
        return Random(pool, rng)
    if name in ("bm25", "tfidf"):
        return Bm25(pool) if name == "bm25" else Tfidf(pool)
    assert embedded is not None, name
    return Nearest(pool, embedded) if name == "neighbours" else Hardest(pool, embedded.cosines, sample, rng)
