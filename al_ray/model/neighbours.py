"""Nearest neighbours by Faiss, the one module that imports it: inner product on unit vectors (paper, 4.2.2)."""

from typing import Any

import faiss
import numpy as np

from al_ray.core.errors import BadOption
from al_ray.core.pairs import Rows
from al_ray.model.encoder import Vectors

NONE = -1


class Neighbours:
    """An index over unit vectors; `place` in it is the row of `vectors` it was built from."""

    def __init__(self, vectors: Vectors, factory: str, nprobe: int, device: str = "cpu") -> None:
        """(n, d) unit vectors and a Faiss index-factory string; BadOption when Faiss refuses it."""
        self.size = len(vectors)
        try:
            self.index: Any = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
            self._fill(vectors, nprobe, device)
        except RuntimeError as error:
            reason = str(error).split("Error: ")[-1].strip().splitlines()[0]
            raise BadOption(f"--search.index {factory!r} on {self.size:,} vectors: {reason}; try Flat") from error

    def _fill(self, vectors: Vectors, nprobe: int, device: str) -> None:
        if device != "cpu":
            # One resources object an actor, kept referenced; 256 MB leave the rest of the card to torch.
            self.resources = faiss.StandardGpuResources()
            self.resources.setTempMemory(256 * 2**20)
            self.index = faiss.index_cpu_to_gpu(self.resources, 0, self.index)
        if not self.index.is_trained:
            self.index.train(vectors)
        self.index.add(vectors)
        if "IVF" in type(self.index).__name__ or hasattr(self.index, "nprobe"):
            self.index.nprobe = nprobe

    def nearest(self, queries: Vectors, count: int) -> tuple[Vectors, Rows]:
        """(q, d) -> cosines (q, count) and places (q, count), best first; -inf and -1 where there are fewer."""
        cosines, places = self.index.search(np.ascontiguousarray(queries), min(count, max(1, self.size)))
        short = count - cosines.shape[1]
        if short > 0:
            cosines = np.pad(cosines, ((0, 0), (0, short)), constant_values=-np.inf)
            places = np.pad(places, ((0, 0), (0, short)), constant_values=NONE)
        return np.where(places == NONE, -np.inf, cosines).astype(np.float32), places


def set_threads(count: int) -> None:
    """Threads that Faiss uses in this process."""
    faiss.omp_set_num_threads(count)
