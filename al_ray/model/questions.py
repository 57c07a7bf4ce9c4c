"""Search among questions: an encoder and a Faiss index by squared distance, whole or in shards (paper 002, 2.1)."""

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from al_ray.core.config import EncoderConfig
from al_ray.core.pairs import Rows
from al_ray.core.retrieval import Near, merged, recall
from al_ray.core.scoring import Floats
from al_ray.model.encoder import Vectors
from al_ray.model.encoders import TextEncoder, saved
from al_ray.model.join import Block
from al_ray.model.neighbours import ByDistance, Bytes, sample_size, set_threads, truly_nearest
from al_ray.model.paraphrase import Watch, embedded
from al_ray.model.tokens import Tokens, batches

logger = logging.getLogger(__name__)

# Questions by which an index is measured, and how many of each one's nearest it should find.
ASKED, NEAREST = 1_000, 10
# Two ways to a squared distance in float32 differ by less than this share of the query's squared length.
ROUNDING = 1e-5
Everywhere: TypeAlias = Callable[..., list[Any]]
"""Calls a method of all shards by its name, with arguments; their answers."""


class Index(Protocol):
    """What is searched: a ByDistance, or several of them on actors (cluster/questions.py)."""

    def __len__(self) -> int:
        """How many vectors it holds."""
        ...

    def nearest(self, queries: Vectors, count: int) -> Near:
        """(q, d) vectors -> the `count` nearest of each, or as many as there are."""
        ...


@dataclass(frozen=True)
class Found:
    """Of (q,) questions the nearest: squared distances (q, k) and places (q, k), best first; inf and -1 where none.

    encoding, searching: seconds, of tokenising and encoding, and of the index.
    """

    apart: npt.NDArray[np.float32]
    places: Rows
    encoding: float
    searching: float


class Questions:
    """An encoder, and an index of what it made of many questions."""

    def __init__(self, encoder: TextEncoder, index: Index) -> None:
        """Hold the parts."""
        self.encoder, self.index = encoder, index

    def nearest(self, texts: Sequence[str], count: int) -> Found:
        """The `count` nearest of each of these texts, at least one of them."""
        started = time.perf_counter()
        tokens = tokens_of(self.encoder, texts)
        vectors = embedded(self.encoder, tokens, np.arange(len(tokens)))
        encoded = time.perf_counter()
        apart, places = self.index.nearest(vectors, count)
        return Found(apart, places, encoded - started, time.perf_counter() - encoded)


