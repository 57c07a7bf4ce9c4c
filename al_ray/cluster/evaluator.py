"""The evaluator over shards: average precision by counts, of every pair or of a weighted sample."""

from collections.abc import Iterable

import numpy as np

from al_ray.cluster.pool import ShardedPool
from al_ray.cluster.search import PoolSearch
from al_ray.core.config import EvaluationConfig, generator
from al_ray.core.evalset import EvaluationSet, near_and_random
from al_ray.core.metrics import Evaluation, counts_of, evaluation, reliability
from al_ray.core.records import Model
from al_ray.core.task import Split, Task


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
            near = PoolSearch(self.pool, split).near(self.pool.untrained(), self.config.near_neighbours)
            rng = generator(self.seed, f"evaluation-set-{split.name}")
            self.sets[split.name] = near_and_random(split, near, self.config.random_pairs, rng)
        return self.sets[split.name]
