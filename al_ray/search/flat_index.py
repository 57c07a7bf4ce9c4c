"""Exact nearest neighbours by products with all texts, without Faiss: `Flat` on a GPU, and every task with a pair rule.

A product of 16 bits on a GPU is rough: its sums are of float32, but bits are cut off (exact_join.py has the bound). So
some more texts than asked for are taken by it, and their cosines are computed again in float64. Where a text beyond
these may still be among the nearest, the query is compared with all texts again in float32.
"""

import numpy as np
import numpy.typing as npt
import torch

from al_ray.core.config.sections import SearchConfig
from al_ray.core.nearest_means import NearestMeans
from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import Rows
from al_ray.core.vectors import Block, Vectors
from al_ray.search.faiss_index import AT_ONCE, NONE, Bytes, CosineIndex, exact_nearest
from al_ray.search.join.exact_join import closer, rough_cosines, rough_error
from al_ray.search.knn_merge import PairIndex
from al_ray.search.merge import Neighbors
from al_ray.search.vector_files import single

COLUMNS = 8192  # Texts in one product with the queries on a CPU.
PRODUCT = 2**29  # Bytes of one product on a GPU at most, and of the texts in it as float32.
EXTRA = 32  # Extra neighbours of a rough product: with fewer, more queries must be recomputed.


def is_flat_on_gpu(factory: str, device: str) -> bool:
    """Whether an index of this kind is a FlatIndex for any task, so that no Faiss is needed for it."""
    return device != "cpu" and factory == "Flat"


def index_of(held: Block, search: SearchConfig, device: str, rule: PairRule | None, trained: Bytes | None) -> PairIndex:
    """Make the index of a shard's texts. trained: the result of `train_index`, for Faiss.

    An exact search needs no Faiss; so Flat does not either, where beside it near pairs or neighbours are found.
    """
    if rule is not None or is_flat_on_gpu(search.index, device) or (search.kind, search.index) == ("exact", "Flat"):
        return FlatIndex(held, device, rule)
    return CosineIndex(held.vectors, search.index, search.nprobe, device, trained)


def exact_neighbors(held: Block, queries: Block, count: int, device: str) -> Neighbors:
    """Return the `count` nearest by comparison with every text, the truth for recall: by torch on a GPU, else by Faiss.

    Nothing stays on the GPU, where an index is.
    """
    if device == "cpu" or not len(held.rows):
        return exact_nearest(held, queries.vectors, count, "ip")
    cosines, places = FlatIndex(held, device, resident=False).nearest_to(queries, count)
    return cosines, np.where(places == NONE, NONE, held.rows[places])


