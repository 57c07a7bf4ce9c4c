"""The pool over shards: blocks of left texts travel, right texts stay; the driver sees counts and the best pairs."""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray

from al_ray.cluster.session import gathered, streamed
from al_ray.core.config import EvaluationConfig, SearchConfig, generator
from al_ray.core.evalset import EvaluationSet, near_and_random
from al_ray.core.metrics import (
    Counts,
    Evaluation,
    Extent,
    Reliability,
    counts_above,
    counts_of,
    evaluation,
    reliability,
    thresholds_of,
)
from al_ray.core.pairs import NO_KEYS, Keys, Pairs, PairSpace, Rows, distinct
from al_ray.core.records import Model
from al_ray.core.scoring import Floats
from al_ray.core.strategy import HIGHEST, NOTHING, Candidates, Order
from al_ray.core.task import Split, Task
from al_ray.model.join import Wanted, hosts, merged
from al_ray.model.pool import Request, Tally, Visit

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
            for count in _by_turns([streamed(stream) for stream in streams]):
                done += count
                self.watch("embed", done, total)

    def least(self, model: Model, split: Split, order: Order, count: int, labelled: Keys) -> Candidates:
        """The `count` pairs of least cost, without the sorted `labelled`: of each left text's nearest (knn),
        or of all pairs (exact).

        Cosines are float64 products from the shards on, so that ties by key mean the same whoever merges.
        """
        if not count:
            return NOTHING
        if self.search.kind == "exact":
            return self._least_of_all(model, split, order, count, labelled)
        space = split.space
        if self.search.ordered_pairs:
            space = PairSpace(space.left, space.right, space.width, symmetric=False)
        request = Request(space, self.task.symmetric, self.search.neighbours, order, count)
        found = NOTHING
        for part in self._nearest(model, split, request, labelled):
            found = found.joined(part).least(order, count)
        return found

    def _least_of_all(self, model: Model, split: Split, order: Order, count: int, labelled: Keys) -> Candidates:
        """Blocks of left texts visit blocks of right texts, each two once; what was found bounds what is sent.

        The driver holds `count` pairs and what a few visits bring. A visit that knows an old bound brings more, not
        others, so neither the order of answers nor a restart changes anything.
        """
        symmetric, ordered = self.task.symmetric, self.search.ordered_pairs
        wanted = Wanted(order, count, split.space.width, symmetric, ordered)
        known, right = ray.put(labelled), self.parts[split.name, "right"]
        places = list(self._places(right))
        numbers = itertools.count()
        found = [NOTHING]

        def ask(place: Place, block: Any) -> tuple[None, list[Any]]:
            number = next(numbers)
            met = hosts(number, len(places)).tolist() if wanted.unordered else range(len(places))
            of_shard: dict[int, list[tuple[int, int]]] = {}
            for host in met:
                of_shard.setdefault(places[host].shard, []).append((places[host].start, places[host].stop))
            full = len(found[0]) == count
            bound = float(order.cost(found[0].cosines[-1:])[0]) if full else float("inf")
            return None, [
                self.shards[shard].least.remote(model, Visit(right, wanted, tuple(blocks), bound), block, known)
                for shard, blocks in of_shard.items()
            ]

        for _, answers in self._over_blocks(model, split, ask, "search"):
            found[0] = merged(wanted, [found[0], *answers])
        return found[0]

    def near(self, model: Model, split: Split, neighbours: int) -> Keys:
        """Sorted keys of the pairs of every left text of a split with its nearest right texts."""
        request = Request(split.space, self.task.symmetric, neighbours, HIGHEST, split.space.total)
        found = [part.keys for part in self._nearest(model, split, request, NO_KEYS)]
        return distinct(np.concatenate([NO_KEYS, *found]))

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

        for here, answers in self._over_blocks(model, split, ask, "score"):
            for answer in answers:
                own = ~np.isnan(answer)
                cosines[here[own]] = answer[own]
        return cosines

    def count(self, model: Model, split: Split) -> tuple[Counts, list[Extent], Reliability | None]:
        """Every pair of a split, counted."""
        scores = self.cosines(model, split, split.positives)
        thresholds = thresholds_of(scores)
        right, wanted = self.parts[split.name, "right"], ray.put(thresholds)

        def ask(place: Place, block: Any) -> tuple[None, list[Any]]:
            hidden = np.isin(split.positives, place.rows)
            hidden = split.positives[hidden.any(axis=1) if self.task.symmetric else hidden[:, 0]]
            return None, [
                shard.tally.remote(model, right, block, hidden, wanted, self.task.symmetric) for shard in self.shards
            ]

        tallies: list[Tally] = [t for _, answers in self._over_blocks(model, split, ask, "count") for t in answers]
        above = sum((tally.above for tally in tallies), np.zeros(len(thresholds), dtype=np.int64))
        negatives = split.space.total - len(split.positives)
        summed = None
        if model.scorer is not None:
            p = model.scorer.probability(scores)
            summed = reliability(p, np.ones(len(p), dtype=np.uint8), 1.0)
            for tally in tallies:
                summed = summed if tally.reliability is None else summed + tally.reliability
        counts = Counts(thresholds, counts_above(thresholds, scores), above[None, :])
        return counts, [Extent("all", negatives, negatives)], summed

    def rows(self, part: str) -> list[Rows]:
        """The rows that each shard has of a part."""
        if part not in self._rows:
            self._rows[part] = gathered([shard.rows.remote(part) for shard in self.shards])
        return self._rows[part]

    def _nearest(self, model: Model, split: Split, request: Request, labelled: Keys) -> Iterator[Candidates]:
        """Candidates of each block of left texts."""
        right, known, wanted = self.parts[split.name, "right"], ray.put(labelled), ray.put(request)
        # One more where a text may find itself.
        neighbours = request.neighbours + self.task.symmetric

        def ask(place: Place, block: Any) -> tuple[None, list[Any]]:
            answers = [shard.nearest.remote(model, right, block, neighbours) for shard in self.shards]
            return None, [self.shards[place.shard].select.remote(wanted, block, known, *answers)]

        for _, (candidates,) in self._over_blocks(model, split, ask, "search"):
            yield candidates

    def _over_blocks(
        self, model: Model, split: Split, ask: Callable[[Place, Any], Any], stage: str
    ) -> Iterator[tuple[Any, list[Any]]]:
        """Ask for every block of left texts, a few ahead of the answers, and give those in order."""
        part, ahead = self.parts[split.name, "left"], 2 * len(self.shards) + 2
        total, done = sum(len(rows) for rows in self.rows(part)), 0
        waiting: deque[tuple[int, Any]] = deque()
        for place in self._places(part):
            block = self.shards[place.shard].block.remote(model, part, place.start, place.stop)
            waiting.append((len(place.rows), ask(place, block)))
            while len(waiting) > ahead:
                done += waiting[0][0]
                yield from _answered(waiting.popleft()[1])
                self.watch(stage, done, total)
        while waiting:
            done += waiting[0][0]
            yield from _answered(waiting.popleft()[1])
            self.watch(stage, done, total)

    def _places(self, part: str) -> Iterator[Place]:
        for shard, rows in enumerate(self.rows(part)):
            for start in range(0, len(rows), self.search.block):
                stop = min(start + self.search.block, len(rows))
                yield Place(shard, start, stop, rows[start:stop])