@dataclass(frozen=True)
class IndexSpec:
    """All that a shard of an index is made from, and where it is written; all shards see the paths.

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
class Probing:
    """What is wanted: so many cells looked into for each query; None: as few as reach `least_recall`, in [0, 1]."""

    nprobe: int | None
    least_recall: float


@dataclass(frozen=True)
class Probed:
    """What became of it: the cells looked into (None for an index that has none), and the recall.

    recall: the share of the NEAREST truly nearest other questions that are found, on about ASKED of the questions.
    """

    nprobe: int | None
    recall: float


class IndexShard:
    """Encodes its share of the questions and writes an index of them. A plain class; cluster/ makes it an actor.

    Batches are those of all questions, dealt whole, and all shards learn from the same sample: so vectors and cells do
    not depend on how many shards there are.
    """

    def __init__(self, spec: IndexSpec) -> None:
        """Fix the threads; no vectors yet."""
        torch.set_num_threads(spec.encoder.threads)
        set_threads(spec.encoder.threads)
        self.spec = spec
        self._encoder: TextEncoder | None = None
        self._held: Block | None = None
        self._made: ByDistance | None = None

    def sample_size(self) -> int:
        """How many questions the index learns from; 0 when it has nothing to learn. BadOption for a bad factory."""
        return sample_size(self.spec.factory, self._loaded().dimension, "--index")

    def encode(self) -> Iterator[int]:
        """Make sure of the vectors; yields the questions done since the last word, every time as many words."""
        tokens = Tokens.read(Path(self.spec.tokens))
        own = batches(tokens, np.arange(len(tokens)), self.spec.encoder.batch)[self.spec.shard :: self.spec.shards]
        rows = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *own]))
        made = None if self._held else np.empty((len(rows), self._loaded().dimension), dtype=np.float32)
        for batch in own:
            if made is not None:
                with torch.inference_mode():
                    made[np.searchsorted(rows, batch)] = self._loaded().forward(tokens, batch).cpu().numpy()
            yield len(batch)
        if made is not None:
            self._held = Block(rows, made)

    def sample(self, size: int) -> Block:
        """The shard's own of about so many questions, evenly spaced among all."""
        held, total = self._block(), len(Tokens.read(Path(self.spec.tokens)))
        own = held.rows % max(1, total // size) == 0
        return Block(held.rows[own], held.vectors[own])

    def learnt(self, *samples: Block) -> Bytes:
        """What an index learns from the samples of all shards."""
        order = np.argsort(np.concatenate([sample.rows for sample in samples]))
        return ByDistance.learnt(np.concatenate([sample.vectors for sample in samples])[order], self.spec.factory)

    def truly_nearest(self, queries: Vectors, count: int) -> Near:
        """(q, d) vectors -> the `count` nearest of the shard's own, all looked at."""
        held = self._block()
        return truly_nearest(held.vectors, held.rows, queries, count)

    def cells(self, learnt: Bytes | None) -> int:
        """The cells that the index has; 0 when it has none."""
        return self._index(learnt).cells()

    def nearest(self, learnt: Bytes | None, queries: Vectors, count: int, nprobe: int) -> Near:
        """(q, d) vectors -> the `count` nearest of the shard's own by its index, so many cells looked into."""
        return self._index(learnt).probing(nprobe).nearest(queries, count)

    def write(self, learnt: Bytes | None, nprobe: int) -> None:
        """Write the index of the shard's questions."""
        self._index(learnt).probing(nprobe).write(Path(self.spec.out) / index_file(self.spec.shard))

    def _index(self, learnt: Bytes | None) -> ByDistance:
        if self._made is None:
            held = self._block()
            self._made = ByDistance.of(held.vectors, self.spec.factory, held.rows, learnt)
        return self._made

    def _block(self) -> Block:
        for _ in self.encode():
            pass
        assert self._held is not None
        return self._held

    def _loaded(self) -> TextEncoder:
        self._encoder = self._encoder or saved(self.spec.model, self.spec.encoder)
        return self._encoder


@dataclass(frozen=True)
class SearchSpec:
    """An index file, which the shard sees, and the threads to search it with."""

    path: str
    threads: int


class SearchShard:
    """A part of an index. A plain class; cluster/ makes it an actor."""

    def __init__(self, spec: SearchSpec) -> None:
        """Nothing is read yet."""
        set_threads(spec.threads)
        self.spec = spec
        self._index: ByDistance | None = None

    def size(self) -> int:
        """How many vectors it holds; BadFile when its file is not there or damaged."""
        return len(self._read())

    def nearest(self, queries: Vectors, count: int) -> Near:
        """(q, d) vectors -> the `count` nearest of the shard's own, or as many as there are."""
        return self._read().nearest(queries, count)

    def _read(self) -> ByDistance:
        self._index = self._index or ByDistance.read(Path(self.spec.path))
        return self._index


def probed(shards: Everywhere, learnt: Any, wanted: Probing) -> Probed:
    """Measure the shards' index, and choose how many cells are looked into when that is not given.

    shards: calls a method of all IndexShards. learnt: what their indexes are made from, as `shards` hands it on.
    """
    queries = np.concatenate([sample.vectors for sample in shards("sample", ASKED)])
    margin = ROUNDING * (queries.astype(np.float64) ** 2).sum(axis=1, keepdims=True)
    truth = _nearness(shards("truly_nearest", queries, NEAREST + 1))

    @cache
    def found(nprobe: int) -> float:
        return recall(_nearness(shards("nearest", learnt, queries, NEAREST + 1, nprobe)), truth, margin)

    cells = shards("cells", learnt)[0]
    if wanted.nprobe is not None or not cells:
        nprobe = wanted.nprobe or 1
    else:
        # The more cells, the higher the recall.
        nprobe = min(cells, 1 + bisect_left(range(1, cells + 1), wanted.least_recall, key=found))
    if found(nprobe) < wanted.least_recall:
        logger.warning(
            "the index finds %.3f of the %d nearest questions, less than --least-recall %s: %s",
            found(nprobe), NEAREST, wanted.least_recall, "raise --nprobe" if nprobe < cells else "try --index Flat",
        )  # fmt: skip
    return Probed(nprobe if cells else None, found(nprobe))


def _nearness(answers: list[Near]) -> Floats:
    """What all shards found -> (q, NEAREST) less the squared distances, without each query itself."""
    return -merged(answers, NEAREST + 1)[0][:, 1:].astype(np.float64)


def index_alone(spec: IndexSpec, questions: int, wanted: Probing, watch: Watch) -> Probed:
    """Encode so many questions and write one index of them, in this process."""
    shard, done = IndexShard(spec), 0
    size = shard.sample_size()
    for count in shard.encode():
        done += count
        watch("encode", done, questions)
    learnt = shard.learnt(shard.sample(size)) if size else None
    made = probed(lambda method, *arguments: [getattr(shard, method)(*arguments)], learnt, wanted)
    shard.write(learnt, made.nprobe or 1)
    return made


def index_file(shard: int) -> str:
    """The name of a shard's file in an index folder."""
    return f"index-{shard:03}.faiss"


def tokens_of(encoder: TextEncoder, texts: Sequence[str]) -> Tokens:
    """(n,) texts -> their token ids."""
    return Tokens.of([ids for block in encoder.tokenise(texts) for ids in block])
