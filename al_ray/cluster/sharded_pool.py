"""The pool over shards: blocks of left texts travel, right texts stay; the driver sees counts and the best pairs."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray

from al_ray.cluster.actors import PAIRS, get_results, stream_results
from al_ray.cluster.pool_actor import Ring
from al_ray.core.config.sections import SearchConfig
from al_ray.core.labels import Model
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.progress import OnProgress
from al_ray.core.scorer import Floats
from al_ray.core.task import Split, Task
from al_ray.metrics.estimator import CountRequest, NegativeCounts
from al_ray.metrics.strata import Stratum
from al_ray.search.counting import SampleWeights


@dataclass(frozen=True)
class QueryBlock:
    """A block of left texts: which shard has it, from which to which of its texts, and their rows."""

    shard: int
    start: int
    stop: int
    rows: Rows


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
        """
        self.shards, self.parts, self.task, self.search, self.watch = list(shards), parts, task, search, watch
        self._rows: dict[str, list[Rows]] = {}
        self._sizes: dict[str, tuple[int, ...]] = {}
        self._untrained: Model | None = None
        self._embedded_by, self._embedded = "", frozenset[str]()
        self.embedding_seconds = 0.0

    def untrained(self) -> Model:
        """The pre-trained encoder, a model without scorer."""
        model = self._untrained or get_results(self.shards[0].untrained.remote())
        self._untrained = model
        return model

    def embed(self, model: Model, splits: Iterable[str]) -> None:
        """Embed the texts of these splits on all shards at once, unless the shards hold their vectors already.

        Every query does this first, so callers need not. A shard that restarted embeds again by itself.
        """
        started = time.monotonic()
        if self._embedded_by != model.digest:
            # Shards hold vectors of one model at a time.
            self._embedded_by, self._embedded = model.digest, frozenset()
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

    def cosines(self, model: Model, split: Split, pairs: Pairs) -> Floats:
        """(n, 2) pairs of a split -> (n,) cosines in float64, each a sum in one fixed order."""
        cosines = np.full(len(pairs), np.nan)
        for own, of_shard in self._on_all(model, split, "score", "score_pairs", ray.put(pairs)) if len(pairs) else ():
            cosines[own] = of_shard
        return cosines

    def count_negatives(self, model: Model, split: Split, request: CountRequest) -> NegativeCounts:
        """Count every negative of a split."""
        arguments = ray.put(split.positives), ray.put(request)
        return sum(self._on_all(model, split, "count", "count_pool", *arguments), NegativeCounts.zero(request))

    def count_sampled_negatives(
        self, model: Model, split: Split, strata: Sequence[Stratum], request: CountRequest
    ) -> list[NegativeCounts]:
        """Count the sampled negatives of each stratum: a shard answers for the pairs whose right text it has."""
        weights = SampleWeights(split.space.width, tuple(stratum.weight for stratum in strata))
        keys = [ray.put(stratum.keys) for stratum in strata]
        counts = [NegativeCounts.zero(request) for _ in strata]
        for of_shard in self._on_all(model, split, "score", "count_sample", ray.put(request), weights, *keys):
            counts = [one + other for one, other in zip(counts, of_shard, strict=True)]
        return counts

    def _on_all(self, model: Model, split: Split, stage: str, method: str, *arguments: Any) -> list[Any]:
        """Embed the split and call a method of PullsFromPeers on every shard; return their answers."""
        self.embed(model, [split.name])
        left, right = self.parts[split.name, "left"], self.parts[split.name, "right"]
        ring = Ring(self.shards, left, right, self.sizes(left), self.search.block)
        streams = [
            getattr(shard, method).options(num_returns="streaming").remote(model, ring, *arguments)
            for shard in self.shards
        ]
        answers, done = [None] * len(streams), 0
        for number, word in round_robin([_numbered(number, stream) for number, stream in enumerate(streams)]):
            if isinstance(word, int):
                done += word
                self.watch(stage, done // len(streams), sum(ring.sizes))
            else:
                answers[number] = word
        return answers

    def sizes(self, part: str) -> tuple[int, ...]:
        """How many texts of a part each shard has."""
        if part not in self._sizes:
            self._sizes[part] = tuple(get_results([shard.size.remote(part) for shard in self.shards]))
        return self._sizes[part]

    def rows(self, part: str) -> list[Rows]:
        """The rows that each shard has of a part."""
        if part not in self._rows:
            self._rows[part] = get_results([shard.rows.remote(part) for shard in self.shards])
        return self._rows[part]

    def over_blocks(
        self, model: Model, split: Split, ask: Callable[[QueryBlock, Any], Any], stage: str, first_alone: bool = False
    ) -> Iterator[tuple[Any, list[Any]]]:
        """Embed the split, ask for every block of left texts, a few ahead of the answers, and give those in order.

        first_alone: nothing more is asked for before the first block's answer is taken, which bounds all others.
        """
        self.embed(model, [split.name])
        part, ahead = self.parts[split.name, "left"], 2 * len(self.shards) + 2
        total, done = sum(self.sizes(part)), 0
        waiting: deque[tuple[int, Any]] = deque()
        for place in self.places(part):
            block = self.shards[place.shard].block.remote(model, part, place.start, place.stop)
            waiting.append((len(place.rows), ask(place, block)))
            while len(waiting) > (0 if first_alone and not done else ahead):
                size, asked = waiting.popleft()
                done += size
                yield from _results_of(asked)
                self._tell(stage, split, size, done, total)
        while waiting:
            size, asked = waiting.popleft()
            done += size
            yield from _results_of(asked)
            self._tell(stage, split, size, done, total)

    def _tell(self, stage: str, split: Split, size: int, done: int, total: int) -> None:
        if stage == "search":
            PAIRS.inc(split.space.total * size / total)
        self.watch(stage, done, total)

    def places(self, part: str) -> Iterator[QueryBlock]:
        """The blocks of a part."""
        for shard, rows in enumerate(self.rows(part)):
            for start in range(0, len(rows), self.search.block):
                stop = min(start + self.search.block, len(rows))
                yield QueryBlock(shard, start, stop, rows[start:stop])


def _results_of(asked: tuple[Any, list[Any]] | None) -> Iterator[tuple[Any, list[Any]]]:
    if asked is not None:
        yield asked[0], get_results(asked[1])


def _numbered(number: int, stream: Any) -> Iterator[tuple[int, Any]]:
    """Yield the values of a streaming call with a number."""
    return ((number, value) for value in stream_results(stream))


def round_robin(streams: list[Iterator[Any]]) -> Iterator[Any]:
    """The values of several streams, one of each in turn, until all have ended."""
    while streams:
        for stream in list(streams):
            try:
                yield next(stream)
            except StopIteration:
                streams.remove(stream)
