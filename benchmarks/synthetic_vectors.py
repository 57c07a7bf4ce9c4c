"""Synthetic vectors like those of a trained model, on shard actors that embed nothing, to measure searches."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from al_ray.cluster.candidates.owning import pool_actor
from al_ray.cluster.pool.ring import GROUPS
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.pool.sharded_retriever import PoolSearch
from al_ray.cluster.token_store import parts_of
from al_ray.cluster.workers import deploy, get_results
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import SearchConfig
from al_ray.core.labels import Model
from al_ray.core.pairs import NO_KEYS, Keys, Rows
from al_ray.core.progress import no_progress
from al_ray.core.rng import generator
from al_ray.core.scorer import Scorer
from al_ray.core.task import Corpus, Split, Task
from al_ray.core.vectors import Block, Vectors
from al_ray.datasets.splitting import symmetric_task
from al_ray.search import knn_rounds
from al_ray.search.merge import Neighbors
from al_ray.search.shard import PoolShard
from al_ray.search.shard_spec import ShardSpec

# A scorer with the boundary of QQP's model after its first round.
SCORER = Scorer(50.0, -44.0)
CLUSTER, TOPIC = 8, 64
LEAST_NOISE, MOST_NOISE = 0.1, 0.9
FILE = "vectors.npy"
IN_TWO = knn_rounds.DEVIATIONS


@dataclass(frozen=True)
class SyntheticPool:
    """Vectors in a pool, the search over it, and labelled pairs."""

    vectors: Vectors
    pool: ShardedPool
    split: Split
    search: PoolSearch
    labelled: Keys

    def fresh(self, number: int) -> Model:
        """Return a model that is new to the shard, which drops its index and reads the vectors again."""
        model = Model("", f"given-{number}", SCORER)
        self.pool.embed(model, [self.split.name])
        return model

    def sizes(self) -> tuple[int, ...]:
        """Return the number of texts of each shard."""
        return self.pool.sizes(self.pool.parts[self.split.name, "left"])

    def ask_in(self, rounds: int) -> int:
        """Ask for neighbours in one round or two from now on; return how many shards gave since the last call."""
        return sum(get_results([one.__ray_call__.remote(_ask_in, rounds) for one in self.pool.shards]))

    def blocks(self) -> list[Block]:
        """Return the blocks of texts that the search compares."""
        size, rows = self.pool.search.block, np.arange(len(self.vectors), dtype=np.int64)
        starts = range(0, len(rows), size)
        return [Block(rows[start : start + size], self.vectors[start : start + size]) for start in starts]


class SyntheticShard(PoolShard):
    """A shard that reads its vectors from a file in its folder, for any model, and counts the neighbours it gives."""

    given = 0

    def rows(self, part: str) -> Rows:
        """Return every `shards`-th row of the file."""
        texts = len(np.load(Path(self.spec.folder) / FILE, mmap_mode="r"))
        return np.arange(self.spec.shard, texts, self.spec.shards, dtype=np.int64)

    def embed(self, model: Model, part: str) -> Iterator[int]:
        """Read the vectors."""
        self._use(model)
        if part not in self._vectors:
            rows = self.rows(part)
            self._vectors[part] = Block(rows, np.load(Path(self.spec.folder) / FILE)[rows])
            yield len(rows)

    def nearest(self, *arguments: Any, **options: Any) -> Neighbors:
        """As PoolShard.nearest."""
        answer = super().nearest(*arguments, **options)
        self.given += answer[1].size
        return answer

    def ask_in(self, rounds: int) -> int:
        """Ask for neighbours in one round or two from now on; return how many were given since the last call."""
        knn_rounds.DEVIATIONS = IN_TWO if rounds == 2 else 10**9
        given, self.given = self.given, 0
        return given


def _ask_in(actor: Any, rounds: int) -> int:
    """See SyntheticShard.ask_in; called on the actor of a shard."""
    return actor.shard.ask_in(rounds)


@contextmanager
def synthetic_pool(
    texts: int, width: int, search: SearchConfig, threads: int, labelled: int, matched: bool = False, shards: int = 1
) -> Iterator[SyntheticPool]:
    """Start a symmetric pool of clustered vectors on the Ray of this process, with `labelled` labelled pairs.

    matched: four and four texts of a cluster match; else none do.
    """
    vectors, cluster = clustered_vectors(texts, width, 0), ClusterConfig(shards=shards)
    component = np.divmod(members(texts, 0), CLUSTER // 2)[0] if matched else None
    task = one_pool([str(row) for row in range(texts)], component=component)
    split, encoder = task.split("train"), EncoderConfig("given", None, 3, 64, threads)
    known = np.sort(split.space.draw(labelled, NO_KEYS, generator(0, "bench-labelled")))
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / FILE, vectors)
        specs = [ShardSpec(folder, encoder, search, number, shards) for number in range(shards)]
        with deploy(pool_actor(SyntheticShard), specs, cluster, groups=GROUPS) as actors:
            pool = ShardedPool(actors, parts_of(task), task, search, no_progress)
            yield SyntheticPool(vectors, pool, split, PoolSearch(pool, split), known)


def one_pool(texts: list[str], others: int = 0, component: Rows | None = None) -> Task:
    """Make a symmetric task with all texts in train, except for the last `others`, which are in dev.

    component: (texts,) clusters of texts that match; without it none do.
    """
    corpus = Corpus(tuple(str(row) for row in range(len(texts))), tuple(texts))
    rows = np.arange(len(texts), dtype=np.int64)
    split_of = (rows >= len(texts) - others).astype(np.int64)
    return symmetric_task(
        "bench", corpus, rows if component is None else component, np.empty((0, 2), dtype=np.int64), split_of
    )


def clustered_vectors(texts: int, width: int, seed: int) -> Vectors:
    """Draw (texts, width) unit vectors in clusters of eight around centres that are clustered themselves.

    Chosen for the density near the boundary of 0.88, which decides how many pairs must be rescored: of 20,000
    texts 5e-5 of all pairs lie above it, of 100,000 1e-5. QQP's positives, of which a trained model's boundary leaves
    as many above, are 7e-5 of its 1.2e9 training pairs. How far a text lies from its centre differs, so that cosines
    within a cluster go from 0.5 to 0.99 without a gap; directions differ in weight, so that those of other pairs
    spread by 0.1 about 0, as a sentence encoder's do.
    """
    rng = generator(seed, "bench-vectors")
    weight = (np.arange(1, width + 1) ** -0.4).astype(np.float32)

    def directions(count: int) -> Vectors:
        return normalize(rng.standard_normal((count, width), dtype=np.float32) * weight)

    centres = -(-texts // CLUSTER)
    topics = directions(-(-centres // TOPIC))
    about = normalize(directions(centres) + 0.35 * topics[np.arange(centres) % len(topics)])
    noise = rng.uniform(LEAST_NOISE, MOST_NOISE, (texts, 1)).astype(np.float32)
    return normalize(about[members(texts, seed) // CLUSTER] + noise * directions(texts))


def members(texts: int, seed: int) -> Rows:
    """(texts,) for each text of `clustered_vectors`: CLUSTER * its cluster + its number in the cluster."""
    return generator(seed, "bench-members").permutation(texts).astype(np.int64)


def normalize(vectors: npt.NDArray[np.floating]) -> Vectors:
    """(n, d) vectors -> unit vectors."""
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
