"""One shard of a pool: it embeds its texts, keeps the vectors, and answers for them. Actors of cluster/ have one.

Texts are dealt to shards in chunks of whole encoder batches, so that a vector's bits do not depend on the number of
shards. Every call names the weights it wants; a shard that holds others, or nothing, embeds first. All methods only
read, so a call may be repeated.
"""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import cached_property, reduce
from operator import add

import numpy as np
import torch

from al_ray.core.chunks import batches_of, vector_chunks
from al_ray.core.labels import Model
from al_ray.core.nearest_means import NearestMeans
from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import Keys, Pairs, PairSpace, Rows, is_in
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Block, Vectors, paired_scores
from al_ray.datasets.pair_rules import read_rule
from al_ray.encoders.encoder import TextEncoder, load, sorted_rows, untrained
from al_ray.encoders.hardware import describe_hardware
from al_ray.encoders.tokens import StoredTokens, fetched_tokens
from al_ray.metrics.estimator import CountRequest, NegativeCounts
from al_ray.search.counting import count_block, score_pairs
from al_ray.search.faiss_index import NONE, Bytes, sample_size, set_threads, train_index
from al_ray.search.flat_index import FlatIndex, exact_neighbors, index_of
from al_ray.search.join.forbidden_pairs import ForbiddenPairs
from al_ray.search.join.partner_counts import count_partners
from al_ray.search.kmeans import CellSums, Centroids, Ints, sum_by_cell
from al_ray.search.knn_merge import PairIndex
from al_ray.search.knn_rounds import Portion, portion_of_nearest
from al_ray.search.known_vectors import KnownVectors, embed_unknown
from al_ray.search.merge import Neighbors, join_blocks
from al_ray.search.shard_spec import ShardSpec
from al_ray.search.vector_files import DIGITS, TRAINED, UNTRAINED, VectorStore
from al_ray.storage.uri import storage_path


