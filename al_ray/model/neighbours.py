"""Nearest neighbours by Faiss, the one module that imports it: inner product on unit vectors (paper, 4.2.2).

And squared distance of any vectors, which question paraphrase retrieval is by (paper 002, 2.1.2).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import faiss
import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadFile, BadOption
from al_ray.core.pairs import Rows
from al_ray.core.retrieval import Near, merged
from al_ray.model.encoder import Vectors

NONE = -1
# Kinds whose cosines are products of the vectors themselves; others keep codes of them, or turn them first.
PLAIN = re.compile(r"(Flat|IVF\d+(_HNSW\d+)?,Flat|HNSW\d+(,Flat)?|NSG\d+(,Flat)?)")
LEAST_SAMPLE = 20_000
ADDED = 65_536  # Vectors taken to float32 at a time.
Bytes: TypeAlias = npt.NDArray[np.uint8]


class Neighbours:
    """An index over unit vectors; `place` in it is the row of `vectors` it was built from."""

    def __init__(
        self, vectors: Vectors, factory: str, nprobe: int, device: str = "cpu", trained: Bytes | None = None
    ) -> None:
        """(n, d) unit vectors and a Faiss index-factory string; BadOption when Faiss refuses it.

        The index has its own copy of them, in float32 unless the factory says otherwise (SQfp16 holds fp16 exactly).
        trained: what `trained` made of a sample, the same for all shards; of these very vectors when not given.
        """
        self.size = len(vectors)
        self.plain = PLAIN.fullmatch(factory) is not None
        with _worded(factory, len(vectors)):
            self.index: Any = faiss.deserialize_index(trained) if trained is not None else _made(factory, vectors)
            if device != "cpu":
                # One resources object an actor, kept referenced; 256 MB leave the rest of the card to torch.
                self.resources = faiss.StandardGpuResources()
                self.resources.setTempMemory(256 * 2**20)
                self.index = faiss.index_cpu_to_gpu(self.resources, 0, self.index)
            for start in range(0, len(vectors), ADDED):
                self.index.add(_single(vectors[start : start + ADDED]))
            if "IVF" in type(self.index).__name__ or hasattr(self.index, "nprobe"):
                self.index.nprobe = nprobe

    def nearest(self, queries: Vectors, count: int) -> tuple[npt.NDArray[np.float32], Rows]:
        """(q, d) -> cosines (q, count) and places (q, count), best first; -inf and -1 where there are fewer."""
        cosines, places = self.index.search(_single(queries), min(count, max(1, self.size)))
        short = count - cosines.shape[1]
        if short > 0:
            cosines = np.pad(cosines, ((0, 0), (0, short)), constant_values=-np.inf)
            places = np.pad(places, ((0, 0), (0, short)), constant_values=NONE)
        return np.where(places == NONE, -np.inf, cosines).astype(np.float32), places


class ByDistance:
    """An index by squared Euclidean distance; a `place` in it is a number that each vector was given."""

    def __init__(self, index: Any) -> None:
        """Hold a Faiss index; see `of` and `read`, which make one."""
        self.index = index

    @staticmethod
    def learnt(sample: Vectors, factory: str) -> Bytes:
        """(n, d) vectors -> an index that has learnt from them and holds none, as bytes: the same for all shards."""
        with _worded(factory, len(sample), "--index"):
            return faiss.serialize_index(_made(_naming(factory), sample, faiss.METRIC_L2))

    @staticmethod
    def of(vectors: Vectors, factory: str, rows: Rows | None = None, learnt: Bytes | None = None) -> "ByDistance":
        """(n, d) vectors and a Faiss index-factory string; BadOption when Faiss refuses it.

        rows: (n,) the places of the vectors, 0 to n - 1 when not given. learnt: see above; from these very vectors when
        not given.
        """
        rows = np.arange(len(vectors)) if rows is None else rows
        with _worded(factory, len(vectors), "--index"):
            made = _made(_naming(factory), vectors, faiss.METRIC_L2) if learnt is None else None
            index: Any = faiss.deserialize_index(learnt) if learnt is not None else made
            for start in range(0, len(vectors), ADDED):
                index.add_with_ids(_single(vectors[start : start + ADDED]), rows[start : start + ADDED])
        return ByDistance(index)

    def cells(self) -> int:
        """The cells of an IVF index; 0 for one that has none."""
        inverted = faiss.try_extract_index_ivf(self.index)
        return 0 if inverted is None else int(inverted.nlist)

    def probing(self, nprobe: int) -> "ByDistance":
        """Itself, which from now on looks into so many cells for each query; without meaning for one that has none."""
        if self.cells():
            faiss.extract_index_ivf(self.index).nprobe = nprobe
        return self

    def __len__(self) -> int:
        """How many vectors it holds."""
        return int(self.index.ntotal)

    def nearest(self, queries: Vectors, count: int) -> Near:
        """(q, d) -> squared distances (q, k) and places (q, k), best first; inf and -1 where fewer are found.

        k: `count`, or what the index holds. Of equally near ones the first place comes first.
        """
        if not len(self):
            return np.empty((len(queries), 0), dtype=np.float32), np.empty((len(queries), 0), dtype=np.int64)
        apart, places = self.index.search(_single(queries), min(count, len(self)))
        return merged([(np.where(places == NONE, np.inf, apart).astype(np.float32), places)], count)

    def write(self, path: Path) -> None:
        """Write it with its vectors."""
        faiss.write_index(self.index, str(path))

    @staticmethod
    def read(path: Path) -> "ByDistance":
        """What `write` wrote; BadFile when it is not there or damaged."""
        try:
            return ByDistance(faiss.read_index(str(path)))
        except RuntimeError as error:
            raise BadFile(f"{path} cannot be read as a Faiss index; make it again: jobs.paraphrase index") from error


def truly_nearest(vectors: Vectors, rows: Rows, queries: Vectors, count: int) -> Near:
    """(n, d) vectors with (n,) places, (q, d) queries -> what ByDistance.nearest of a Flat index says, without one."""
    if not len(vectors):
        return np.empty((len(queries), 0), dtype=np.float32), np.empty((len(queries), 0), dtype=np.int64)
    apart, found = faiss.knn(_single(queries), _single(vectors), min(count, len(vectors)))
    return merged([(apart, rows[found])], count)


def set_threads(count: int) -> None:
    """Threads that Faiss uses in this process."""
    faiss.omp_set_num_threads(count)


def sample_size(factory: str, width: int, option: str = "--search.index") -> int:
    """How many vectors an index of this kind learns from; 0 for one that has nothing to learn.

    100 for each of its cells (Faiss wants 39 at least), and enough for the 256 centroids of a product quantiser.
    """
    with _worded(factory, 0, option):
        index: Any = faiss.index_factory(width, factory, faiss.METRIC_INNER_PRODUCT)
    return 0 if index.is_trained else max(LEAST_SAMPLE, 100 * int(getattr(index, "nlist", 0)))


def trained(sample: Vectors, factory: str) -> Bytes:
    """(n, d) unit vectors -> an index that has learnt from them and holds none, as bytes. BadOption as above."""
    with _worded(factory, len(sample)):
        return faiss.serialize_index(_made(factory, sample))


def _naming(factory: str) -> str:
    """The same kind of index, which calls each vector by a number that it is given; an IVF index does so anyway."""
    return factory if "IVF" in factory else f"IDMap,{factory}"


def _made(factory: str, sample: Vectors, metric: int = faiss.METRIC_INNER_PRODUCT) -> Any:
    index: Any = faiss.index_factory(sample.shape[1], factory, metric)
    if not index.is_trained:
        index.train(_single(sample))
    return index


def _single(vectors: Vectors) -> npt.NDArray[np.float32]:
    """As Faiss takes them."""
    return np.ascontiguousarray(vectors, dtype=np.float32)


@contextmanager
def _worded(factory: str, size: int, option: str = "--search.index") -> Iterator[None]:
    """What Faiss says of an index, as an error that a person can mend."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).split("Error: ")[-1].strip().splitlines()[0]
        raise BadOption(f"{option} {factory!r} on {size:,} vectors: {reason}; try Flat") from error
