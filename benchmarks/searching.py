"""Compare the search with a plain product, Faiss alone, a plain Python program, and one shard."""

import logging
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch

from al_ray.active_learning.config import RunConfig
from al_ray.cluster.pool.sharded_retriever import PoolSearch
from al_ray.cluster.services import deploy_pool
from al_ray.cluster.session import session
from al_ray.core.candidates import HIGHEST, Order
from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import EncoderOptions, MaxLength, Threads
from al_ray.core.config.sections import SearchConfig
from al_ray.core.config.serialization import part
from al_ray.core.labels import Model
from al_ray.core.pairs import NO_KEYS
from al_ray.core.progress import no_progress
from al_ray.core.scorer import Scorer
from al_ray.core.vectors import Block, Vectors
from al_ray.datasets.synthetic import LEAST, MOST, synthetic_task
from al_ray.datasets.task_folder import write_task
from al_ray.encoders.pretrained import MINILM
from al_ray.encoders.transformer import Encoder
from al_ray.search.faiss_index import NONE, CosineIndex, sample_size, set_threads, train_index
from al_ray.search.join.exact_join import hosts
from benchmarks.synthetic_vectors import SCORER, SyntheticPool, one_pool, synthetic_pool
from benchmarks.timing import Figure, seconds, timed

logger = logging.getLogger(__name__)

Part = Literal["exact", "knn", "shards", "rounds"]
PAIRS = set[tuple[int, int]]
WARMING = 256  # Texts embedded before timing starts, so that the encoder is loaded.
SHARDS = (4, 8)  # Numbers of shards that rounds compares.
NAIVE = ("IVF100,Flat", 10, 100)  # Index, searched cells and neighbours of the plain program.


@dataclass(frozen=True)
class Search(EncoderOptions):
    """Compare the search with a plain product, Faiss alone, a plain Python program, and one shard."""

    parts: tuple[Part, ...] = ("exact", "knn", "shards")
    """Benchmarks to run: exact_vs_matmul and exact_vs_naive; knn_overhead; shards_2_vs_1; rounds_2_vs_1."""
    texts: Annotated[int, Between(LEAST, MOST - WARMING)] = 20_000
    """Texts of exact, of shards and of rounds."""
    knn_texts: Annotated[int, Between(LEAST, 10_000_000)] = 100_000
    """Texts of knn."""
    index: str = "IVF1000,Flat"
    """Index of knn; 10 cells are searched for 100 neighbours."""
    count: Annotated[int, Between(1, 1_000_000_000)] = 10_000
    """n: pairs to retrieve."""
    width: Annotated[int, Between(2, 10_000)] = 384
    """Dimensions of a vector, except for shards."""
    encoder: str = MINILM
    max_length: MaxLength = 32
    threads: Threads = 2
    """Threads of each side in exact and knn; shards compares two shards of one thread with one of two."""
    repeats: Annotated[int, Between(1, 10_000)] = 3
    """Runs of each, in turn; the median of the ratios is reported."""
    out: Path | None = None
    """JSON file for the figures."""

    def figures(self) -> list[Figure]:
        """Run the chosen parts; the functions below define their figures."""
        check_bounds(self)
        # Fail early if the index or the encoder is not available.
        sample_size(self.index, self.width)
        if "shards" in self.parts:
            Encoder.base(self.run("-", 1).encoding)
        torch.set_num_threads(self.threads)
        set_threads(self.threads)
        parts = {"exact": exact, "knn": knn, "shards": shards, "rounds": rounds}
        with session(ClusterConfig(shards=max(SHARDS) if "rounds" in self.parts else 2)):
            return [figure for part in self.parts for figure in parts[part](self)]

    def run(self, task: str, threads: int) -> RunConfig:
        """Return the config of the run whose search `shards` measures."""
        return RunConfig(task=task, **vars(replace(part(self, EncoderOptions), threads=threads)))