class FlatIndex:
    """Compares each query with every text, or with every one that it can match; a `place` is the row of the vectors.

    Faiss has no rule for each query of a batch, so an index by cells or codes is refused for tasks that have one.
    """

    plain = nested = True

    def __init__(self, held: Block, device: str = "cpu", rule: PairRule | None = None, resident: bool = True) -> None:
        """Search texts (n,) with their unit vectors.

        On a CPU nothing is copied. On a GPU the vectors stay there, in float32 or in the 16 bits that they have, unless
        not resident: then they are copied block by block in each search.
        """
        self.held, self.rule, self.size, self.widest = held, rule, len(held.rows), len(held.rows)
        self.device, self.on_gpu = torch.device(device), device != "cpu"
        self.vectors = self._copied(held.vectors) if resident and self.on_gpu else None

    def probed(self, queries: Block) -> Block:
        """Return the queries: this index has no cells."""
        return queries

    def nearest_to(self, queries: Block, count: int) -> tuple[npt.NDArray[np.float32], Rows]:
        """(q,) queries -> cosines (q, count) and places (q, count), best first; -inf and -1 where there are fewer.

        With offsets of right texts these are subtracted, so that the nearest are those of the highest score.
        """
        vectors = self._copied(queries.vectors)
        if self.vectors is None or vectors.dtype != torch.float16:
            best, places = self._scan(vectors.float(), queries, count)
        else:
            best, places = self._scan_in_halves(self.vectors, vectors, queries, count)
        return best.cpu().numpy(), places.cpu().numpy()

    def _scan(self, vectors: torch.Tensor, queries: Block, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(q, d) vectors of queries -> cosines and places (q, count), by products of their type."""
        rows = queries.rows
        best = torch.full((len(rows), count), -torch.inf, device=self.device)
        places = torch.full(best.shape, NONE, dtype=torch.int64, device=self.device)
        every = np.arange(self.size) if self.rule is None else self.rule.reachable(rows, self.held.rows)
        step = PRODUCT // (4 * max(1, *vectors.shape)) if self.on_gpu else COLUMNS
        for start in range(0, len(every), step):
            own = every[start : start + step]
            tile = rough_cosines(vectors, self._vectors_at(own).to(vectors.dtype))
            if self.rule is not None:
                excluded = ~self.rule.table(rows, self.held.rows[own])
                tile.masked_fill_(torch.from_numpy(excluded).to(self.device), -torch.inf)
            if queries.right_offsets is not None:
                tile.sub_(self._offsets_at(own, queries.right_offsets).float())
            cosines, at = tile.topk(min(count, len(own)), dim=1)
            found = torch.from_numpy(own).to(self.device)[at].masked_fill_(cosines == -torch.inf, NONE)
            best, order = torch.cat([best, cosines], dim=1).topk(count, dim=1)
            places = torch.cat([places, found], dim=1).gather(1, order)
        return best, places

    def _scan_in_halves(
        self, held: torch.Tensor, vectors: torch.Tensor, queries: Block, count: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """As `_scan`, by rough products of vectors of 16 bits, whose best are recomputed in float64."""
        rough, places = self._scan(vectors, queries, count + EXTRA)
        lines, columns = (places != NONE).nonzero(as_tuple=True)
        exact = torch.full(rough.shape, -torch.inf, dtype=torch.float64, device=self.device)
        exact[lines, columns] = closer(vectors, held, lines, places[lines, columns])
        if queries.right_offsets is not None:
            offsets = self._offsets_at(np.arange(self.size), queries.right_offsets)
            exact[lines, columns] -= offsets[places[lines, columns]]
        best, order = exact.topk(count, dim=1)
        settled, places = best.float(), places.gather(1, order)
        # A text outside the rough neighbours is no nearer than the last of them, up to rounding.
        shifted = 0.0 if queries.right_offsets is None else 2.0**-23
        unseen = rough[:, -1].double() + rough_error(vectors.shape[1]) + shifted
        unclear = (best[:, -1] < unseen).nonzero().view(-1) if self.size > count + EXTRA else lines[:0]
        if len(unclear):
            again = self._scan(vectors[unclear].float(), queries.take(unclear.cpu().numpy()), count)
            settled[unclear], places[unclear] = again
        return settled, places

    def _offsets_at(self, places: Rows, offsets: NearestMeans) -> torch.Tensor:
        """(k,) places -> what is subtracted from the cosines with their texts, in float64 on the device."""
        return torch.from_numpy(offsets.of(self.held.rows[places])).to(self.device)

    def _vectors_at(self, places: Rows) -> torch.Tensor:
        """(k,) sorted places -> their vectors on the device: no copy of a range of those that stay there."""
        is_range = len(places) == places[-1] - places[0] + 1
        at = slice(int(places[0]), int(places[-1]) + 1) if is_range else places
        if self.vectors is None:
            return self._copied(self.held.vectors[at])
        return self.vectors[at if isinstance(at, slice) else torch.from_numpy(at).to(self.device)]

    def _copied(self, vectors: Vectors) -> torch.Tensor:
        """(n, d) vectors on the device: in float32 on a CPU, as they are on a GPU."""
        if not self.on_gpu:
            return single(vectors)
        kind = torch.float16 if vectors.dtype == np.float16 else torch.float32
        copied = torch.empty(vectors.shape, dtype=kind, device=self.device)
        # In parts, because vectors that are mapped from a file may not fit into memory.
        for start in range(0, len(vectors), AT_ONCE):
            part = np.require(vectors[start : start + AT_ONCE], requirements="W")
            copied[start : start + AT_ONCE] = torch.from_numpy(part)
        return copied
