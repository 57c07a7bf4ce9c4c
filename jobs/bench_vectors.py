"""Vectors that look like a trained model's, on a shard actor that embeds nothing: what a search is measured on."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from al_ray.cluster.actors import deployed
from al_ray.cluster.pool import ShardedPool
from al_ray.cluster.prepare import parts_of
from al_ray.cluster.search import PoolSearch
from al_ray.core.config import ClusterConfig, EncoderConfig, SearchConfig, generator
from al_ray.core.pairs import NO_KEYS, Keys, Rows
from al_ray.core.records import Model
from al_ray.core.scoring import Scorer
from al_ray.core.task import Corpus, Split, Task
from al_ray.data.clusters import symmetric_task
from al_ray.model.encoder import Vectors
from al_ray.model.join import Block
from al_ray.model.pool import PoolShard, ShardSpec
from jobs.bench_figures import unwatched

# The boundary of QQP's model after its first round, as a scorer has it.
SCORER = Scorer(50.0, -44.0)
CLUSTER, TOPIC = 8, 64
LEAST_NOISE, MOST_NOISE = 0.1, 0.9
FILE = "vectors.npy"


@dataclass(frozen=True)
class Given:
    """Vectors in a pool of one shard, the search over it, and pairs that are labelled already."""

    vectors: Vectors
    pool: ShardedPool
    split: Split
    search: PoolSearch
    labelled: Keys

    def fresh(self, number: int) -> Model:
        """A model that the shard has not met: it forgets its index, and has the vectors again."""
        model = Model("", f"given-{number}", SCORER)
        self.pool.embed(model, [self.split.name])
        return model

    def blocks(self) -> list[Block]:
        """The blocks in which texts meet."""
        part = self.pool.parts[self.split.name, "left"]
        return [Block(place.rows, self.vectors[place.rows]) for place in self.pool.places(part)]


class GivenShard(PoolShard):
    """A shard whose vectors stand in a file of its folder, whatever the weights."""

    def rows(self, part: str) -> Rows:
        """All of the file's: there is one shard."""
        return np.arange(len(np.load(Path(self.spec.folder) / FILE, mmap_mode="r")), dtype=np.int64)

    def embed(self, model: Model, part: str) -> Iterator[int]:
        """Read them."""
        self._want(model)
        if part not in self._vectors:
            self._vectors[part] = Block(self.rows(part), np.load(Path(self.spec.folder) / FILE))
            yield len(self._vectors[part].rows)


@contextmanager
def given_pool(
    texts: int, width: int, search: SearchConfig, threads: int, labelled: int, matched: bool = False
) -> Iterator[Given]:
    """A symmetric pool of clustered vectors on the Ray of this process, `labelled` of its pairs labelled.

    matched: four and four texts of a cluster match; else none do.
    """
    vectors, cluster = clustered(texts, width, 0), ClusterConfig()
    component = np.divmod(members(texts, 0), CLUSTER // 2)[0] if matched else None
    task = one_pool([str(row) for row in range(texts)], component=component)
    split, encoder = task.split("train"), EncoderConfig("given", None, 3, 64, threads, "fp32")
    known = np.sort(split.space.draw(labelled, NO_KEYS, generator(0, "bench-labelled")))
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / FILE, vectors)
        with deployed(GivenShard, [ShardSpec(folder, encoder, search, 0, 1)], cluster) as shards:
            pool = ShardedPool(shards, parts_of(task), task, search, unwatched)
            yield Given(vectors, pool, split, PoolSearch(pool, split), known)


def one_pool(texts: list[str], others: int = 0, component: Rows | None = None) -> Task:
    """A symmetric task: all texts in train, but for the last `others`, which are in dev.

    component: (texts,) clusters of texts that match; without it none do.
    """
    corpus = Corpus(tuple(str(row) for row in range(len(texts))), tuple(texts))
    rows = np.arange(len(texts), dtype=np.int64)
    split_of = (rows >= len(texts) - others).astype(np.int64)
    return symmetric_task(
        "bench", corpus, rows if component is None else component, np.empty((0, 2), dtype=np.int64), split_of
    )


def clustered(texts: int, width: int, seed: int) -> Vectors:
    """(texts, width) unit vectors, in clusters of eight about centres that lie in clusters themselves.

    Chosen for the density about the boundary of 0.88, which decides how many pairs must be looked at again: of 20,000
    texts 5e-5 of all pairs lie above it, of 100,000 1e-5. QQP's positives, of which a trained model's boundary leaves
    as many above, are 7e-5 of its 1.2e9 training pairs. How far a text lies from its centre differs, so that cosines
    within a cluster go from 0.5 to 0.99 without a gap; directions differ in weight, so that those of other pairs
    spread by 0.1 about 0, as a sentence encoder's do.
    """
    rng = generator(seed, "bench-vectors")
    weight = (np.arange(1, width + 1) ** -0.4).astype(np.float32)

    def directions(count: int) -> Vectors:
        return unit(rng.standard_normal((count, width), dtype=np.float32) * weight)

    centres = -(-texts // CLUSTER)
    topics = directions(-(-centres // TOPIC))
    about = unit(directions(centres) + 0.35 * topics[np.arange(centres) % len(topics)])
    noise = rng.uniform(LEAST_NOISE, MOST_NOISE, (texts, 1)).astype(np.float32)
    return unit(about[members(texts, seed) // CLUSTER] + noise * directions(texts))


def members(texts: int, seed: int) -> Rows:
    """(texts,) CLUSTER * its cluster + its number there, of each text of `clustered`."""
    return generator(seed, "bench-members").permutation(texts).astype(np.int64)


def unit(vectors: npt.NDArray[np.floating]) -> Vectors:
    """(n, d) vectors -> of length 1."""
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
