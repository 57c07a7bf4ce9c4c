"""Nearest neighbours by Faiss, in the one module that imports it, when it is first needed.

Metric "ip": the inner product of unit vectors, for pair candidates (paper, 4.2.2). Metric "l2": the squared Euclidean
distance of any vectors, for question paraphrase retrieval (paper 002, 2.1.2).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadFile, BadOption
from al_ray.core.naming import option
from al_ray.core.pairs import Rows
from al_ray.core.vectors import Block, Vectors
from al_ray.encoders.hardware import give_back_memory
from al_ray.search.merge import Metric, Neighbors, merge_neighbors
from al_ray.search.threads import faiss_threads

NONE = -1
# Kinds whose cosines are products of the vectors themselves; others store codes, or rotate the vectors first.
PLAIN = re.compile(r"(Flat|IVF\d+(_HNSW\d+)?,Flat|HNSW\d+(,Flat)?|NSG\d+(,Flat)?)")
# Kinds that keep vectors of 16 bits as they are.
PLAIN_HALVES = re.compile(r"(IVF\d+(_HNSW\d+)?,)?SQfp16")
# Kinds that compare a query with the same vectors however many neighbours are asked for. HNSW looks further for more.
NESTED = re.compile(r"(IVF\d+(_HNSW\d+)?,)?(Flat|SQfp16)")
LEAST_SAMPLE, SAMPLE_PER_CELL = 20_000, 100  # Vectors that an index trains on: at least, and for each cell.
SMALL = 2**16  # Cells whose numbers have 16 bits.
AT_ONCE = 65_536  # Vectors converted to float32 at a time.
Bytes: TypeAlias = npt.NDArray[np.uint8]
TEMPORARY = 2**28  # Bytes of a GPU that Faiss takes besides its index: the rest is left to torch.
GPU_NEIGHBOURS = 2048  # Neighbours and cells that Faiss searches for a query on a GPU, at most.
FAISS_METRICS: dict[Metric, int] = {"ip": 0, "l2": 1}  # METRIC_INNER_PRODUCT, METRIC_L2
OPTIONS: dict[Metric, str] = {"ip": "`search.index`", "l2": "`index`"}  # Names an index of the metric, for errors.


@dataclass(frozen=True)
class ProbedBlock(Block):
    """Queries with the cells of an IVF index that are searched for each: their numbers (b, p), nearest first.

    cosines: (b, p) with the centroids, where codes are relative to these; else None.
    Indexes with the same cells search these without comparing the queries with all centroids again.
    """

    cells: npt.NDArray[np.uint16 | np.int32]
    cosines: npt.NDArray[np.float32] | None

    def take(self, places: Rows) -> "ProbedBlock":
        """Return the queries at (k,) places."""
        cosines = None if self.cosines is None else self.cosines[places]
        return ProbedBlock(self.rows[places], self.vectors[places], self.cells[places], cosines)


@cache
def _faiss() -> Any:
    """Faiss, with the threads that were set last. Without it all but indexes works."""
    import faiss

    if faiss_threads:
        faiss.omp_set_num_threads(faiss_threads[-1])
    return faiss


class CosineIndex:
    """An index of unit vectors by inner product; a `place` in it is the row of `vectors` it was built from."""

    def __init__(
        self, vectors: Vectors, factory: str, nprobe: int, device: str = "cpu", trained: Bytes | None = None
    ) -> None:
        """(n, d) unit vectors and a Faiss index-factory string; BadOption when Faiss refuses it.

        The index copies the vectors in float32 unless the factory says otherwise (SQfp16 keeps fp16 as they are).
        trained: the result of `train_index`, the same for all shards; without it the index trains on `vectors`.
        """
        self.size = self.widest = len(vectors)
        self.plain, self.nested = is_plain(factory, vectors.dtype == np.float16), bool(NESTED.fullmatch(factory))
        with _faiss_errors(factory, len(vectors), "ip"):
            self.index: Any = _empty_index(vectors, factory, "ip", trained)
            if device != "cpu":
                self.widest = GPU_NEIGHBOURS
                # Faiss allocates its own memory, and cannot use what torch has cached.
                give_back_memory(device)
                # One resources object an actor, kept referenced.
                self.resources = _faiss().StandardGpuResources()
                self.resources.setTempMemory(TEMPORARY)
                self.index = _faiss().index_cpu_to_gpu(self.resources, 0, self.index)
            for part in _parts(len(vectors)):
                self.index.add(_float32(vectors[part]))
            self.probes = min(nprobe, int(self.index.nlist)) if hasattr(self.index, "nprobe") else 0
            if self.probes:
                self.index.nprobe = self.probes

    def probed(self, queries: Block) -> Block:
        """Return queries with the cells that are searched for each, if this index has cells: a ProbedBlock."""
        if not self.probes or isinstance(queries, ProbedBlock):
            return queries
        cosines, cells = self.index.quantizer.search(_float32(queries.vectors), self.probes)
        # They travel to all shards. A graph of centroids may find fewer, and says -1.
        small = self.index.nlist <= SMALL and cells.min(initial=0) >= 0
        kind, needed = np.uint16 if small else np.int32, None if self.plain else cosines
        return ProbedBlock(queries.rows, queries.vectors, cells.astype(kind), needed)

    def nearest(self, queries: Vectors, count: int) -> tuple[npt.NDArray[np.float32], Rows]:
        """(q, d) -> cosines (q, count) and places (q, count), best first; -inf and -1 where there are fewer."""
        return _filled(self.index.search(_float32(queries), min(count, max(1, self.size))), count)

    def nearest_to(self, queries: Block, count: int) -> tuple[npt.NDArray[np.float32], Rows]:
        """Return `nearest` of the vectors of a block of queries, among the cells that it names if it names some."""
        if not isinstance(queries, ProbedBlock):
            return self.nearest(queries.vectors, count)
        cosines = np.zeros(queries.cells.shape, np.float32) if queries.cosines is None else queries.cosines
        where = min(count, max(1, self.size)), queries.cells.astype(np.int64), cosines
        return _filled(self.index.search_preassigned(_float32(queries.vectors), *where), count)


class DistanceIndex:
    """An index by squared Euclidean distance; a `place` in it is the number that each vector was given."""

    def __init__(self, index: Any) -> None:
        """Wrap a Faiss index; `build` and `read` make one."""
        self.index = index

    @staticmethod
    def build(
        vectors: Vectors, factory: str, rows: Rows | None = None, trained: Bytes | None = None
    ) -> "DistanceIndex":
        """(n, d) vectors and a Faiss index-factory string; BadOption when Faiss refuses it.

        rows: (n,) the places of the vectors, 0 to n - 1 when not given.
        trained: the result of `train_index`, the same for all shards; without it the index trains on `vectors`.
        """
        rows = np.arange(len(vectors)) if rows is None else rows
        with _faiss_errors(factory, len(vectors), "l2"):
            index = _empty_index(vectors, factory, "l2", trained)
            for part in _parts(len(vectors)):
                index.add_with_ids(_float32(vectors[part]), rows[part])
        return DistanceIndex(index)

    def cells(self) -> int:
        """Return the number of cells of an IVF index; 0 for any other kind."""
        inverted = _faiss().try_extract_index_ivf(self.index)
        return 0 if inverted is None else int(inverted.nlist)

    def set_nprobe(self, nprobe: int) -> "DistanceIndex":
        """Search `nprobe` cells for each query from now on, and return the index. No effect without cells."""
        if self.cells():
            _faiss().extract_index_ivf(self.index).nprobe = nprobe
        return self

    def __len__(self) -> int:
        """Return the number of vectors."""
        return int(self.index.ntotal)

    def nearest(self, queries: Vectors, count: int) -> Neighbors:
        """(q, d) -> squared distances (q, k) and places (q, k), best first; inf and -1 where fewer are found.

        k: `count`, or the size of the index if that is smaller. Equal distances are ordered by place.
        """
        if not len(self):
            return _no_neighbors(queries)
        distances, places = self.index.search(_float32(queries), min(count, len(self)))
        return merge_neighbors([(np.where(places == NONE, np.inf, distances).astype(np.float32), places)], count, "l2")

    def write(self, path: Path) -> None:
        """Write the index with its vectors."""
        _faiss().write_index(self.index, str(path))

    @staticmethod
    def read(path: Path) -> "DistanceIndex":
        """Read what `write` wrote; BadFile when it is not there or damaged."""
        try:
            return DistanceIndex(_faiss().read_index(str(path)))
        except RuntimeError as error:
            again = "make it again: `al-ray paraphrase index`"
            raise BadFile(f"{path} cannot be read as a Faiss index; {again}") from error


def exact_nearest(block: Block, queries: Vectors, count: int, metric: Metric) -> Neighbors:
    """(q, d) queries -> the nearest rows of a block by comparison with every vector: the truth for recall.

    Returns (q, k) cosines ("ip") or squared distances ("l2") and rows, k: `count` or fewer. Float32 decides ties.
    """
    if not len(block.rows):
        return _no_neighbors(queries)
    answers: list[Neighbors] = []
    # In parts, because vectors that are mapped from a file may not fit into memory as float32.
    for part in _parts(len(block.rows)):
        vectors, k = _float32(block.vectors[part]), min(count, len(block.rows[part]))
        scores, places = _faiss().knn(_float32(queries), vectors, k, metric=FAISS_METRICS[metric])
        answers.append((scores, block.rows[part][places]))
    return merge_neighbors(answers, count, metric)


def is_plain(factory: str, halves: bool) -> bool:
    """Whether the cosines of an index are products of the vectors themselves. halves: these are of 16 bits."""
    return bool(PLAIN.fullmatch(factory) or (halves and PLAIN_HALVES.fullmatch(factory)))


def set_threads(count: int | None) -> None:
    """Set the threads of Faiss for calls of this thread, and when it is first needed; None before that: as it likes."""
    faiss_threads[:] = [] if count is None else [count]
    if count is not None and _faiss.cache_info().currsize:
        _faiss().omp_set_num_threads(count)


def check_index_on_device(factory: str, device: str) -> None:
    """Raise BadOption, before there are vectors, for an index that Faiss lacks on a GPU; `Flat` needs no Faiss."""
    if device == "cpu" or factory == "Flat":
        return
    if not hasattr(_faiss(), "StandardGpuResources"):
        raise BadOption(
            "the Faiss of a node with GPUs is faiss-cpu, which cannot search there: install faiss-gpu in its place, or "
            "give `RunConfig.search.index='Flat'`, which needs none, or leave out `gpus_per_shard`"
        )
    # A number of dimensions that any product quantiser divides.
    index: Any = _faiss().index_factory(960, factory, FAISS_METRICS["ip"])
    try:
        _faiss().index_cpu_to_gpu(_faiss().StandardGpuResources(), 0, index)
    except RuntimeError as error:
        reason = str(error).split("Error: ")[-1].strip().splitlines()[0]
        name = option("RunConfig.search.index", factory)
        raise BadOption(f"{name}: Faiss has no such index on a GPU ({reason}); give Flat or IVFx,Flat") from error


def sample_size(factory: str, width: int, metric: Metric = "ip") -> int:
    """Return how many vectors an index of this kind trains on; 0 for one that needs no training.

    100 for each of its cells (Faiss wants 39 at least), and enough for the 256 centroids of a product quantiser.
    """
    if factory == "Flat":
        return 0
    with _faiss_errors(factory, 0, metric):
        index: Any = _faiss().index_factory(width, factory, FAISS_METRICS[metric])
    return 0 if index.is_trained else max(LEAST_SAMPLE, SAMPLE_PER_CELL * int(getattr(index, "nlist", 0)))


def train_index(sample: Vectors, factory: str, metric: Metric = "ip", centroids: Vectors | None = None) -> Bytes:
    """(n, d) vectors -> an index trained on them that holds none, as bytes: the same for all shards.

    centroids: (c, d), of the cells of an IVF index; Faiss learns them if they are not given.
    BadOption when Faiss refuses the factory string.
    """
    with _faiss_errors(factory, len(sample), metric):
        return _faiss().serialize_index(_empty_index(sample, factory, metric, centroids=centroids))


def _empty_index(
    sample: Vectors, factory: str, metric: Metric, trained: Bytes | None = None, centroids: Vectors | None = None
) -> Any:
    """Read the trained index, or make one and train it on the (n, d) sample, but for the cells if they are given."""
    if trained is not None:
        return _faiss().deserialize_index(trained)
    # Places by distance are numbers that the caller gives; an IVF index stores them anyway.
    named = factory if metric == "ip" or "IVF" in factory else f"IDMap,{factory}"
    index: Any = _faiss().index_factory(sample.shape[1], named, FAISS_METRICS[metric])
    if metric == "ip" and "IVF" in factory and PLAIN_HALVES.fullmatch(factory):
        # By default it rounds differences from the centroid.
        index.by_residual = False
    if centroids is not None:
        index.quantizer.add(_float32(centroids))
    if not index.is_trained:
        index.train(_float32(sample))
    return index


def _parts(count: int) -> list[slice]:
    """Slices that cover `count` vectors, AT_ONCE in each."""
    return [slice(start, start + AT_ONCE) for start in range(0, count, AT_ONCE)]


def _filled(found: Neighbors, count: int) -> tuple[npt.NDArray[np.float32], Rows]:
    """What Faiss found of each query -> cosines (q, count) and places (q, count); -inf and -1 where there are fewer."""
    room = (0, 0), (0, count - found[0].shape[1])
    cosines, places = np.pad(found[0], room, constant_values=-np.inf), np.pad(found[1], room, constant_values=NONE)
    return np.where(places == NONE, -np.inf, cosines).astype(np.float32), places


def _no_neighbors(queries: Vectors) -> Neighbors:
    return np.empty((len(queries), 0), dtype=np.float32), np.empty((len(queries), 0), dtype=np.int64)


def _float32(vectors: Vectors) -> npt.NDArray[np.float32]:
    """The vectors as Faiss takes them."""
    return np.ascontiguousarray(vectors, dtype=np.float32)


@contextmanager
def _faiss_errors(factory: str, size: int, metric: Metric) -> Iterator[None]:
    """Turn an error of Faiss about a factory string into BadOption that says what to do."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).split("Error: ")[-1].strip().splitlines()[0]
        raise BadOption(f"{OPTIONS[metric]} {factory!r} on {size:,} vectors: {reason}; try Flat") from error