class PoolRetriever:
    """The Retriever of the loop: the training pool."""

    def __init__(self, pool: ShardedPool, split: Split) -> None:
        """The split to choose from."""
        self.pool, self.split = pool, split

    def least(self, model: Model, order: Order, count: int, labelled: Keys) -> Candidates:
        """See ShardedPool.least."""
        return self.pool.least(model, self.split, order, count, labelled)


class PoolEvaluator:
    """The Evaluator of the loop: counts small pools, estimates large ones from an evaluation set."""

    def __init__(self, pool: ShardedPool, task: Task, config: EvaluationConfig, seed: int) -> None:
        """No evaluation set is made before it is needed."""
        self.pool, self.task, self.config, self.seed = pool, task, config, seed
        self.sets: dict[str, EvaluationSet] = {}

    def exact(self, split: Split) -> bool:
        """Whether a split is counted: as told, or by its size."""
        small = split.space.total <= self.config.exact_pairs
        return small if self.config.mode == "auto" else self.config.mode == "exact"

    def evaluate(self, model: Model, split: str) -> Evaluation:
        """Average precision and the rest, counted or estimated."""
        found = self.task.split(split)
        rng = generator(self.seed, f"interval-{split}")
        if self.exact(found):
            counts, extents, summed = self.pool.count(model, found)
            return evaluation(split, counts, extents, summed, rng)
        evalset = self.evaluation_set(found)
        scores = [self.pool.cosines(model, found, found.space.pairs(evalset.positives))]
        scores += [self.pool.cosines(model, found, found.space.pairs(stratum.keys)) for stratum in evalset.strata]
        summed = None
        if model.scorer is not None:
            weights = [1.0, *(stratum.weight for stratum in evalset.strata)]
            for number, (part, weight) in enumerate(zip(scores, weights, strict=True)):
                labels = np.full(len(part), number == 0, dtype=np.uint8)
                here = reliability(model.scorer.probability(part), labels, weight)
                summed = here if summed is None else summed + here
        return evaluation(split, counts_of(scores[0], scores[1:]), evalset.extents, summed, rng)

    def make_sets(self, splits: Iterable[str]) -> None:
        """Make the evaluation sets of those splits that are estimated."""
        for split in map(self.task.split, splits):
            if not self.exact(split):
                self.evaluation_set(split)

    def evaluation_set(self, split: Split) -> EvaluationSet:
        """The evaluation set of a split, made at first need and the same ever after."""
        if split.name not in self.sets:
            near = self.pool.near(self.pool.untrained(), split, self.config.near_neighbours)
            rng = generator(self.seed, f"evaluation-set-{split.name}")
            self.sets[split.name] = near_and_random(split, near, self.config.random_pairs, rng)
        return self.sets[split.name]


def _answered(asked: tuple[Any, list[Any]] | None) -> Iterator[tuple[Any, list[Any]]]:
    if asked is not None:
        yield asked[0], gathered(asked[1])


def _by_turns(streams: list[Iterator[int]]) -> Iterator[int]:
    """The values of several streams, one of each in turn, until all have ended."""
    while streams:
        for stream in list(streams):
            try:
                yield next(stream)
            except StopIteration:
                streams.remove(stream)
