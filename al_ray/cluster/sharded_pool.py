"""The pool over shards: blocks of left texts travel, right texts stay; the driver sees counts and the best pairs."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray

from al_ray.cluster.actors import PAIRS, get_results, stream_results
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
        total, done = sum(len(rows) for rows in self.rows(part)), 0
        streams = [shard.embed.options(num_returns="streaming").remote(model, part) for shard in self.shards]
        for count in round_robin([stream_results(stream) for stream in streams]):
            done += count
            self.watch("embed", done, total)

    def cosines(self, model: Model, split: Split, pairs: Pairs) -> Floats:
        """(n, 2) pairs of a split -> (n,) cosines in float64, each a sum in one fixed order."""
        right = self.parts[split.name, "right"]
        cosines = np.full(len(pairs), np.nan)
        order = np.argsort(pairs[:, 0], kind="stable")
        sorted_left = pairs[order, 0]

        def ask(place: QueryBlock, block: Any) -> tuple[Rows, list[Any]] | None:
            begin = np.searchsorted(sorted_left, place.rows)
            end = np.searchsorted(sorted_left, place.rows, side="right")
            here = order[np.concatenate([np.arange(b, e) for b, e in zip(begin, end, strict=True)])]
            if not len(here):
                return None
            asked = ray.put(pairs[here])
            return here, [shard.cosines.remote(model, right, block, asked) for shard in self.shards]

        for here, answers in self.over_blocks(model, split, ask, "score"):
            for answer in answers:
                own = ~np.isnan(answer)
                cosines[here[own]] = answer[own]
        return cosines

    def count_negatives(self, model: Model, split: Split, request: CountRequest) -> NegativeCounts:
        """Count every negative of a split."""
        right, sent = self.parts[split.name, "right"], ray.put(request)

        def ask(place: QueryBlock, block: Any) -> tuple[None, list[Any]]:
            hidden = np.isin(split.positives, place.rows)
            hidden = split.positives[hidden.any(axis=1) if self.task.symmetric else hidden[:, 0]]
            return None, [shard.count_negatives.remote(model, right, block, hidden, sent) for shard in self.shards]

        counts = NegativeCounts.zero(request)
        for _, answers in self.over_blocks(model, split, ask, "count"):
            counts = sum(answers, counts)
        return counts

    def count_sampled_negatives(
        self, model: Model, split: Split, strata: Sequence[Stratum], request: CountRequest
    ) -> list[NegativeCounts]:
        """Count the sampled negatives of each stratum: a shard answers for the pairs whose right text it has."""
        right, sent = self.parts[split.name, "right"], ray.put(request)
        keys = [ray.put(stratum.keys) for stratum in strata]
        weights = SampleWeights(split.space.width, tuple(stratum.weight for stratum in strata))

        def ask(place: QueryBlock, block: Any) -> tuple[None, list[Any]]:
            return None, [
                shard.count_sampled_negatives.remote(model, right, block, sent, weights, *keys) for shard in self.shards
            ]

        counts = [NegativeCounts.zero(request) for _ in strata]
        for _, answers in self.over_blocks(model, split, ask, "score"):
            for of_strata in answers:
                counts = [one + other for one, other in zip(counts, of_strata, strict=True)]
        return counts

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
        total, done = sum(len(rows) for rows in self.rows(part)), 0
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


def round_robin(streams: list[Iterator[int]]) -> Iterator[int]:
    """The values of several streams, one of each in turn, until all have ended."""
    while streams:
        for stream in list(streams):
            try:
                yield next(stream)
            except StopIteration:
                streams.remove(stream)
