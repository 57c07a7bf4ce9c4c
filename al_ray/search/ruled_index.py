"""Exact nearest neighbours among the texts with which each query can match (core/pair_rule.py)."""

import numpy as np
import numpy.typing as npt
import torch

from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import Rows
from al_ray.core.vectors import Block
from al_ray.encoders.products import product
from al_ray.search.faiss_index import NONE
from al_ray.search.vector_files import single

COLUMNS = 8192  # Texts in one product with the queries.


class RuledIndex:
    """Compares each query with every text that it can match; a `place` is the row of the vectors.

    Faiss has no rule for each query of a batch, so an index by cells or codes is refused for such tasks.
    """

    plain = nested = True

    def __init__(self, held: Block, rule: PairRule, device: str = "cpu") -> None:
        """Search texts (n,) with their unit vectors; nothing is copied."""
        self.held, self.rule, self.device, self.size = held, rule, torch.device(device), len(held.rows)

    def probed(self, queries: Block) -> Block:
        """Return the queries: this index has no cells."""
        return queries

    def nearest_to(self, queries: Block, count: int) -> tuple[npt.NDArray[np.float32], Rows]:
        """(q,) queries -> cosines (q, count) and places (q, count), best first; -inf and -1 where there are fewer."""
        vectors = single(queries.vectors).to(self.device)
        best = torch.full((len(queries.rows), count), -torch.inf, device=self.device)
        places = torch.full(best.shape, NONE, dtype=torch.int64, device=self.device)
        reachable = self.rule.reachable(queries.rows, self.held.rows)
        for start in range(0, len(reachable), COLUMNS):
            own = reachable[start : start + COLUMNS]
            tile = product(vectors, single(self.held.vectors[own]).to(self.device))
            excluded = ~self.rule.table(queries.rows, self.held.rows[own])
            tile.masked_fill_(torch.from_numpy(excluded).to(self.device), -torch.inf)
            cosines, at = tile.topk(min(count, len(own)), dim=1)
            found = torch.from_numpy(own).to(self.device)[at].masked_fill_(cosines == -torch.inf, NONE)
            best, order = torch.cat([best, cosines], dim=1).topk(count, dim=1)
            places = torch.cat([places, found], dim=1).gather(1, order)
        return best.cpu().numpy(), places.cpu().numpy()
