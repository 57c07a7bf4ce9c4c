"""The pool over shards, as the driver sees it: a stage is one call to each shard (cluster/pool/actor.py)."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from al_ray.cluster.pool.ring import Ring
from al_ray.cluster.pool.sharded_index import train_index
from al_ray.cluster.workers import add_to_counter, get_results, put, stream_results
from al_ray.core.candidates import HIGHEST
from al_ray.core.config.sections import SearchConfig
from al_ray.core.labels import Model
from al_ray.core.nearest_means import NearestMeans
from al_ray.core.neighbourhood import NEIGHBOURS
from al_ray.core.pairs import NO_KEYS, Pairs, PairSpace, Rows
from al_ray.core.progress import OnProgress
from al_ray.core.scorer import Floats
from al_ray.core.streams import round_robin
from al_ray.core.task import Split, Task
from al_ray.core.vectors import Block
from al_ray.metrics.average_precision import StratumSummary
from al_ray.metrics.estimator import CountRequest, NegativeCounts, SampleWeights
from al_ray.search.candidate_files import OwnRequest
from al_ray.search.knn_merge import KnnRequest
from al_ray.search.merge import join_blocks

Side = Literal["left", "right"]


@dataclass(frozen=True)
class StoredStratum:
    """A stratum whose sampled pairs are stored for the shards. keys: a reference of (n,) sorted keys."""

    summary: StratumSummary
    keys: Any


class ShardedPool:
    """The splits of a task on shard actors. Answers do not depend on how many shards there are."""

    def __init__(
        self,
        shards: Sequence[Any],
        parts: dict[tuple[str, str], str],
        task: Task,
        search: SearchConfig,
        watch: OnProgress,
    ) -> None:
        """parts: (split, side) -> the name of its rows in the pool folder (cluster/token_store.py).

        embedding_seconds: the time spent in `embed` so far; a stage that queries the pool subtracts its share.
        preparing_seconds: the time in which the pool folder was written. candidates: by weights and split, where they
        are kept, if a matcher ranks them; find_candidates finds and keeps those of splits by the cosines of a model.
        """
        self.shards, self.parts, self.task, self.search, self.watch = list(shards), parts, task, search, watch
        self._sizes: dict[str, tuple[int, ...]] = {}
        self._stages = itertools.count(1)
        self._untrained: Model | None = None
        self._embedded_by, self._embedded = "", frozenset[str]()
        self._means = dict[tuple[str, str, str], NearestMeans]()
        self._offsets = dict[tuple[str, str, str, float], Any]()
        self.candidates = dict[tuple[str, str], OwnRequest]()
        self.find_candidates: Callable[[Model, Iterable[Split]], None] | None = None
        self.embedding_seconds = self.preparing_seconds = 0.0

    def untrained(self) -> Model:
        """The pre-trained encoder, a model without scorer."""
        model = self._untrained or get_results(self.shards[0].untrained.remote())
        self._untrained = model
        return model

    def candidates_of(self, model: Model, split: Split) -> OwnRequest:
        """Return where the candidates of a split by the weights of a model are kept; they are found if they are not."""
        key = model.weights, split.name
        if key not in self.candidates:
            assert self.find_candidates is not None
            self.find_candidates(model.by_cosine, [split])
        return self.candidates[key]

    def embed(self, model: Model, splits: Iterable[str]) -> None:
        """Embed the texts of these splits on all shards at once, unless the shards hold their vectors already.

        Every query does this first, so callers need not. A shard that restarted embeds again by itself.
        """
        started = time.monotonic()
        if self._embedded_by != model.weights:
            # Shards hold vectors of one model at a time.
            self._embedded_by, self._embedded = model.weights, frozenset()
            self._means.clear()
            self._offsets.clear()
        try:
            for part in dict.fromkeys(self.parts[split, side] for split in splits for side in ("left", "right")):
                if part not in self._embedded:
                    self._embed_part(model, part)
                    self._embedded |= {part}
        finally:
            self.embedding_seconds += time.monotonic() - started

    def _embed_part(self, model: Model, part: str) -> None:
        total, done = sum(self.sizes(part)), 0
        streams = [shard.embed.options(num_returns="streaming").remote(model, part) for shard in self.shards]
        for count in round_robin([stream_results(stream) for stream in streams]):
            done += count
            self.watch("embed", done, total)

    def scores(self, model: Model, split: Split, pairs: Pairs) -> Floats:
        """(n, 2) pairs of a split -> (n,) scores in float64, each a sum in one fixed order."""
        scores = np.full(len(pairs), np.nan)
        if len(pairs):
            for own, of_shard in self.on_all(model, split, "score", "score_pairs", put(pairs), whole=len(pairs)):
                scores[own] = of_shard
        return scores

    def means_of_nearest(self, model: Model, split: Split, side: Side = "left") -> NearestMeans:
        """The mean cosine of each text of a side of a split with its nearest of the other, by the index of the search.

        In a symmetric task both sides are the same.
        """
        self.embed(model, [split.name])
        key = self._key(model, split, side)
        if key not in self._means:
            plain, space, turned = replace(model, scorer=None), split.space, side == "right"
            own, other = (space.right, space.left) if turned else (space.left, space.right)
            keys = PairSpace(NO_KEYS, NO_KEYS, space.width, space.symmetric)
            request = KnnRequest(keys, self.task.symmetric, NEIGHBOURS, HIGHEST, space.total)
            trained = train_index(self.shards, self.search.index, plain, key[2], other)
            method, arguments = "means_of_nearest", (put(request), (trained,))
            first, *others = self.on_all(
                plain, split, "neighbourhood", method, *arguments, whole=len(own), turned=turned
            )
            self._means[key] = first.joined(*others)
        return self._means[key]

    def _offsets_of(self, model: Model, split: Split) -> tuple[Any, Any]:
        """Return references of what is subtracted from the cosines of left and of right texts; None for nothing."""
        if model.scorer is None or not model.scorer.neighbourhood:
            return None, None
        left = self._times(model, split, "left", model.scorer.neighbourhood)
        if not model.scorer.both_sides:
            return left, None
        return left, self._times(model, split, "right", model.scorer.neighbourhood)

    def _times(self, model: Model, split: Split, side: Side, weight: float) -> Any:
        """Return a reference of a weight times the means of a side."""
        means = self.means_of_nearest(model, split, side)
        key = *self._key(model, split, side), weight
        if key not in self._offsets:
            self._offsets[key] = put(means.times(weight))
        return self._offsets[key]

    def _key(self, model: Model, split: Split, side: Side) -> tuple[str, str, str]:
        """Weights, and the parts of a side and of the other: in a symmetric task the same for both."""
        own, other = ("left", "right") if side == "left" else ("right", "left")
        return model.weights, self.parts[split.name, own], self.parts[split.name, other]

    def left_block(self, model: Model, split: Split, rows: Rows) -> Block:
        """Return left texts of a split with their vectors, and what is subtracted from cosines. rows: sorted."""
        self.embed(model, [split.name])
        part, asked, (left, right) = self.parts[split.name, "left"], put(rows), self._offsets_of(model, split)
        block = join_blocks(get_results([shard.vectors_of.remote(model, part, asked) for shard in self.shards]))
        if left is None:
            return block
        theirs = None if right is None else get_results(right)
        return replace(block, offsets=get_results(left).of(block.rows), right_offsets=theirs)

    def count_negatives(self, model: Model, split: Split, request: CountRequest) -> NegativeCounts:
        """Count every negative of a split."""
        arguments = put(split.positives), put(request)
        return sum(self.on_all(model, split, "count", "count_pool", *arguments), NegativeCounts.zero(request))

    def count_sampled_negatives(
        self, model: Model, split: Split, strata: Sequence[StoredStratum], request: CountRequest
    ) -> list[NegativeCounts]:
        """Count the sampled negatives of each stratum: a shard answers for the pairs whose right text it has."""
        weights = SampleWeights(split.space.width, tuple(stratum.summary.weight for stratum in strata))
        keys = [stratum.keys for stratum in strata]
        counts = [NegativeCounts.zero(request) for _ in strata]
        whole = len(self.shards) * sum(stratum.summary.size for stratum in strata)
        answers = self.on_all(model, split, "score", "count_sample", put(request), weights, *keys, whole=whole)
        for of_shard in answers:
            counts = [one + other for one, other in zip(counts, of_shard, strict=True)]
        return counts

    def on_all(
        self,
        model: Model,
        split: Split,
        stage: str,
        method: str,
        *arguments: Any,
        whole: int | None = None,
        turned: bool = False,
    ) -> list[Any]:
        """Embed the split, call a method of PullsFromPeers on every shard, and return their answers.

        whole: what the words of all shards add up to; all left texts for each shard if it is not given. turned: ask
        about the right texts.
        """
        # First: finding candidates embeds, too, and each of its steps is a stage of its own.
        own = self.candidates_of(model, split) if model.matcher is not None else None
        self.embed(model, [split.name])
        sides = ("right", "left") if turned else ("left", "right")
        left, right = (self.parts[split.name, side] for side in sides)
        sizes, offsets = (self.sizes(left), self.sizes(right)), self._offsets_of(model, split)
        ring = Ring(self.shards, next(self._stages), left, right, *sizes, self.search.block, *offsets, own)
        streams = [
            getattr(shard, method).options(num_returns="streaming").remote(model, ring, *arguments)
            for shard in self.shards
        ]
        answers, texts = [None] * len(streams), sum(ring.left_sizes)
        done, whole = 0, whole or texts * len(streams)
        for number, word in round_robin([_numbered(number, stream) for number, stream in enumerate(streams)]):
            if not isinstance(word, int):
                answers[number] = word
                continue
            done += word
            if stage == "search":
                add_to_counter("pairs_searched", split.space.total * word / whole)
            self.watch(stage, texts * done // whole, texts)
        return answers

    def sizes(self, part: str) -> tuple[int, ...]:
        """How many texts of a part each shard has."""
        if part not in self._sizes:
            self._sizes[part] = tuple(get_results([shard.size.remote(part) for shard in self.shards]))
        return self._sizes[part]


def _numbered(number: int, stream: Any) -> Iterator[tuple[int, Any]]:
    """Yield the values of a streaming call with a number."""
    return ((number, value) for value in stream_results(stream))
