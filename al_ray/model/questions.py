"""Search among questions: an encoder and a Faiss index by squared distance (paper 002, 2.1)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from al_ray.core.pairs import Rows
from al_ray.model.encoder import Vectors
from al_ray.model.encoders import TextEncoder
from al_ray.model.neighbours import ByDistance
from al_ray.model.paraphrase import Watch, embedded, unwatched
from al_ray.model.tokens import Tokens


@dataclass(frozen=True)
class Found:
    """Of (q,) questions the nearest: squared distances (q, k) and places (q, k), best first; inf and -1 where none.

    encoding, searching: seconds, of tokenising and encoding, and of Faiss.
    """

    apart: npt.NDArray[np.float32]
    places: Rows
    encoding: float
    searching: float


class Questions:
    """An encoder, and an index of what it made of many questions."""

    def __init__(self, encoder: TextEncoder, index: ByDistance) -> None:
        """Hold the parts."""
        self.encoder, self.index = encoder, index

    @staticmethod
    def of(
        encoder: TextEncoder, texts: Sequence[str], factory: str, nprobe: int, watch: Watch = unwatched
    ) -> "Questions":
        """Encode the texts and index them; BadOption for a factory that Faiss refuses."""
        return Questions(encoder, ByDistance.of(vectors_of(encoder, texts, watch), factory, nprobe))

    @staticmethod
    def read(encoder: TextEncoder, path: Path) -> "Questions":
        """With an index that was written."""
        return Questions(encoder, ByDistance.read(path))

    def nearest(self, texts: Sequence[str], count: int) -> Found:
        """The `count` nearest of each of these texts, at least one of them."""
        started = time.perf_counter()
        vectors = vectors_of(self.encoder, texts)
        encoded = time.perf_counter()
        apart, places = self.index.nearest(vectors, count)
        return Found(apart, places, encoded - started, time.perf_counter() - encoded)


def vectors_of(encoder: TextEncoder, texts: Sequence[str], watch: Watch = unwatched) -> Vectors:
    """(n,) texts -> their vectors (n, d), not of unit length."""
    tokens = Tokens.of([ids for block in encoder.tokenise(texts) for ids in block])
    return embedded(encoder, tokens, np.arange(len(tokens)), watch)
