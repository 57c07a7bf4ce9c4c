"""The evaluator over shards: average precision by counts, of every pair or of a weighted sample."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from al_ray.cluster.pool import ShardedPool
from al_ray.cluster.search import PoolSearch
from al_ray.core.config import RunConfig, generator
from al_ray.core.estimate import Positives, asked_of, concluded
from al_ray.core.evalset import EvaluationSet, banded, stratified
from al_ray.core.evaluation import Evaluation
from al_ray.core.examples import Examples, chosen
from al_ray.core.metrics import Extent
from al_ray.core.pairs import NO_KEYS
from al_ray.core.records import Model
from al_ray.core.strategy import HIGHEST, order_of
from al_ray.core.task import Split, Task
from al_ray.data.evaluation_sets import EvaluationSets


class PoolEvaluator:
    """The Evaluator of the loop: counts small pools, estimates large ones from an evaluation set."""

    def __init__(self, pool: ShardedPool, task: Task, run: RunConfig, shelf: EvaluationSets) -> None:
        """No evaluation set is made before it is needed. shelf: where they are kept."""
        self.pool, self.task, self.run, self.shelf = pool, task, run, shelf
        self.config = run.evaluation
        self.sets: dict[str, EvaluationSet] = {}

    def exact(self, split: Split) -> bool:
        """Whether a split is counted: as told, or by its size."""
        small = split.space.total <= self.config.exact_pairs
        return small if self.config.mode == "auto" else self.config.mode == "exact"

    def evaluate(self, model: Model, split: str, compared: bool = False) -> Evaluation:
        """Average precision and the rest on a split; compared: with what a difference of two runs needs."""
        found = self.task.split(split)
        scores = self.pool.cosines(model, found, found.positives)
        asked = asked_of(found, scores, compared)
        if self.exact(found):
            negatives = found.space.total - len(found.positives)
            tallies, extents = [self.pool.count(model, found, asked)], (Extent("all", negatives, negatives),)
        else:
            evalset = self.evaluation_set(found)
            tallies, extents = self.pool.sample(model, found, evalset.strata, asked), evalset.extents
        positives = Positives(scores, None if model.scorer is None else model.scorer.logit(scores))
        return concluded(asked, found, positives, extents, tallies, generator(self.run.seed, f"interval-{split}"))

    def examples(self, model: Model, split: str) -> Examples:
        """The pairs of a split that people want to look at, found by the run's own kind of search."""
        assert model.scorer is not None
        found = self.task.split(split)
        search, count = PoolSearch(self.pool, found), self.config.examples
        # In a symmetric task (a, b) and (b, a) are one example, even where both are bought.
        search.config = replace(search.config, ordered_pairs=False)
        highest = search.least(model, HIGHEST, count, found.positive_keys)
        nearest = search.least(model, order_of("uncertainty", model), count, NO_KEYS)
        return chosen(found, model.scorer, self.pool.cosines(model, found, found.positives), (highest, nearest))

    def make_sets(self, splits: Iterable[str]) -> None:
        """Make the evaluation sets of those splits that are estimated."""
        for split in map(self.task.split, splits):
            if not self.exact(split):
                self.evaluation_set(split)

    def evaluation_set(self, split: Split) -> EvaluationSet:
        """The evaluation set of a split, made at first need and kept."""
        if split.name not in self.sets:
            made_from = self._made_from(split)
            kept = self.shelf.read(split, made_from)
            if kept is None:
                kept = self._made(split)
                self.shelf.write(kept, made_from)
            self.sets[split.name] = kept
        return self.sets[split.name]

    def _made(self, split: Split) -> EvaluationSet:
        asked, untrained = self.config, self.pool.untrained()
        self.pool.embed(untrained, [split.name])
        near = PoolSearch(self.pool, split).near(untrained, asked.near_neighbours)
        cosines = self.pool.cosines(untrained, split, split.space.pairs(near)) if asked.bands else np.empty(0)
        rng = generator(asked.seed, f"evaluation-set-{split.name}")
        return stratified(split, banded(near, cosines, asked.bands), asked.near_pairs, asked.random_pairs, rng)

    def _made_from(self, split: Split) -> dict[str, Any]:
        """All that decides an evaluation set."""
        asked, search = self.config, self.pool.search
        return {
            "task": self.task.digest,
            "split": split.name,
            "encoder": self.pool.untrained().digest,
            "vectors": self.run.vectors,
            "index": [search.index, search.nprobe],
            "near_neighbours": asked.near_neighbours,
            "near_pairs": asked.near_pairs,
            "bands": list(asked.bands),
            "random_pairs": asked.random_pairs,
            "seed": asked.seed,
        }
