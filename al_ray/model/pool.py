"""One shard of a pool: it embeds its texts, keeps the vectors, and answers for them. cluster/ makes it an actor.

Texts are dealt to shards in whole encoder batches, so that a vector's bits do not depend on the number of shards. Every
call names the weights it wants; a shard that holds others, or nothing, embeds first. All methods only read, so a call
may be repeated.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from al_ray.core.config import EncoderConfig, SearchConfig
from al_ray.core.estimate import Asked, Tally, tallied
from al_ray.core.pairs import Keys, Pairs, Rows, as_pairs, is_in
from al_ray.core.records import Model
from al_ray.core.scoring import Floats
from al_ray.core.strategy import Candidates
from al_ray.model.count import COLUMNS, Stands, counted, scored, within
from al_ray.model.encoders import TextEncoder, load, untrained
from al_ray.model.join import Block, LeastPairs, Wanted
from al_ray.model.nearest import Near, Request, Shortlist, members, nearest, select, settled, shortlist
from al_ray.model.neighbours import NONE, Bytes, Neighbours, sample_size, set_threads, trained
from al_ray.model.tokens import Tokens, batches
from al_ray.model.vectors import TRAINED, UNTRAINED, Shelf, single
from al_ray.storage.near import fetched
from al_ray.storage.places import place


@dataclass(frozen=True)
class ShardSpec:
    """All that a shard is made from; small, so that a restarted actor rebuilds itself from storage.

    folder, a path or URI: token ids (`left/`, `right/`), rows (`NAME.npy`) of each part; its name begins with its side;
    and `vectors/`, if they are kept, which of a URI lie in the node's copy.
    mapped_above, keep_vectors: as in ClusterConfig.
    sharer: the name of the run, where several share the folder: vectors of the untrained encoder are kept for all of
    them, and those of its models, if they are kept, are its own.
    """

    folder: str
    encoder: EncoderConfig
    search: SearchConfig
    shard: int
    shards: int
    device: str = "cpu"
    mapped_above: float = math.inf
    keep_vectors: bool = False
    sharer: str = ""

    @property
    def shelves(self) -> dict[str, Path]:
        """Kind of weights -> where its vectors are kept, if they are."""
        if not (self.keep_vectors or self.sharer):
            return {}
        folder = fetched(place(self.folder)) / "vectors"
        return {UNTRAINED: folder, **({TRAINED: folder / self.sharer} if self.keep_vectors else {})}


class PoolShard:
    """The shard `spec.shard` of `spec.shards`."""

    def __init__(self, spec: ShardSpec) -> None:
        """Fix the threads; weights and vectors come with the first call."""
        torch.set_num_threads(spec.encoder.threads)
        set_threads(spec.encoder.threads)
        self.spec = spec
        self._held = ""
        self._encoder: TextEncoder | None = None
        self._vectors: dict[str, Block] = {}
        self._indexes: dict[str, Neighbours] = {}
        self._shelf = Shelf(spec.encoder.vectors, spec.mapped_above, spec.shelves, spec.shard, spec.shards)

    def untrained(self) -> Model:
        """The pre-trained encoder, a model without scorer."""
        return Model(path="", digest=untrained(self.spec.encoder, place(self.spec.folder), self.spec.device).digest())

    def rows(self, part: str) -> Rows:
        """The sorted rows of a part that are this shard's."""
        return _sorted(self._batches(part))

    def embed(self, model: Model, part: str) -> Iterator[int]:
        """Make sure of a part's vectors under these weights; yields the texts done since the last word.

        As many words whether they are made, read back or there: a stream that Ray asks for again must be as long.
        """
        self._want(model)
        own, key = self._batches(part), self._key(model, part)
        rows = _sorted(own)
        if part not in self._vectors:
            kept = self._shelf.kept(part, key, len(rows))
            if kept is None:
                tokens, encoder = self._tokens(part), self._encoder_of(model)
                with self._shelf.made(part, key, (len(rows), encoder.dimension)) as vectors:
                    for batch in own:
                        vectors[np.searchsorted(rows, batch)] = encoder.embed(tokens, batch)
                        self.embedded(len(batch))
                        yield len(batch)
                self._vectors[part] = Block(rows, vectors)
                return
            self._vectors[part] = Block(rows, kept)
        # One by one: Ray sends into the stream, and of what is no generator `yield from` then fails.
        for batch in own:
            yield len(batch)

    def embedded(self, count: int) -> None:
        """Hears of so many texts as they have been encoded; who counts them says so (cluster/metrics.py)."""

    def block(self, model: Model, part: str, start: int, stop: int) -> Block:
        """The shard's texts number start to stop of a part, with their vectors."""
        held = self._part(model, part)
        return Block(held.rows[start:stop], held.vectors[start:stop])

    def sample_size(self, model: Model, part: str) -> int:
        """How many texts the index of a part learns from; 0 when it has nothing to learn."""
        return sample_size(self.spec.search.index, self._part(model, part).vectors.shape[1])

    def vectors_of(self, model: Model, part: str, rows: Rows) -> Block:
        """The shard's own of these rows."""
        held = self._part(model, part)
        own = np.flatnonzero(np.isin(held.rows, rows))
        return Block(held.rows[own], held.vectors[own])

    def joined(self, *blocks: Block) -> Block:
        """Texts of several shards as one block, by row."""
        rows = np.concatenate([block.rows for block in blocks])
        order = np.argsort(rows)
        return Block(rows[order], np.concatenate([block.vectors for block in blocks])[order])

    def trained_index(self, *sample: Block) -> Bytes:
        """What an index of the pool learns from texts of all shards: the same however they are dealt out."""
        return trained(self.joined(*sample).vectors, self.spec.search.index)

    def nearest(self, model: Model, part: str, queries: Block, count: int, learnt: Bytes | None = None) -> Near:
        """At least the `count` nearest of the shard's texts to each query: roughly how near, and which; see nearest.py.

        learnt: what `trained_index` made for all shards.
        """
        held = self._part(model, part)
        if not len(held.rows):
            return np.full((len(queries.rows), count), -np.inf), np.full((len(queries.rows), count), NONE)
        if part not in self._indexes:
            search = self.spec.search
            self._indexes[part] = Neighbours(held.vectors, search.index, search.nprobe, self.spec.device, learnt)
        return nearest(self._indexes[part], held, queries.vectors, count)

    def truly_nearest(self, model: Model, part: str, queries: Block, count: int) -> Near:
        """The same, found by looking at every text: what an index is measured by. Ties are as float32 leaves them."""
        held = self._part(model, part)
        asked, rows = single(queries.vectors), np.empty((len(queries.rows), 0), dtype=np.int64)
        cosines = torch.empty(rows.shape)
        for start in range(0, len(held.rows), COLUMNS):
            here = Block(held.rows[start : start + COLUMNS], held.vectors[start : start + COLUMNS])
            rows = np.concatenate([rows, np.broadcast_to(here.rows, (len(rows), len(here.rows)))], axis=1)
            cosines = torch.cat([cosines, asked @ single(here.vectors).T], dim=1)
            cosines, places = cosines.topk(min(count, cosines.shape[1]), dim=1)
            rows = np.take_along_axis(rows, places.numpy(), axis=1)
        return cosines.double().numpy(), rows

    def shortlist(self, request: Request, bound: float, queries: Block, labelled: Keys, *answers: Near) -> Shortlist:
        """The pairs of a block that must be looked at again, from the answers of all shards."""
        return shortlist(request, bound, queries.rows, labelled, list(answers))

    def members(self, request: Request, queries: Block, *answers: Near) -> tuple[Keys, Shortlist]:
        """Keys of pairs that are among the nearest, and the pairs that must be looked at again to say."""
        return members(request, queries.rows, list(answers))

    def settled(self, model: Model, part: str, queries: Block, listed: Shortlist) -> Floats:
        """The cosines of shortlisted pairs, NaN where the right text is not here."""
        return self.cosines(model, part, queries, listed.pairs)

    def select(self, request: Request, listed: Shortlist, *answers: Floats) -> Candidates:
        """The candidates of a block, from the cosines that all shards have for its shortlist."""
        return select(request, listed, list(answers))

    def least(self, model: Model, visit: "Visit", visitor: Block, labelled: Keys) -> Candidates:
        """The least pairs of the visitor with blocks of the shard's texts: at most `count`, none above the bound."""
        held = self._part(model, visit.part)
        # On a GPU products of 16 bits are quickest; what they leave open is settled in float64 either way.
        found = LeastPairs(visit.wanted, labelled, self.spec.device, half=self.spec.device != "cpu")
        found.tighten(visit.bound)
        for start, stop in visit.blocks:
            found.add(visitor, Block(held.rows[start:stop], held.vectors[start:stop]))
        return found.result()

    def cosines(self, model: Model, part: str, queries: Block, pairs: Pairs) -> Floats:
        """(n, 2) pairs whose left texts are among the queries -> (n,) float64 cosines; NaN where right is not here."""
        held = self._part(model, part)
        cosines = np.full(len(pairs), np.nan)
        own = np.flatnonzero(is_in(pairs[:, 1], held.rows))
        left, right = np.searchsorted(queries.rows, pairs[own, 0]), np.searchsorted(held.rows, pairs[own, 1])
        cosines[own] = settled(queries.vectors, left, held.vectors, right)
        return cosines

    def tally(self, model: Model, part: str, queries: Block, hidden: Pairs, asked: Asked) -> Tally:
        """Count ALL pairs of the queries with the shard's texts, less the `hidden` (k, 2): the exact false positives.

        Cells of the float32 product within MARGIN of a threshold are settled by float64 products, so that the count
        does not depend on blocks or shards. In a symmetric task only pairs left < right, each of which is met once.
        """
        held = self._part(model, part)
        return counted(queries, held, hidden, asked, model.scorer)

    def sampled(
        self, model: Model, part: str, queries: Block, asked: Asked, stands: Stands, *samples: Keys
    ) -> list[Tally]:
        """Count the sampled negatives of each stratum whose left text is among the queries and whose right one is here.

        samples: the sorted keys of each whole sample.
        """
        held, found = self._part(model, part), []
        for keys, weight in zip(samples, stands.weights, strict=True):
            own = within(keys, queries.rows, stands.width)
            own = own[is_in(own % stands.width, held.rows)]
            pairs = as_pairs(*np.divmod(own, stands.width))
            cosines = scored(queries, held, pairs, asked.thresholds)
            logits = None if model.scorer is None else model.scorer.logit(cosines)
            found.append(tallied(asked, own, pairs, cosines, logits, weight))
        return found

    def _part(self, model: Model, part: str) -> Block:
        self._want(model)
        if part not in self._vectors:
            for _ in self.embed(model, part):
                pass
        return self._vectors[part]

    def _want(self, model: Model) -> None:
        """Forget all that other weights made."""
        if self._held != model.digest:
            self._held, self._encoder = model.digest, None
            self._vectors.clear()
            self._indexes.clear()
            self._shelf.want(TRAINED if model.path else UNTRAINED, model.digest[:16])

    def _key(self, model: Model, part: str) -> str:
        """All that decides the shard's vectors of a part. The model's digest is of weights and encoder options."""
        spec = self.spec
        computed = torch.device(spec.device).type, torch.__version__
        texts = place(spec.folder).name, part, spec.shard, spec.shards
        return json.dumps([model.digest, spec.encoder.vectors, *texts, *computed])

    def _encoder_of(self, model: Model) -> TextEncoder:
        if self._encoder is None:
            self._encoder = load(model, self.spec.encoder, place(self.spec.folder), self.spec.device)
        return self._encoder

    def _tokens(self, part: str) -> Tokens:
        return Tokens.read(fetched(place(self.spec.folder)) / part.split("-")[0])

    def _batches(self, part: str) -> list[Rows]:
        """The shard's batches of a part: every so-manieth of all."""
        rows = np.load(fetched(place(self.spec.folder)) / f"{part}.npy")
        every = batches(self._tokens(part), rows, self.spec.encoder.batch)
        return every[self.spec.shard :: self.spec.shards]


@dataclass(frozen=True)
class Visit:
    """What a block of texts looks for in a shard: see PoolShard.least.

    blocks: from which to which of the shard's texts of a part; bound: a cost that is not too dear to be wanted.
    """

    part: str
    wanted: Wanted
    blocks: tuple[tuple[int, int], ...]
    bound: float


def _sorted(own: list[Rows]) -> Rows:
    """The rows of batches, sorted."""
    return np.sort(np.concatenate(own)) if own else np.empty(0, dtype=np.int64)
