"""The search against what it stands on: a plain product, Faiss alone, a plain Python program, one shard."""

import logging
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from al_ray.cluster.search import PoolSearch
from al_ray.cluster.session import session
from al_ray.cluster.world import deployed_pool
from al_ray.core.config import ClusterConfig, RunConfig, SearchConfig
from al_ray.core.limits import refuse_beyond
from al_ray.core.pairs import NO_KEYS
from al_ray.core.scoring import Scorer
from al_ray.core.strategy import HIGHEST, Order
from al_ray.data.synthetic import LEAST, MOST, synthetic_task
from al_ray.data.tables import write_task
from al_ray.model.encoder import MINILM, Encoder, Vectors
from al_ray.model.join import Block, hosts
from al_ray.model.neighbours import NONE, Neighbours, sample_size, set_threads, trained
from jobs.bench_figures import Figure, seconds, unwatched
from jobs.bench_vectors import SCORER, Given, given_pool, one_pool

logger = logging.getLogger(__name__)

Part = Literal["exact", "knn", "shards"]
PAIRS = set[tuple[int, int]]
WARMING = 256  # Texts embedded before the watch starts, so that an encoder is there.
NAIVE = ("IVF100,Flat", 10, 100)  # Index, cells looked into and neighbours of the plain program.


@dataclass(frozen=True)
class Search:
    """The search against what it stands on: a plain product, Faiss alone, a plain Python program, one shard."""

    parts: tuple[Part, ...] = ("exact", "knn", "shards")
    """What is measured: exact_vs_matmul and exact_vs_naive; knn_overhead; shards_2_vs_1."""
    texts: int = 20_000
    """Of exact and of shards."""
    knn_texts: int = 100_000
    """Of knn."""
    index: str = "IVF1000,Flat"
    """Index of knn; looks into 10 cells for 100 neighbours."""
    count: int = 10_000
    """n: pairs asked for."""
    width: int = 384
    """Dimensions of a vector, but for shards."""
    encoder: str = MINILM
    """Of shards, as in jobs.run; so the next two."""
    encoder_layers: int | None = None
    max_length: int = 32
    threads: int = 2
    """Threads of either side in exact and knn; in shards it is two shards of one against one of two."""
    repeats: int = 3
    """Runs of each, in turn; the medians of their ratios count."""
    out: Path | None = None
    """JSON file with the figures."""

    def figures(self) -> list[Figure]:
        """Of all parts asked for; each says what it is in its function below."""
        refuse_beyond((
            (self.texts, "--texts", LEAST, MOST - WARMING),
            (self.knn_texts, "--knn-texts", LEAST, 10_000_000),
            (self.count, "--count", 1, 1_000_000_000),
            (self.width, "--width", 2, 10_000),
            (self.threads, "--threads", 1, 1_024),
            (self.repeats, "--repeats", 1, 10_000),
        ))  # fmt: skip
        # Before any work, what else cannot be.
        sample_size(self.index, self.width)
        if "shards" in self.parts:
            Encoder.base(self.run("-", 1).encoding)
        torch.set_num_threads(self.threads)
        set_threads(self.threads)
        parts = {"exact": exact, "knn": knn, "shards": shards}
        with session(ClusterConfig(shards=2)):
            return [figure for part in self.parts for figure in parts[part](self)]

    def run(self, task: str, threads: int) -> RunConfig:
        """The run whose search shards make."""
        return RunConfig(
            task, encoder=self.encoder, encoder_layers=self.encoder_layers, max_length=self.max_length, threads=threads
        )


def exact(asked: Search) -> Iterator[Figure]:
    """The exact search of a pool on one shard, through Ray, of 10,000 pairs that are labelled none.

    exact_vs_matmul = time of the same blocks' products by torch.mm, and nothing else / its time.
    exact_vs_naive = time of `naive` / its time.
    """
    with given_pool(asked.texts, asked.width, SearchConfig(kind="exact"), asked.threads, asked.count) as given:
        model, order, blocks = given.fresh(0), Order(SCORER.boundary), given.blocks()
        known = set(map(tuple, given.split.space.pairs(given.labelled).tolist()))
        times = []
        for _ in range(asked.repeats + 1):
            product = seconds(lambda: multiply(blocks))
            ours = seconds(lambda: given.search.least(model, order, asked.count, given.labelled))
            plain = seconds(lambda: naive(given.vectors, SCORER, asked.count, known))
            logger.info("products %.2f s, exact search %.2f s, plain program %.2f s", product, ours, plain)
            times.append((product, ours, plain))
    # The first run of each warms up.
    yield Figure("exact_vs_matmul", tuple(product / ours for product, ours, _ in times[1:]), "at least 0.60")
    yield Figure("exact_vs_naive", tuple(plain / ours for _, ours, plain in times[1:]), "at least 10")