def exact(options: Search) -> Iterator[Figure]:
    """Measure the exact search of a pool on one shard, through Ray, for `count` unlabelled pairs.

    exact_vs_matmul = time of only the products of the same blocks by torch.mm / time of the search.
    exact_vs_naive = time of `naive` / time of the search.
    """
    with synthetic_pool(
        options.texts, options.width, SearchConfig(kind="exact"), options.threads, options.count
    ) as synthetic:
        model, order, blocks = synthetic.fresh(0), Order(SCORER.boundary), synthetic.blocks()
        known = set(map(tuple, synthetic.split.space.pairs(synthetic.labelled).tolist()))
        times = []
        for _ in range(options.repeats + 1):
            product = seconds(lambda: multiply(blocks))
            ours = seconds(lambda: synthetic.search.least(model, order, options.count, synthetic.labelled))
            plain = seconds(lambda: naive(synthetic.vectors, SCORER, options.count, known))
            logger.info("products %.2f s, exact search %.2f s, plain program %.2f s", product, ours, plain)
            times.append((product, ours, plain))
    # The first run of each is a warm-up.
    yield Figure("exact_vs_matmul", tuple(product / ours for product, ours, _ in times[1:]), "at least 0.60")
    yield Figure("exact_vs_naive", tuple(plain / ours for _, ours, plain in times[1:]), "at least 10")


def multiply(blocks: list[Block]) -> None:
    """Multiply every two blocks once, into preallocated memory."""
    size = max(len(block.rows) for block in blocks)
    room, vectors = torch.empty(size * size), [torch.from_numpy(block.vectors) for block in blocks]
    for number, x in enumerate(vectors):
        for host in hosts(number, len(blocks)).tolist():
            y = vectors[host]
            torch.mm(x, y.T, out=room[: len(x) * len(y)].view(len(x), len(y)))


def naive(vectors: Vectors, scorer: Scorer, count: int, known: PAIRS) -> list[tuple[float, tuple[int, int]]]:
    """The obvious program: an IVF index, then lists of (|logit|, pair), filtered by a set and sorted.

    known: labelled pairs, left < right. A pair that is found from both its texts counts once.
    """
    factory, nprobe, neighbours = NAIVE
    index = CosineIndex(vectors, factory, nprobe)
    # One more, because a text finds itself.
    cosines, places = index.nearest(vectors, neighbours + 1)
    costs = np.abs(scorer.logit(cosines)).tolist()
    pairs = [
        (cost, (left, right) if left < right else (right, left))
        for left, (row, rights) in enumerate(zip(costs, places.tolist(), strict=True))
        for cost, right in zip(row, rights, strict=True)
        if right not in (left, NONE)
    ]
    fresh = sorted(each for each in pairs if each[1] not in known)
    # A pair found from both its texts gives two neighbours in the sorted list, up to the last bits of their cosines.
    return list({pair: (cost, pair) for cost, pair in fresh[: 2 * count]}.values())[:count]


def knn(options: Search) -> Iterator[Figure]:
    """knn_overhead = (whole - build - search) / search, of a retrieval by an index under a model that is new.

    whole: PoolSearch.least on one shard, through Ray. build: time of Faiss to train on the same sample and to add the
    same vectors. search: time of Faiss to search the same blocks. Both in this process.
    """
    config = SearchConfig(kind="knn", index=options.index)
    with synthetic_pool(options.knn_texts, options.width, config, options.threads, options.count) as synthetic:
        order, blocks, overheads = Order(SCORER.boundary), synthetic.blocks(), []
        for number in range(options.repeats + 1):
            model = synthetic.fresh(number)
            whole = seconds(lambda model=model: synthetic.search.least(model, order, options.count, synthetic.labelled))
            build, index = timed(lambda: faiss_index(synthetic, config))
            search, _ = timed(lambda index=index: [index.nearest(one.vectors, config.neighbours + 1) for one in blocks])
            logger.info("knn retrieval %.2f s; Faiss: index %.2f s, searches %.2f s", whole, build, search)
            overheads.append((whole - build - search) / search)
    yield Figure("knn_overhead", tuple(overheads[1:]), "at most 0.20")


