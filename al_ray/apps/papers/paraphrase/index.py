"""Question search: an encoder and a Faiss index by squared distance, whole or in shards (paper 002, 2.1)."""

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.naming import option
from al_ray.core.pairs import Rows
from al_ray.core.progress import OnProgress
from al_ray.core.vectors import Block, Vectors
from al_ray.encoders.encoder import TextEncoder, embed_batches, embed_rows, saved, sorted_rows
from al_ray.encoders.tokens import StoredTokens, Tokens, batches
from al_ray.search.faiss_index import Bytes, DistanceIndex, exact_nearest, sample_size, set_threads, train_index
from al_ray.search.merge import Neighbors, Scores, join_blocks, merge_neighbors, recall

logger = logging.getLogger(__name__)

# Queries that measure the recall of an index, and neighbours of each query.
RECALL_QUERIES, NEAREST = 1_000, 10
# Squared distances computed in two ways in float32 differ by less than this share of the query's squared length.
ROUNDING = 1e-5
CallShards: TypeAlias = Callable[..., list[Any]]
"""Calls a method of all shards by name with arguments and returns their results."""


class Index(Protocol):
    """An index that can be searched: a DistanceIndex, or several on actors (sharded_index.py)."""

    def __len__(self) -> int:
        """Return the number of vectors."""
        ...

    def nearest(self, queries: Vectors, count: int) -> Neighbors:
        """(q, d) vectors -> the `count` nearest of each, or as many as there are."""
        ...


@dataclass(frozen=True)
class SearchResult:
    """The nearest of (q,) questions: squared distances (q, k) and places (q, k), best first; inf and -1 where none.

    encoding: seconds of tokenising and encoding. searching: seconds of the index.
    """

    distances: Scores
    places: Rows
    encoding: float
    searching: float


class QuestionSearch:
    """An encoder, and an index of the vectors of many questions."""

    def __init__(self, encoder: TextEncoder, index: Index) -> None:
        """index: built from vectors of the same encoder."""
        self.encoder, self.index = encoder, index

    def nearest(self, texts: Sequence[str], count: int) -> SearchResult:
        """Find the `count` nearest questions of each text; at least one text."""
        started = time.perf_counter()
        tokens = self.encoder.tokenise(texts)
        vectors = embed_rows(self.encoder, tokens, np.arange(len(tokens)), unit=False)
        encoded = time.perf_counter()
        distances, places = self.index.nearest(vectors, count)
        return SearchResult(distances, places, encoded - started, time.perf_counter() - encoded)


@dataclass(frozen=True)
class IndexSpec:
    """Inputs and output of a shard of an index; all shards can access the paths.

    model: folder of a saved encoder. tokens: folder of the questions' token ids. out: folder of the index files.
    """

    model: str
    encoder: EncoderConfig
    tokens: str
    out: str
    factory: str
    shard: int = 0
    shards: int = 1


@dataclass(frozen=True)
class RecallTarget:
    """Cells to search for each query; nprobe None: the fewest that reach `least_recall`, in [0, 1]."""

    nprobe: int | None
    least_recall: float


@dataclass(frozen=True)
class IndexRecall:
    """The cells searched for each query (None for an index without cells), and the recall.

    recall: the share of the NEAREST nearest other questions that the index finds, on about RECALL_QUERIES questions.
    """

    nprobe: int | None
    recall: float