def multiply(blocks: list[Block]) -> None:
    """The products of every two blocks, each two once, into memory that is there."""
    size = max(len(block.rows) for block in blocks)
    room, vectors = torch.empty(size * size), [torch.from_numpy(block.vectors) for block in blocks]
    for number, x in enumerate(vectors):
        for host in hosts(number, len(blocks)).tolist():
            y = vectors[host]
            torch.mm(x, y.T, out=room[: len(x) * len(y)].view(len(x), len(y)))


def naive(vectors: Vectors, scorer: Scorer, count: int, known: PAIRS) -> list[tuple[float, tuple[int, int]]]:
    """What one would write at first: an IVF index, then lists of (|logit|, pair), filtered by a set, sorted.

    known: labelled pairs, left < right. A pair that is found from both its texts counts once.
    """
    factory, nprobe, neighbours = NAIVE
    index = Neighbours(vectors, factory, nprobe)
    # One more, for a text finds itself.
    cosines, places = index.nearest(vectors, neighbours + 1)
    costs = np.abs(scorer.logit(cosines)).tolist()
    found = [
        (cost, (left, right) if left < right else (right, left))
        for left, (row, rights) in enumerate(zip(costs, places.tolist(), strict=True))
        for cost, right in zip(row, rights, strict=True)
        if right not in (left, NONE)
    ]
    fresh = [each for each in found if each[1] not in known]
    fresh.sort()
    # The two finds of a pair stand side by side, but for the last bits of their cosines.
    return list({pair: (cost, pair) for cost, pair in fresh[: 2 * count]}.values())[:count]


def knn(asked: Search) -> Iterator[Figure]:
    """knn_overhead = (whole - index - searches) / searches, of a retrieval by an index under a model that is new.

    whole: PoolSearch.least on one shard, through Ray. index: what Faiss takes to learn from the same sample and to add
    the same vectors; searches: to find the same blocks' neighbours, no more than are wanted. Both in this process.
    """
    config = SearchConfig(kind="knn", index=asked.index)
    with given_pool(asked.knn_texts, asked.width, config, asked.threads, asked.count) as given:
        order, blocks, overheads = Order(SCORER.boundary), given.blocks(), []
        for number in range(asked.repeats + 1):
            model = given.fresh(number)
            whole = seconds(lambda model=model: given.search.least(model, order, asked.count, given.labelled))
            made: list[Neighbours] = []
            index = seconds(lambda made=made: made.append(faiss_index(given, config)))
            searches = seconds(lambda made=made: search_all(made[0], blocks, config.neighbours + 1))
            logger.info("knn retrieval %.2f s; Faiss: index %.2f s, searches %.2f s", whole, index, searches)
            overheads.append((whole - index - searches) / searches)
    yield Figure("knn_overhead", tuple(overheads[1:]), "at most 0.20")


def faiss_index(given: Given, config: SearchConfig) -> Neighbours:
    """The index of a shard, learnt from the sample that PoolSearch takes."""
    size = sample_size(config.index, given.vectors.shape[1])
    learnt = None
    if size:
        learnt = trained(given.vectors[:: max(1, len(given.vectors) // size)], config.index)
    return Neighbours(given.vectors, config.index, config.nprobe, trained=learnt)


def search_all(index: Neighbours, blocks: list[Block], count: int) -> None:
    """The nearest of all blocks."""
    for block in blocks:
        index.nearest(block.vectors, count)


def shards(asked: Search) -> Iterator[Figure]:
    """shards_2_vs_1 = time of two shards of one thread / time of one shard of two, to embed and search a pool.

    Synthetic questions by a real encoder, then jobs.run's usual search. The order changes from repeat to repeat.
    """
    questions = synthetic_task(asked.texts + WARMING, 0)
    task = one_pool(list(questions.left.texts), WARMING)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_task(task, place / "task", {})

        def run(count: int, threads: int) -> float:
            config = asked.run(str(place / "task"), threads)
            with deployed_pool(config, ClusterConfig(shards=count), task, place, unwatched) as pool:
                model, search = pool.untrained(), PoolSearch(pool, task.split("train"))
                pool.embed(model, ["dev"])
                embedding = seconds(lambda: pool.embed(model, ["train"]))
                searching = seconds(lambda: search.least(model, HIGHEST, asked.count, NO_KEYS))
            logger.info("shards: %d: embed %.2f s, search %.2f s", count, embedding, searching)
            return embedding + searching

        ratios = []
        for number in range(asked.repeats):
            if number % 2:
                one = run(1, 2)
                ratios.append(run(2, 1) / one)
            else:
                ratios.append(run(2, 1) / run(1, 2))
    yield Figure("shards_2_vs_1", tuple(ratios), "at most 1.15")
