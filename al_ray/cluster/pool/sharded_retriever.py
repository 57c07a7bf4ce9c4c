"""Search over shards, exact or by an index: the pairs of least cost, whatever the number of shards."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.cluster.pool.ring import MAX_UPDATES
from al_ray.cluster.pool.score_fit import uses_neighbours
from al_ray.cluster.pool.sharded_index import train_index
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.workers import get_results, put
from al_ray.core.candidates import HIGHEST, MARGIN, NO_CANDIDATES, BestCandidates, Candidates, Order
from al_ray.core.config.sections import SearchConfig
from al_ray.core.errors import BadOption
from al_ray.core.labels import Model
from al_ray.core.naming import option
from al_ray.core.pairs import NO_KEYS, Keys, PairSpace, Rows, is_in
from al_ray.core.task import Split, Task
from al_ray.metrics.error_examples import main_split
from al_ray.search.candidate_files import LeastRequest
from al_ray.search.candidate_ranks import first_of_left
from al_ray.search.faiss_index import is_plain
from al_ray.search.join.best_of_each import BestPartners, join_partners
from al_ray.search.join.least_pairs import JoinQuery
from al_ray.search.kmeans import shared_cells
from al_ray.search.knn_merge import KnnRequest
from al_ray.search.merge import merge_neighbors, recall

logger = logging.getLogger(__name__)

# Queries by which an index is measured.
RECALL_QUERIES = 256


def check_index_kind(config: SearchConfig, task: Task) -> None:
    """Raise BadOption for an index that cannot leave out the pairs that cannot match."""
    if task.rule is not None and config.index != "Flat":
        raise BadOption(
            f"{option('RunConfig.search.index', config.index)}: task {task.name!r} has pairs that cannot match "
            f"({task.rule.describe()}), which an index of this kind cannot leave out; give "
            "`RunConfig.search.index='Flat'`"
        )


def check_index_cells(config: RunConfig, task: Task) -> None:
    """Raise BadOption for an index with more cells than a split has right texts, where neighbours for scores are found.

    Before any label is paid for: otherwise a run that cannot be evaluated would have to be repeated.
    """
    cells = shared_cells(config.search.index)
    if not uses_neighbours(config.scoring, task):
        return
    for name in ("train", *config.evaluation.splits):
        texts = len(task.splits[name].space.right) if name in task.splits else cells
        if cells > texts:
            raise BadOption(
                f"{option('RunConfig.search.index', config.search.index)} has more cells than the {texts:,} right "
                f"texts of {name}, whose neighbours `RunConfig.scoring.neighbourhood` needs; try Flat"
            )


def check_example_cells(config: RunConfig, task: Task) -> None:
    """Raise BadOption for an index with more cells than the split has right texts of which error examples are kept.

    Before any label is paid for: examples are searched at the end of a round, when the index can no longer change.
    """
    cells, split = shared_cells(config.search.index), main_split(config.evaluation.splits)
    if config.search.kind == "exact" or not config.evaluation.examples or split is None:
        return
    texts = len(task.split(split).space.right)
    if cells > texts:
        raise BadOption(
            f"{option('RunConfig.search.index', config.search.index)} has more cells than the {texts:,} right texts of "
            f"{split}, among which error examples are searched; give fewer cells or Flat, or "
            "`RunConfig.evaluation.examples=0`"
        )


def warn_of_index(config: SearchConfig, halves: bool, shards: int, scored: bool = False) -> None:
    """Warn of an index whose answers depend on how the texts are dealt out. halves: vectors are of 16 bits.

    scored: the index finds the neighbours of left texts, too, whatever the kind of search.
    The graph of HNSW is a shard's own, and codes blur what is near a cut.
    """
    graph = "HNSW" in config.index or "NSG" in config.index
    if shards > 1 and (config.kind == "knn" or scored) and (graph or not is_plain(config.index, halves)):
        logger.warning(
            "%s: which pairs are found depends on the number of shards; not with Flat and IVFx,Flat, nor with SQfp16 "
            "and IVFx,SQfp16 of `RunConfig.vectors='fp16'`",
            option("RunConfig.search.index", config.index),
        )


def _keys_of(space: PairSpace) -> PairSpace:
    """Return a space that numbers pairs as another one does, without its rows."""
    return PairSpace(NO_KEYS, NO_KEYS, space.width, space.symmetric)


@dataclass(frozen=True)
class Query:
    """Asks for the `count` pairs of least cost under `order`, but for those of the sorted keys `excluded`.

    limit: pairs that cost more are not wanted.
    """

    order: Order
    count: int
    excluded: Keys
    limit: float = float("inf")


def _merged(query: Query, parts: Iterable[Candidates]) -> Candidates:
    """Return the least of what all shards found, within the limit of the query."""
    best = BestCandidates(query.order, query.count)
    best.add(*parts)
    found = best.result()
    within = int(np.searchsorted(query.order.cost(found.cosines), query.limit, side="right"))
    return Candidates(found.keys[:within], found.cosines[:within])


class PoolSearch:
    """The Retriever of the loop, on one split of a pool."""

    def __init__(
        self,
        pool: ShardedPool,
        split: Split,
        on_recall: Callable[[float], None] | None = None,
        config: SearchConfig | None = None,
    ) -> None:
        """Search a split as `config` says, or else as the pool's own options say.

        on_recall: called after each search by an index with the share of the true nearest neighbours that it finds.
        """
        self.pool, self.split, self.config = pool, split, config or pool.search
        self.right = pool.parts[split.name, "right"]
        self.on_recall = on_recall

    def least(self, model: Model, order: Order, count: int, labelled: Keys) -> Candidates:
        """The `count` pairs of least cost, without the sorted `labelled`: of each left text's nearest (knn), or of all.

        Shards return float64 products, so that ties are broken by key in the same way wherever answers are merged.
        """
        query = Query(order, count, labelled)
        if model.matcher is None or np.isinf(order.centre):
            return self.least_of_each(model, [query])[0]
        # Pairs of one left text say much the same of the boundary: one of each, until there are too few.
        found = self._of_candidates(model, query, spread=True)
        if len(found) < count:
            known = np.sort(np.concatenate([labelled, found.keys]))
            found = found.beside(self._of_candidates(model, Query(order, count - len(found), known), spread=False))
        return found

    def least_of_each(self, model: Model, queries: Sequence[Query]) -> list[Candidates]:
        """For each query what `least` returns, by one search for all."""
        wanted = [query for query in queries if query.count]
        if not wanted:
            return [NO_CANDIDATES for _ in queries]
        if model.matcher is not None:
            return [self._of_candidates(model, query, spread=False) for query in queries]
        excluded = [put(query.excluded) for query in wanted]
        search = self._of_all if self.config.kind == "exact" else self._of_nearest
        parts = zip(*search(model, wanted, excluded), strict=True)
        return [_merged(query, next(parts)) if query.count else NO_CANDIDATES for query in queries]

    def find_near(self, model: Model, neighbours: int) -> None:
        """Find the pairs of every left text with its nearest right texts; their keys stay on the shards."""
        space = self.split.space
        request = KnnRequest(_keys_of(space), self.pool.task.symmetric, neighbours, HIGHEST, space.total)
        arguments = put(request), (self._train_index(model),)
        self.pool.on_all(model, self.split, "search", "find_near", *arguments, whole=len(space.left))

    def best_of_each(self, model: Model, excluded: Keys) -> tuple[BestPartners, BestPartners]:
        """The best right text of every left text and the best left text of every right one, among all pairs.

        With a matcher, among the candidates.

        excluded: sorted keys of pairs that are no partners. In a symmetric task both results are the same.
        """
        task = self.pool.task
        where = _keys_of(self.split.space), len(task.left)
        method, arguments, whole = "best_of_each", (*where, put(excluded)), None
        if model.matcher is not None:
            method, arguments = "best_of_candidates", (self.pool.candidates_of(model, self.split), put(excluded))
            whole = MAX_UPDATES * len(self.pool.shards)
        parts = self.pool.on_all(model, self.split, "search", method, *arguments, whole=whole)
        left = join_partners([part[0] for part in parts], len(task.left))
        if task.symmetric:
            return left, left
        return left, join_partners([part[1] for part in parts], len(task.right))

    def count_partners(self, model: Model, rows: Rows, score: float, excluded: Keys) -> Rows:
        """(n,) sorted left rows -> (n,) how many pairs with a right text have at least a score, by exact products.

        excluded: sorted keys of pairs that do not count. In a symmetric task all other texts are the right ones.
        """
        space = _keys_of(self.split.space)
        pairs = space.pairs(excluded)
        near = is_in(pairs[:, 0], rows) | (is_in(pairs[:, 1], rows) & space.symmetric)
        queries = put(self.pool.left_block(model, self.split, rows))
        arguments = model, self.right, queries, score, space, put(excluded[near])
        counts = get_results([shard.count_partners.remote(*arguments) for shard in self.pool.shards])
        return np.sum(counts, axis=0)

    def _of_candidates(self, model: Model, query: Query, spread: bool) -> Candidates:
        """Return the least among the candidates that the matcher of a model ranks; with `spread` one of each left text.

        A shard has its own best of each left text, and the best of all is among these.
        """
        own = self.pool.candidates_of(model, self.split)
        request, excluded = LeastRequest(query.order, query.count, spread), put(query.excluded)
        whole = MAX_UPDATES * len(self.pool.shards)
        method = "least_of_candidates"
        parts = self.pool.on_all(model, self.split, "search", method, request, own, excluded, whole=whole)
        if spread:
            every = NO_CANDIDATES.joined(*parts)
            parts = [first_of_left(every, query.order, self.split.space.width)]
        return _merged(query, parts)

    def _of_all(self, model: Model, queries: Sequence[Query], excluded: list[Any]) -> list[list[Candidates]]:
        """What each shard finds for each query among all pairs. excluded: references of sorted keys for each query."""
        width, symmetric, ordered = self.split.space.width, self.pool.task.symmetric, self.config.ordered_pairs
        joins = [JoinQuery(query.order, query.count, width, symmetric, ordered, query.limit) for query in queries]
        return self.pool.on_all(model, self.split, "search", "least_of_all", joins, *excluded)

    def _of_nearest(self, model: Model, queries: Sequence[Query], excluded: list[Any]) -> list[list[Candidates]]:
        """The same among the pairs of each left text with its nearest."""
        space, symmetric = self.split.space, self.pool.task.symmetric
        if self.config.ordered_pairs:
            space = PairSpace(space.left, space.right, space.width, symmetric=False)
        keys, neighbours = _keys_of(space), self.config.neighbours
        requests = [KnnRequest(keys, symmetric, neighbours, query.order, query.count) for query in queries]
        trained = self._train_index(model)
        arguments = put(requests), (trained,), *excluded
        parts = self.pool.on_all(model, self.split, "search", "least_of_nearest", *arguments, whole=len(space.left))
        if self.on_recall is not None:
            self.on_recall(1.0 if self.config.index == "Flat" else self._recall(model, trained))
        return parts

    def _train_index(self, model: Model) -> Any:
        """What all shards' indexes are made from; None when nothing is."""
        self.pool.embed(model, [self.split.name])
        return train_index(self.pool.shards, self.pool.search.index, model, self.right, self.split.space.right)

    def _recall(self, model: Model, trained: Any) -> float:
        """The share of the truly nearest that the index finds, on a sample of queries; a warning below the floor."""
        shards, left = self.pool.shards, self.pool.parts[self.split.name, "left"]
        rows = self.split.space.left
        asked = put(rows[:: max(1, len(rows) // RECALL_QUERIES)][:RECALL_QUERIES])
        query = shards[0].join.remote(*[shard.vectors_of.remote(model, left, asked) for shard in shards])
        count = self.config.neighbours + self.pool.task.symmetric
        found = get_results([shard.nearest.remote(model, self.right, query, count, trained) for shard in shards])
        truth = get_results([shard.exact_nearest.remote(model, self.right, query, count) for shard in shards])
        share = recall(merge_neighbors(found, count, "ip")[0], merge_neighbors(truth, count, "ip")[0], 2 * MARGIN)
        if share < self.config.least_recall:
            logger.warning(
                "the index %s finds %.3f of the nearest, less than %s (`RunConfig.search.least_recall`): raise "
                "`search.nprobe`",
                self.config.index,
                share,
                self.config.least_recall,
            )
        return share
