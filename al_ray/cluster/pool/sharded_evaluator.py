"""The evaluator over shards: average precision by counts, of every pair or of a weighted sample."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.cluster.pool.sharded_pool import ShardedPool, StoredStratum
from al_ray.cluster.pool.sharded_retriever import PoolSearch, Query
from al_ray.cluster.pool.sharded_strata import load_strata, store_evaluation_set
from al_ray.core.candidates import HIGHEST, Order
from al_ray.core.labels import Model
from al_ray.core.pairs import NO_KEYS
from al_ray.core.rng import generator
from al_ray.core.task import Split, Task
from al_ray.metrics.average_precision import StratumSummary
from al_ray.metrics.error_examples import Examples, collect_examples
from al_ray.metrics.estimator import PositiveScores, build_evaluation, request_counts
from al_ray.metrics.evaluation import Evaluation
from al_ray.metrics.strata import EvaluationSet
from al_ray.runs.evaluation_sets import EvaluationSets, StoredSet
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.uri import storage_path


class PoolEvaluator:
    """The Evaluator of the loop: counts small pools, estimates large ones from an evaluation set."""

    def __init__(
        self,
        pool: ShardedPool,
        task: Task,
        run: RunConfig,
        shelf: EvaluationSets,
        sets: Mapping[str, StoredSet] = MappingProxyType({}),
    ) -> None:
        """Evaluate on evaluation sets that are made when first needed. shelf: where they are kept.

        sets: evaluation sets by split, used instead of those on the shelf.
        """
        self.pool, self.task, self.run, self.shelf = pool, task, run, shelf
        self.config = run.evaluation
        self.sets = sets
        self._stored = dict[str, list[StoredStratum]]()

    def evaluate(self, model: Model, split: str, compared: bool = False) -> Evaluation:
        """Average precision and the rest on a split; compared: with what a difference of two runs needs."""
        found = self.task.split(split)
        scores = self.pool.scores(model, found, found.positives)
        request = request_counts(found, scores, compared)
        if self.config.counts_all(found.space.total):
            total = found.space.total - len(found.positives)
            extents = (StratumSummary("all", total, total),)
            negatives = [self.pool.count_negatives(model, found, request)]
        else:
            strata = self._strata(found)
            extents = tuple(stratum.summary for stratum in strata)
            negatives = self.pool.count_sampled_negatives(model, found, strata, request)
        positives = PositiveScores(scores, None if model.scorer is None else model.scorer.logit(scores))
        rng = generator(self.run.seed, f"interval-{split}")
        return build_evaluation(request, found, positives, extents, negatives, rng)

    def examples(self, model: Model, split: str) -> Examples:
        """The pairs of a split that people want to look at, found by the run's own kind of search."""
        assert model.scorer is not None
        found = self.task.split(split)
        # In a symmetric task (a, b) and (b, a) are one example, even where both are labelled.
        config = replace(self.pool.search, ordered_pairs=False)
        search, count = PoolSearch(self.pool, found, config=config), self.config.examples
        uncertain = Query(Order(model.scorer.boundary), count, NO_KEYS)
        highest, nearest = search.least_of_each(model, [Query(HIGHEST, count, found.positive_keys), uncertain])
        return collect_examples(found, model.scorer, self.pool.scores(model, found, found.positives), highest, nearest)

    def make_sets(self, splits: Iterable[str]) -> None:
        """Make the evaluation sets of those splits that are estimated."""
        for split in map(self.task.split, splits):
            if not self.config.counts_all(split.space.total):
                self._strata(split)

    def stored_set(self, split: Split) -> StoredSet:
        """Where the evaluation set of a split is kept; the shards make it if it is not on the shelf."""
        if split.name in self.sets:
            return self.sets[split.name]
        made_from = self._made_from(split)
        stored = self.shelf.find(made_from)
        if stored is None:
            place = self.shelf.new_place(made_from)
            search = PoolSearch(self.pool, split)
            store_evaluation_set(search, self.pool.untrained(), self.config, place, made_from)
            stored = self.shelf.find(made_from)
            assert stored is not None
        return stored

    def evaluation_set(self, split: Split) -> EvaluationSet:
        """The evaluation set of a split with its pairs, which may be 160 MB: for those that need them in the driver."""
        return self.stored_set(split).read_for(split)

    def summaries(self, split: Split) -> tuple[StratumSummary, ...]:
        """The sizes of the strata of a split's evaluation set, which a shard has read and checked."""
        return tuple(stratum.summary for stratum in self._strata(split))

    def _strata(self, split: Split) -> list[StoredStratum]:
        """The strata of a split's evaluation set. The shards can read the pairs, and the driver has no copy."""
        if split.name not in self._stored:
            self._stored[split.name] = load_strata(self.pool, self.stored_set(split), split)
        return self._stored[split.name]

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
            # Earlier versions drew by a generator: their sets are others.
            "drawn": "by hash",
        }


def make_evaluator(
    config: RunConfig, journal: RunFolder, pool: ShardedPool, sets: Mapping[str, StoredSet] = MappingProxyType({})
) -> PoolEvaluator:
    """Make the evaluator of a run. It reads evaluation sets of the task, and keeps those that it makes in the run."""
    shelf = EvaluationSets([storage_path(config.task), journal.path])
    return PoolEvaluator(pool, journal.task, config, shelf, sets)