class IndexShard:
    """Encodes its share of the questions and writes an index of them. A plain class; cluster/ makes it an actor.

    All questions are divided into batches, each shard takes whole batches, and all shards train on the same sample, so
    vectors and cells do not depend on the number of shards.
    """

    def __init__(self, spec: IndexSpec) -> None:
        """Set the number of threads. Nothing is loaded yet."""
        torch.set_num_threads(spec.encoder.threads)
        set_threads(spec.encoder.threads)
        self.spec = spec
        self._embedded: Block | None = None
        self._built: DistanceIndex | None = None

    def sample_size(self) -> int:
        """Return how many questions the index trains on; 0 if it needs no training. BadOption for a bad factory."""
        return sample_size(self.spec.factory, self._encoder.dimension, "l2")

    def encode(self) -> Iterator[int]:
        """Encode the shard's questions; yield the size of each batch, also when they are encoded already."""
        tokens = Tokens.read(Path(self.spec.tokens))
        every = batches(tokens, np.arange(len(tokens)), self.spec.encoder.encoder_batch)
        own = every[self.spec.shard :: self.spec.shards]
        if self._embedded is not None:
            yield from map(len, own)
            return
        rows = sorted_rows(own)
        vectors = np.empty((len(rows), self._encoder.dimension), dtype=np.float32)
        yield from embed_batches(self._encoder, tokens, own, vectors, unit=False)
        self._embedded = Block(rows, vectors)

    def sample(self, size: int) -> Block:
        """Return the shard's part of about `size` questions, evenly spaced among all."""
        block, total = self._block(), len(StoredTokens(Path(self.spec.tokens)))
        own = block.rows % max(1, total // size) == 0
        return Block(block.rows[own], block.vectors[own])

    def train_index(self, *samples: Block) -> Bytes:
        """Train an index on the samples of all shards."""
        return train_index(join_blocks(samples).vectors, self.spec.factory, "l2")

    def exact_nearest(self, queries: Vectors, count: int) -> Neighbors:
        """(q, d) vectors -> the `count` nearest of the shard's own by comparison with each."""
        return exact_nearest(self._block(), queries, count, "l2")

    def cells(self, trained: Bytes | None) -> int:
        """Return the number of cells of the index; 0 if it has none."""
        return self._index(trained).cells()

    def nearest(self, trained: Bytes | None, queries: Vectors, count: int, nprobe: int) -> Neighbors:
        """(q, d) vectors -> the `count` nearest of the shard's own by its index, with `nprobe` cells searched."""
        return self._index(trained).set_nprobe(nprobe).nearest(queries, count)

    def write(self, trained: Bytes | None, nprobe: int) -> None:
        """Write the index of the shard's questions."""
        self._index(trained).set_nprobe(nprobe).write(Path(self.spec.out) / index_file(self.spec.shard))

    def _index(self, trained: Bytes | None) -> DistanceIndex:
        if self._built is None:
            block = self._block()
            self._built = DistanceIndex.build(block.vectors, self.spec.factory, block.rows, trained)
        return self._built

    def _block(self) -> Block:
        for _ in self.encode():
            pass
        assert self._embedded is not None
        return self._embedded

    @cached_property
    def _encoder(self) -> TextEncoder:
        return saved(self.spec.model, self.spec.encoder)


@dataclass(frozen=True)
class SearchSpec:
    """Path of an index file, and the threads to search it with."""

    path: str
    threads: int


class SearchShard:
    """A part of an index. A plain class; cluster/ makes it an actor."""

    def __init__(self, spec: SearchSpec) -> None:
        """Set the number of threads. The file is read at first use."""
        set_threads(spec.threads)
        self.spec = spec

    def size(self) -> int:
        """Return the number of vectors; BadFile when the file is missing or damaged."""
        return len(self._index)

    def nearest(self, queries: Vectors, count: int) -> Neighbors:
        """(q, d) vectors -> the `count` nearest of the shard's own, or as many as there are."""
        return self._index.nearest(queries, count)

    @cached_property
    def _index(self) -> DistanceIndex:
        return DistanceIndex.read(Path(self.spec.path))


def choose_nprobe(shards: CallShards, trained: Any, target: RecallTarget) -> IndexRecall:
    """Measure the recall of the shards' index, and choose the number of cells to search if it is not given.

    shards: calls a method of all IndexShards. trained: the trained index, as an argument of `shards`.
    """
    queries = np.concatenate([sample.vectors for sample in shards("sample", RECALL_QUERIES)])
    margin = ROUNDING * (queries.astype(np.float64) ** 2).sum(axis=1, keepdims=True)
    truth = _nearness(shards("exact_nearest", queries, NEAREST + 1))

    @cache
    def recall_at(nprobe: int) -> float:
        return recall(_nearness(shards("nearest", trained, queries, NEAREST + 1, nprobe)), truth, margin)

    cells = shards("cells", trained)[0]
    if target.nprobe is not None or not cells:
        nprobe = target.nprobe or 1
    else:
        # The more cells, the higher the recall.
        nprobe = min(cells, 1 + bisect_left(range(1, cells + 1), target.least_recall, key=recall_at))
    if recall_at(nprobe) < target.least_recall:
        logger.warning(
            "the index finds %.3f of the %d nearest questions, less than %s: %s",
            recall_at(nprobe), NEAREST, option("least_recall", target.least_recall),
            "raise `nprobe`" if nprobe < cells else "try `index='Flat'`",
        )  # fmt: skip
    return IndexRecall(nprobe if cells else None, recall_at(nprobe))


def _nearness(answers: list[Neighbors]) -> Scores:
    """Answers of all shards -> (q, NEAREST) negative squared distances, without each query itself."""
    return -merge_neighbors(answers, NEAREST + 1, "l2")[0][:, 1:]


def build_index(spec: IndexSpec, questions: int, target: RecallTarget, watch: OnProgress) -> IndexRecall:
    """Encode the questions and write one index of them, in this process."""
    shard = IndexShard(spec)
    size = shard.sample_size()
    for done in accumulate(shard.encode()):
        watch("encode", done, questions)
    trained = shard.train_index(shard.sample(size)) if size else None
    measured = choose_nprobe(lambda method, *arguments: [getattr(shard, method)(*arguments)], trained, target)
    shard.write(trained, measured.nprobe or 1)
    return measured


def index_file(shard: int) -> str:
    """Return the name of a shard's file in an index folder."""
    return f"index-{shard:03}.faiss"
