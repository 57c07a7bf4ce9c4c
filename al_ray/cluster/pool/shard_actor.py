"""What an actor adds to the shard that it has: one embedding at a time, streams of fixed length, and watched steps.

Its peers ask for texts in other threads while it works: every call that needs vectors asks for them here first, and
waits while they are made.
"""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any

from al_ray.cluster.pool.ring import MAX_UPDATES
from al_ray.cluster.watchdog import Steps, watched
from al_ray.cluster.workers import wait_for
from al_ray.core.labels import Model
from al_ray.core.nearest_means import NearestMeans
from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import Keys, Pairs, PairSpace, Rows
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Block, Vectors
from al_ray.encoders.prompts import Side
from al_ray.search.faiss_index import Bytes, set_threads
from al_ray.search.kmeans import CellSums, Centroids, Ints
from al_ray.search.knn_rounds import Portion
from al_ray.search.merge import Neighbors
from al_ray.search.new_texts import encode_texts, token_lengths
from al_ray.search.shard import PoolShard


class ShardActor:
    """The actor of a shard; subclasses add the stages. It answers for its shard, by calls of the same names."""

    def __init__(self, shard: PoolShard) -> None:
        """shard: its own."""
        self.shard, self.spec = shard, shard.spec
        self.embedding, self.indexing = threading.RLock(), threading.Lock()
        self.weights = ""
        self.answers = dict[str, Steps]()

    @property
    def rule(self) -> PairRule | None:
        """Which pairs of the task can match."""
        return self.shard.rule

    def use(self, model: Model) -> None:
        """Answer by these weights from now on."""
        self.weights = model.weights

    def embed(self, model: Model, part: str) -> Iterator[int]:
        """Embed a part, and then help shards that are behind; yield what was done, MAX_UPDATES times at most.

        What a peer asks for waits meanwhile.
        """
        with self.embedding:
            self.use(model)
            texts = self.size(part)
            words = min(MAX_UPDATES, ceil(texts / self.spec.encoder.encoder_batch))
            yield from as_words(watched(self.shard.embed(model, part)), texts, words)
            deque(watched(self.shard.embed_for_others(model, part)), maxlen=0)

    def texts_of(self, model: Model, part: str) -> Block:
        """Return the shard's texts of a part with their vectors; encoded once, at the first request."""
        # A shard that restarts is asked by its peers while it begins its own stage: it embeds once.
        with self.embedding:
            if not self.shard.has_vectors(model, part):
                deque(self.embed(model, part), maxlen=0)
            self.use(model)
            return self.shard.texts_of(model, part)

    def ready(self, model: Model, part: str) -> PoolShard:
        """Return the shard once it has the vectors of a part."""
        self.texts_of(model, part)
        return self.shard

    def untrained(self) -> Model:
        """As PoolShard.untrained."""
        return self.shard.untrained()

    def hardware(self) -> tuple[str, ...]:
        """As PoolShard.hardware."""
        return self.shard.hardware()

    def encode_texts(self, model: Model, texts: Sequence[str], side: Side) -> tuple[Vectors, Rows]:
        """As search.new_texts.encode_texts."""
        return encode_texts(self.shard, model, texts, side)

    def token_lengths(self, model: Model, texts: Sequence[str], side: Side) -> Rows:
        """As search.new_texts.token_lengths."""
        return token_lengths(self.shard, model, texts, side)

    def size(self, part: str) -> int:
        """Return how many texts of a part this shard has."""
        return len(self.shard.rows(part))

    def rows_of(self, model: Model, part: str) -> Rows:
        """Return the sorted rows of a part that are this shard's, for a peer."""
        return self.texts_of(model, part).rows

    def block(self, model: Model, part: str, start: int, stop: int) -> Block:
        """As PoolShard.block."""
        return self.ready(model, part).block(model, part, start, stop)

    def vectors_of(self, model: Model, part: str, rows: Rows) -> Block:
        """As PoolShard.vectors_of."""
        return self.ready(model, part).vectors_of(model, part, rows)

    def join(self, *blocks: Block) -> Block:
        """As PoolShard.join."""
        return self.shard.join(*blocks)

    def sum_cells(self, model: Model, part: str, rows: Rows, centroids: Centroids, pieces: int) -> list[CellSums]:
        """As PoolShard.sum_cells."""
        return self.ready(model, part).sum_cells(model, part, rows, centroids, pieces)

    def add_cells(self, *sums: CellSums) -> tuple[Ints, Centroids]:
        """As PoolShard.add_cells."""
        return self.shard.add_cells(*sums)

    def sample_size(self, model: Model, part: str) -> int:
        """As PoolShard.sample_size."""
        return self.ready(model, part).sample_size(model, part)

    def train_index(self, centroids: Centroids | None, *sample: Block) -> Bytes:
        """As PoolShard.train_index."""
        return self.shard.train_index(centroids, *sample)

    def nearest(
        self, model: Model, part: str, queries: Block, count: int, trained: Bytes | None = None,
        portion: Portion = None, right_offsets: NearestMeans | None = None,
    ) -> Neighbors:  # fmt: skip
        """As PoolShard.nearest; one call at a time, with the threads of this shard."""
        with self.indexing:
            # A setting of each thread.
            set_threads(self.spec.encoder.threads)
            shard, arguments = self.ready(model, part), (model, part, queries, count, trained, portion, right_offsets)
            if self._makes_index(part):
                return shard.nearest(*arguments)
            with self.answers[part]:
                return shard.nearest(*arguments)

    def probed(self, model: Model, part: str, queries: Block, trained: Any = None) -> Block:
        """As PoolShard.probed, in the thread of a stage. trained: a reference, which is needed to make the index."""
        with self.indexing:
            set_threads(self.spec.encoder.threads)
            shard, makes = self.ready(model, part), self._makes_index(part)
            return shard.probed(model, part, queries, wait_for(trained) if makes and trained is not None else None)

    def _makes_index(self, part: str) -> bool:
        """Return whether the next answer makes the index of a part, which takes far longer than an answer."""
        if self.shard.has_index(part):
            return False
        # Indexes of other parts, and under other weights, answer in other times.
        self.answers[part] = Steps()
        return True

    def exact_nearest(self, model: Model, part: str, queries: Block, count: int) -> Neighbors:
        """As PoolShard.exact_nearest."""
        return self.ready(model, part).exact_nearest(model, part, queries, count)

    def cosines(self, model: Model, part: str, queries: Block, pairs: Pairs) -> Floats:
        """As PoolShard.cosines."""
        return self.ready(model, part).cosines(model, part, queries, pairs)

    def count_partners(
        self, model: Model, part: str, queries: Block, score: float, space: PairSpace, excluded: Keys
    ) -> Rows:
        """As PoolShard.count_partners."""
        return self.ready(model, part).count_partners(model, part, queries, score, space, excluded)


def as_words(done: Iterator[int], whole: int, words: int) -> Iterator[int]:
    """Yield `words` numbers that add up to `whole`, as the work goes on, whatever numbers it yields itself.

    Ray asks for the stream of an actor that was lost again, and it must be as long as before: the work that is done
    may then be less.
    """
    ends = [whole * (word + 1) // words for word in range(words)]
    so_far, yielded, word = 0, 0, 0
    for count in done:
        so_far += count
        while word < words and ends[word] <= so_far:
            yield ends[word] - yielded
            yielded, word = ends[word], word + 1
    for end in ends[word:]:
        yield end - yielded
        yielded = end