class PoolShard:
    """The shard `spec.shard` of `spec.shards`."""

    def __init__(self, spec: ShardSpec, on_embedded: Callable[[int], None] = lambda count: None) -> None:
        """Fix the threads; weights and vectors come with the first call.

        on_embedded: called after each encoded batch with its number of texts.
        """
        torch.set_num_threads(spec.encoder.threads)
        set_threads(spec.encoder.threads)
        self.spec, self.on_embedded = spec, on_embedded
        self._digest = ""
        self._encoder: TextEncoder | None = None
        self._vectors: dict[str, Block] = {}
        self._indexes: dict[str, PairIndex] = {}
        self._store = VectorStore(spec.encoder.vectors, spec.mapped_above, spec.vector_folders, spec.shard, spec.shards)
        self._known = KnownVectors(None, self._store.dtype)

    def untrained(self) -> Model:
        """The pre-trained encoder, a model without scorer."""
        encoder = untrained(self.spec.encoder, storage_path(self.spec.folder), self.spec.device)
        return Model(path="", digest=encoder.digest())

    def hardware(self) -> tuple[str, ...]:
        """Return the device of this shard and the versions of its libraries."""
        return describe_hardware(self.spec.device)

    def rows(self, part: str) -> Rows:
        """Return the sorted rows of a part that this shard has."""
        return sorted_rows([batch for _, batches in self._chunks(part) for batch in batches])

    def embed(self, model: Model, part: str) -> Iterator[int]:
        """Make the vectors of a part under these weights, chunk by chunk, unless they are there.

        Yield the number of texts of each batch that is encoded, and of each chunk that is read.
        """
        if self.has_vectors(model, part):
            return
        chunks = self._chunks(part)
        rows, vectors = sorted_rows([batch for _, batches in chunks for batch in batches]), None
        self._known.refresh()
        for chunk, batches in chunks:
            stored = yield from self._chunk(model, part, chunk, batches)
            if vectors is None:
                vectors = self._store.empty((len(rows), stored.shape[1]))
            vectors[np.searchsorted(rows, sorted_rows(batches))] = stored
        if vectors is None:
            vectors = self._store.empty((0, self.encoder_of(model).dimension))
        if self.spec.known:
            self._known.add(f"{part}-{self.spec.shard}-of-{self.spec.shards}", self._tokens(part).take(rows), vectors)
        self._vectors[part] = Block(rows, vectors)

    def _chunk(self, model: Model, part: str, chunk: int, batches: list[Rows]) -> Generator[int, None, Vectors]:
        """Return the vectors of a chunk by row, read or encoded and kept; yield how many texts are done."""
        own, key = sorted_rows(batches), self._key(model, part, batches)
        stored = self._store.load(part, chunk, key, len(own))
        if stored is not None:
            yield len(own)
            return stored
        encoder, local = self.encoder_of(model), [np.searchsorted(own, batch) for batch in batches]
        vectors: Vectors = np.empty((len(own), encoder.dimension), dtype=self._store.dtype)
        for count in embed_unknown(self._known, encoder, self._tokens(part).take(own), local, vectors):
            self.on_embedded(count)
            yield count
        self._store.keep(part, chunk, key, vectors)
        return vectors

    def embed_for_others(self, model: Model, part: str) -> Iterator[int]:
        """Encode and keep chunks that other shards have yet to encode, and yield the number of texts of each batch.

        The first that is missing of each shard is left to it: it is encoding that one, or was when it died. Nothing is
        done where vectors are not kept.
        """
        self._use(model)
        if self._store.folder is None:
            return
        order, size = self._order(part), self.spec.encoder.encoder_batch
        while behind := max(self._store.missing(part, vector_chunks(len(order), size)), key=len)[1:]:
            # Several shards that help one begin in different places.
            chunk = behind[-1 - self.spec.shard * len(behind) // self.spec.shards]
            yield from self._chunk(model, part, chunk, batches_of(order, size, chunk))

    def block(self, model: Model, part: str, start: int, stop: int) -> Block:
        """The shard's texts number start to stop of a part, with their vectors."""
        held = self.texts_of(model, part)
        return Block(held.rows[start:stop], held.vectors[start:stop])

    def sample_size(self, model: Model, part: str) -> int:
        """How many texts the index of a part learns from; 0 when it has nothing to learn."""
        return sample_size(self.spec.search.index, self.texts_of(model, part).vectors.shape[1])

    def vectors_of(self, model: Model, part: str, rows: Rows) -> Block:
        """The shard's own of these rows."""
        held = self.texts_of(model, part)
        # Not np.isin, which sorts all rows of the shard.
        own = np.unique(np.searchsorted(held.rows, rows[is_in(rows, held.rows)]))
        return Block(held.rows[own], held.vectors[own])

    def join(self, *blocks: Block) -> Block:
        """Join texts of several shards into one block, sorted by row."""
        return join_blocks(blocks)

    def sum_cells(self, model: Model, part: str, rows: Rows, centroids: Centroids, pieces: int) -> list[CellSums]:
        """Add up the shard's own of these sorted rows by their nearest centroids; return pieces of the cells."""
        held = self.texts_of(model, part)
        own = np.flatnonzero(is_in(held.rows, rows))
        return sum_by_cell(held.vectors, own, centroids, self.spec.device).pieces(pieces)

    def add_cells(self, *sums: CellSums) -> tuple[Ints, Centroids]:
        """Add the sums of all shards; return how many texts each cell has (c,) and the centroids (c, d)."""
        total = reduce(add, sums)
        return total.counts, total.centroids()

    def train_index(self, centroids: Centroids | None, *sample: Block) -> Bytes:
        """Train an index of the pool on texts of all shards: the same however they are divided.

        centroids: of its cells, if they are learned; then no sample is needed, unless the index keeps codes.
        """
        vectors = join_blocks(sample).vectors if sample or centroids is None else centroids
        return train_index(vectors, self.spec.search.index, centroids=centroids)

    def nearest(
        self, model: Model, part: str, queries: Block, count: int, trained: Bytes | None = None,
        portion: Portion = None, right_offsets: NearestMeans | None = None,
    ) -> Neighbors:  # fmt: skip
        """Return at least the `count` nearest of the shard's texts to each query, or a portion of them.

        See knn_merge.nearest and knn_rounds. trained: the result of `train_index` for all shards. right_offsets: as in
        Block; then the nearest are those of the highest score, by an index that compares all texts.
        """
        held = self.texts_of(model, part)
        if not len(held.rows):
            return np.full((len(queries.rows), 1), -np.inf), np.full((len(queries.rows), 1), NONE)
        if right_offsets is None:
            return portion_of_nearest(self._index(part, held, trained), held, queries, count, portion)
        queries = replace(queries, right_offsets=right_offsets)
        # On a GPU the index is flat, and its copy of the vectors is there.
        on_cpu = self.spec.device == "cpu"
        index = FlatIndex(held, rule=self._rule_of(part)) if on_cpu else self._index(part, held, trained)
        return portion_of_nearest(index, held, queries, count, portion)

    def probed(self, model: Model, part: str, queries: Block, trained: Bytes | None = None) -> Block:
        """Return queries with the cells that the indexes of all shards search for each, if they have cells."""
        held = self.texts_of(model, part)
        return self._index(part, held, trained).probed(queries) if len(held.rows) else queries

    def exact_nearest(self, model: Model, part: str, queries: Block, count: int) -> Neighbors:
        """Return the `count` nearest by comparison with every text: the truth for the recall of an index."""
        return exact_neighbors(self.texts_of(model, part), queries, count, self.spec.device)

    def cosines(self, model: Model, part: str, queries: Block, pairs: Pairs) -> Floats:
        """(n, 2) pairs whose left texts are among the queries -> (n,) float64 cosines; NaN where right is not here."""
        held = self.texts_of(model, part)
        cosines = np.full(len(pairs), np.nan)
        own = np.flatnonzero(is_in(pairs[:, 1], held.rows))
        left, right = np.searchsorted(queries.rows, pairs[own, 0]), np.searchsorted(held.rows, pairs[own, 1])
        cosines[own] = paired_scores(queries.vectors, left, held.vectors, right)
        return cosines

    def count_negatives(
        self, model: Model, part: str, queries: Block, hidden: Pairs, request: CountRequest
    ) -> NegativeCounts:
        """Count every pair of the queries with the shard's texts except the `hidden` (k, 2).

        Cells of the float32 product within MARGIN of a threshold are recomputed in float64, so that the count
        does not depend on blocks or shards. In a symmetric task only pairs left < right, each of which is met once.
        """
        held = self.texts_of(model, part)
        return count_block(queries, held, hidden, request, model.scorer, self.rule, self.spec.device)

    def count_partners(
        self, model: Model, part: str, queries: Block, score: float, space: PairSpace, excluded: Keys
    ) -> Rows:
        """How many (b,) of the shard's texts have at least a score with each query. See ForbiddenPairs.of."""
        forbidden = ForbiddenPairs.of(space, excluded, self.rule)
        return count_partners(queries, self.texts_of(model, part), score, forbidden, self.spec.device)

    def keys_here(self, model: Model, part: str, keys: Keys, width: int) -> Keys:
        """(n,) keys of pairs, made with `width` -> those whose right text is here, in their order."""
        return keys[is_in(keys % width, self.texts_of(model, part).rows)]

    def score_sample(self, model: Model, part: str, queries: Block, pairs: Pairs, thresholds: Floats) -> Floats:
        """(n, 2) pairs of the queries with texts here -> (n,) cosines, so exact that counts at the thresholds are."""
        return score_pairs(queries, self.texts_of(model, part), pairs, thresholds, self.spec.device)

    @cached_property
    def rule(self) -> PairRule | None:
        """Which pairs of the task can match."""
        folder = fetched_tokens(storage_path(self.spec.folder))
        return read_rule(folder, symmetric=not (folder / "right").exists())

    def _index(self, part: str, held: Block, trained: Bytes | None) -> PairIndex:
        """The index of a part, made when it is first needed. That of left texts is asked about right ones."""
        if part not in self._indexes:
            self._indexes[part] = index_of(held, self.spec.search, self.spec.device, self._rule_of(part), trained)
        return self._indexes[part]

    def _rule_of(self, part: str) -> PairRule | None:
        """Return the rule for queries of the other side."""
        return self.rule.turned if self.rule is not None and part.startswith("left") else self.rule

    def texts_of(self, model: Model, part: str) -> Block:
        """Return the shard's texts of a part with their vectors, which are made if they are not there."""
        if not self.has_vectors(model, part):
            deque(self.embed(model, part), maxlen=0)
        return self._vectors[part]

    def has_vectors(self, model: Model, part: str) -> bool:
        """Return whether the vectors of a part under these weights are there; those of other weights are dropped."""
        self._use(model)
        return part in self._vectors

    def has_index(self, part: str) -> bool:
        """Return whether the index of a part has been made."""
        return part in self._indexes

    def _use(self, model: Model) -> None:
        """Drop cached vectors and indexes if the model changed."""
        if self._digest != model.weights:
            self._digest, self._encoder = model.weights, None
            self._vectors.clear()
            self._indexes.clear()
            self._known = KnownVectors(self.spec.known_folder(model), self._store.dtype)
            self._store.select(TRAINED if model.path else UNTRAINED, model.weights[:DIGITS])

    def _key(self, model: Model, part: str, batches: list[Rows]) -> str:
        """All that decides the vectors of a chunk. The model's digest is of weights and encoder options."""
        spec = self.spec
        rows = hashlib.sha256(np.concatenate(batches).astype("<i8").tobytes()).hexdigest()
        texts = storage_path(spec.folder).name, part, rows, spec.encoder.encoder_batch
        return json.dumps([model.weights, spec.encoder.vectors, *texts, self.hardware()])

    def encoder_of(self, model: Model) -> TextEncoder:
        """Return the encoder of a model, loaded when it is first needed."""
        self._use(model)
        if self._encoder is None:
            self._encoder = load(model, self.spec.encoder, storage_path(self.spec.folder), self.spec.device)
        return self._encoder

    def _tokens(self, part: str) -> StoredTokens:
        return StoredTokens(fetched_tokens(storage_path(self.spec.folder)) / part.split("-")[0])

    def _chunks(self, part: str) -> list[tuple[int, list[Rows]]]:
        """Return the shard's chunks of a part: every `shards`-th, each with its number and its batches."""
        order, size = self._order(part), self.spec.encoder.encoder_batch
        own = range(self.spec.shard, vector_chunks(len(order), size), self.spec.shards)
        return [(chunk, batches_of(order, size, chunk)) for chunk in own]

    def _order(self, part: str) -> Rows:
        """Return the rows of a part in the order of their batches."""
        return np.load(fetched_tokens(storage_path(self.spec.folder)) / f"{part}.npy", mmap_mode="r")
