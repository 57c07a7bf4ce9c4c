"""Miners by vectors of an encoder, and which miner a name means (papers 003 and 004)."""

from dataclasses import dataclass

import numpy as np
import torch

from al_ray.core.mining import NOTHING, Hardest, Mined, Miner, Pool, Random, ranked
from al_ray.core.pairs import Pairs
from al_ray.core.scoring import Floats
from al_ray.model.encoder import Vectors
from al_ray.model.encoders import TextEncoder
from al_ray.model.lexical import Bm25, Tfidf
from al_ray.model.neighbours import Neighbours
from al_ray.model.tokens import Tokens, batches
from al_ray.model.training import dots

MINERS = ("random", "bm25", "tfidf", "neighbours", "model")
BLOCK = 1024  # Queries searched at a time.
NEAREST = 10  # Cells of an IVF index looked into; the index here is Flat.


@dataclass(frozen=True)
class Embedded:
    """The unit vectors (t, d) of some rows (t,) of a pool, sorted."""

    rows: np.ndarray
    vectors: Vectors

    def of(self, rows: np.ndarray) -> Vectors:
        """(n,) rows that are there -> (n, d)."""
        return self.vectors[np.searchsorted(self.rows, rows)]

    def cosines(self, pairs: Pairs) -> Floats:
        """(n, 2) pairs of rows -> (n,)."""
        found = np.empty(len(pairs))
        for start in range(0, len(pairs), BLOCK):
            here = slice(start, start + BLOCK)
            found[here] = dots(self.of(pairs[here, 0]), self.of(pairs[here, 1]))
        return found

    @staticmethod
    @torch.inference_mode()
    def by(encoder: TextEncoder, pool: Pool) -> "Embedded":
        """Those of the pool's queries and candidates."""
        rows = np.union1d(pool.queries, pool.candidates)
        texts = [pool.texts[row] for row in rows.tolist()]
        tokens = Tokens.of([ids for block in encoder.tokenise(texts) for ids in block])
        vectors = np.empty((len(rows), encoder.dimension), dtype=np.float32)
        for batch in batches(tokens, np.arange(len(rows)), encoder.config.batch):
            vectors[batch] = encoder.embed(tokens, batch)
        return Embedded(rows, vectors)


class Nearest:
    """The candidates of the highest cosine, by Faiss."""

    def __init__(self, pool: Pool, embedded: Embedded) -> None:
        """Index the candidates' vectors."""
        self.pool, self.embedded = pool, embedded
        self.index = Neighbours(embedded.of(pool.candidates), "Flat", NEAREST)

    def mined(self, count: int) -> Mined:
        """`count` candidates of every query."""
        found = [NOTHING]
        for start in range(0, len(self.pool.queries), BLOCK):
            block = self.pool.queries[start : start + BLOCK]
            cosines, places = self.index.nearest(self.embedded.of(block), count + 1)
            for query, near, at in zip(block.tolist(), cosines, places, strict=True):
                there = at >= 0
                rows = self.pool.candidates[at[there]]
                found.append(ranked(query, rows, near[there].astype(np.float64), count, "neighbours"))
        return Mined.joined(found)

    def scores(self, pairs: Pairs) -> Floats:
        """(n, 2) pairs -> (n,) cosines."""
        return self.embedded.cosines(pairs)


def miner_of(name: str, pool: Pool, embedded: Embedded | None, sample: int, rng: np.random.Generator) -> Miner:
    """The miner by name; `neighbours` and `model` need vectors, the latter of the current model."""
    if name == "random":
        return Random(pool, rng)
    if name in ("bm25", "tfidf"):
        return Bm25(pool) if name == "bm25" else Tfidf(pool)
    assert embedded is not None, name
    return Nearest(pool, embedded) if name == "neighbours" else Hardest(pool, embedded.cosines, sample, rng)
