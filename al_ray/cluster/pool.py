"""The pool over shards: blocks of left texts travel, right texts stay; the driver sees counts and the best pairs."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray

from al_ray.cluster.actors import gathered, streamed
from al_ray.cluster.metrics import PAIRS
from al_ray.core.config import SearchConfig
from al_ray.core.estimate import Asked, Tally, nothing
from al_ray.core.evalset import Stratum
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.records import Model
from al_ray.core.scoring import Floats
from al_ray.core.task import Split, Task
from al_ray.model.count import Stands

Watch = Callable[[str, int, int], None]
"""Told of progress: a stage, how much of it is done, how much there is."""


@dataclass(frozen=True)
class Place:
    """A block of left texts: which shard has it, from which to which of its texts, and their rows."""

    shard: int
    start: int
    stop: int
    rows: Rows


class ShardedPool:
    """The splits of a task on shard actors. Answers do not depend on how many shards there are."""

    def __init__(
        self, shards: Sequence[Any], parts: dict[tuple[str, str], str], task: Task, search: SearchConfig, watch: Watch
    ) -> None:
        """parts: (split, side) -> the name of its rows in the pool folder (cluster/prepare.py)."""
        self.shards, self.parts, self.task, self.search, self.watch = list(shards), parts, task, search, watch
        self._rows: dict[str, list[Rows]] = {}
        self._untrained: Model | None = None

    def untrained(self) -> Model:
        """The pre-trained encoder, a model without scorer."""
        model = self._untrained or gathered(self.shards[0].untrained.remote())
        self._untrained = model
        return model

    def embed(self, model: Model, splits: Iterable[str]) -> None:
        """See to it that the shards hold the vectors of these splits."""
        for part in dict.fromkeys(self.parts[split, side] for split in splits for side in ("left", "right")):
            total = sum(len(rows) for rows in self.rows(part))
            streams = [shard.embed.options(num_returns="streaming").remote(model, part) for shard in self.shards]
            done = 0
            for count in by_turns([streamed(stream) for stream in streams]):
                done += count
                self.watch("embed", done, total)

    def cosines(self, model: Model, split: Split, pairs: Pairs) -> Floats:
        """(n, 2) pairs of a split -> (n,) cosines in float64, each a sum in one fixed order."""
        right = self.parts[split.name, "right"]
        cosines = np.full(len(pairs), np.nan)
        order = np.argsort(pairs[:, 0], kind="stable")
        sorted_left = pairs[order, 0]

        def ask(place: Place, block: Any) -> tuple[Rows, list[Any]] | None:
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

    def count(self, model: Model, split: Split, asked: Asked) -> Tally:
        """Every negative of a split, counted."""
        right, wanted = self.parts[split.name, "right"], ray.put(asked)

        def ask(place: Place, block: Any) -> tuple[None, list[Any]]:
            hidden = np.isin(split.positives, place.rows)
            hidden = split.positives[hidden.any(axis=1) if self.task.symmetric else hidden[:, 0]]
            return None, [shard.tally.remote(model, right, block, hidden, wanted) for shard in self.shards]

        summed = nothing(asked)
        for _, tallies in self.over_blocks(model, split, ask, "count"):
            summed = sum(tallies, summed)
        return summed

    def sample(self, model: Model, split: Split, strata: Sequence[Stratum], asked: Asked) -> list[Tally]:
        """The sampled negatives of each stratum, counted: a shard answers for the pairs whose right text it has."""
        right, wanted = self.parts[split.name, "right"], ray.put(asked)
        keys = [ray.put(stratum.keys) for stratum in strata]
        stands = Stands(split.space.width, tuple(stratum.weight for stratum in strata))

        def ask(place: Place, block: Any) -> tuple[None, list[Any]]:
            return None, [shard.sampled.remote(model, right, block, wanted, stands, *keys) for shard in self.shards]

        summed = [nothing(asked) for _ in strata]
        for _, answers in self.over_blocks(model, split, ask, "score"):
            for tallies in answers:
                summed = [one + other for one, other in zip(summed, tallies, strict=True)]
        return summed

    def rows(self, part: str) -> list[Rows]:
        """The rows that each shard has of a part."""
        if part not in self._rows:
            self._rows[part] = gathered([shard.rows.remote(part) for shard in self.shards])
        return self._rows[part]

    def over_blocks(
        self, model: Model, split: Split, ask: Callable[[Place, Any], Any], stage: str, first_alone: bool = False
    ) -> Iterator[tuple[Any, list[Any]]]:
        """Ask for every block of left texts, a few ahead of the answers, and give those in order.

        first_alone: nothing more is asked for before the first block's answer is taken, which bounds all others.
        """
        part, ahead = self.parts[split.name, "left"], 2 * len(self.shards) + 2
        total, done = sum(len(rows) for rows in self.rows(part)), 0
        waiting: deque[tuple[int, Any]] = deque()
        for place in self.places(part):
            block = self.shards[place.shard].block.remote(model, part, place.start, place.stop)
            waiting.append((len(place.rows), ask(place, block)))
            while len(waiting) > (0 if first_alone and not done else ahead):
                size, asked = waiting.popleft()
                done += size
                yield from _answered(asked)
                self._tell(stage, split, size, done, total)
        while waiting:
            size, asked = waiting.popleft()
            done += size
            yield from _answered(asked)
            self._tell(stage, split, size, done, total)

    def _tell(self, stage: str, split: Split, size: int, done: int, total: int) -> None:
        if stage == "search":
            PAIRS.inc(split.space.total * size / total)
        self.watch(stage, done, total)

    def places(self, part: str) -> Iterator[Place]:
        """The blocks of a part."""
        for shard, rows in enumerate(self.rows(part)):
            for start in range(0, len(rows), self.search.block):
                stop = min(start + self.search.block, len(rows))
                yield Place(shard, start, stop, rows[start:stop])


def _answered(asked: tuple[Any, list[Any]] | None) -> Iterator[tuple[Any, list[Any]]]:
    if asked is not None:
        yield asked[0], gathered(asked[1])


def by_turns(streams: list[Iterator[int]]) -> Iterator[int]:
    """The values of several streams, one of each in turn, until all have ended."""
    while streams:
        for stream in list(streams):
            try:
                yield next(stream)
            except StopIteration:
                streams.remove(stream)