def faiss_index(synthetic: SyntheticPool, config: SearchConfig) -> CosineIndex:
    """Build the index of a shard, trained on the sample that PoolSearch takes."""
    size = sample_size(config.index, synthetic.vectors.shape[1])
    sample = synthetic.vectors[:: max(1, len(synthetic.vectors) // size)] if size else None
    trained = None if sample is None else train_index(sample, config.index)
    return CosineIndex(synthetic.vectors, config.index, config.nprobe, trained=trained)


def shards(options: Search) -> Iterator[Figure]:
    """shards_2_vs_1 = time of two shards of one thread / time of one shard of two, to embed and search a pool.

    Synthetic questions by a real encoder, then jobs.run's usual search. The order changes from repeat to repeat.
    """
    questions = synthetic_task(options.texts + WARMING, 0)
    task = one_pool(list(questions.left.texts), WARMING)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_task(task, place / "task", {})

        def run(count: int, threads: int) -> float:
            config = options.run(str(place / "task"), threads)
            with deploy_pool(config, ClusterConfig(shards=count), task, place, no_progress) as pool:
                model, search = pool.untrained(), PoolSearch(pool, task.split("train"))
                pool.embed(model, ["dev"])
                embedding = seconds(lambda: pool.embed(model, ["train"]))
                searching = seconds(lambda: search.least(model, HIGHEST, options.count, NO_KEYS))
            logger.info("shards: %d: embed %.2f s, search %.2f s", count, embedding, searching)
            return embedding + searching

        ratios = []
        for number in range(options.repeats):
            order = ((1, 2), (2, 1)) if number % 2 else ((2, 1), (1, 2))
            times = {count: run(count, threads) for count, threads in order}
            ratios.append(times[2] / times[1])
    yield Figure("shards_2_vs_1", tuple(ratios), "at most 1.15")


def rounds(options: Search) -> Iterator[Figure]:
    """rounds_2_vs_1 = time of a search by neighbours that asks shards in two rounds / time of one that asks once.

    neighbours_2_vs_1: the same for the neighbours that shards give. Flat, 100 neighbours, shards of one thread.
    """
    config = SearchConfig(kind="knn")
    for count in SHARDS:
        times, given = [], []
        with synthetic_pool(options.texts, options.width, config, 1, options.count, shards=count) as synthetic:
            model = synthetic.fresh(0)
            for repeat in range(options.repeats + 1):
                order = (1, 2) if repeat % 2 else (2, 1)
                found = {number: search_in(synthetic, model, options.count, number) for number in order}
                times.append(found[2][0] / found[1][0])
                given.append(found[2][1] / found[1][1])
        # The first run of each is a warm-up.
        yield Figure(f"rounds_2_vs_1 of {count} shards", tuple(times[1:]), "at most 1")
        yield Figure(f"neighbours_2_vs_1 of {count} shards", tuple(given[1:]), "less than 1")


def search_in(synthetic: SyntheticPool, model: Model, count: int, rounds: int) -> tuple[float, float]:
    """Search in one round or two; return milliseconds a block, and the neighbours of a query that shards gave."""
    synthetic.ask_in(rounds)
    order, sizes = Order(SCORER.boundary), synthetic.sizes()
    took = seconds(lambda: synthetic.search.least(model, order, count, synthetic.labelled))
    each = 1000 * took / sum(math.ceil(size / synthetic.pool.search.block) for size in sizes)
    given = synthetic.ask_in(rounds) / sum(sizes)
    logger.info("%d shards, %d rounds: %.0f ms a block, %.0f neighbours a query", len(sizes), rounds, each, given)
    return each, given
