"""The search over shards, of both kinds: the pairs of least cost, however many shards there are."""

import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import ray

from al_ray.cluster.pool import Place, ShardedPool
from al_ray.cluster.session import gathered
from al_ray.core.pairs import NO_KEYS, Keys, PairSpace, Rows, distinct
from al_ray.core.records import Model
from al_ray.core.scoring import Floats
from al_ray.core.strategy import HIGHEST, MARGIN, NOTHING, Candidates, Order
from al_ray.core.task import Split
from al_ray.model.join import Block, Wanted, hosts, merged
from al_ray.model.nearest import Request
from al_ray.model.pool import Visit

logger = logging.getLogger(__name__)

# Queries by which an index is measured.
ASKED = 256
# Their answers depend on how the texts are dealt out: HNSW's graph is a shard's own, and codes blur what is near a cut.
OF_A_SHARD = ("HNSW", "NSG", "PQ", "SQ", "LSH")


class PoolSearch:
    """The Retriever of the loop, on one split of a pool."""

    def __init__(self, pool: ShardedPool, split: Split, told: Callable[[float], None] | None = None) -> None:
        """What to search. told: hears, after each search by an index, what share of the truly nearest it finds."""
        self.pool, self.split, self.config = pool, split, pool.search
        self.right = pool.parts[split.name, "right"]
        self.told = told
        if len(pool.shards) > 1 and self.config.kind == "knn" and any(k in self.config.index for k in OF_A_SHARD):
            logger.warning(
                "--search.index %s: which pairs are found depends on the number of shards; Flat and IVFx,Flat do not",
                self.config.index,
            )

    def least(self, model: Model, order: Order, count: int, labelled: Keys) -> Candidates:
        """The `count` pairs of least cost, without the sorted `labelled`: of each left text's nearest (knn), or of all.

        Cosines are float64 products from the shards on, so that ties by key mean the same whoever merges.
        """
        if not count:
            return NOTHING
        if self.config.kind == "exact":
            return self._of_all(model, order, count, labelled)
        space = self.split.space
        if self.config.ordered_pairs:
            space = PairSpace(space.left, space.right, space.width, symmetric=False)
        request = Request(space, self.pool.task.symmetric, self.config.neighbours, order, count)
        found = NOTHING
        learnt = self._learnt(model)
        for part in self._nearest(model, request, labelled, learnt):
            found = found.joined(part).least(order, count)
        if self.told is not None:
            self.told(1.0 if self.config.index == "Flat" else self._recall(model, learnt))
        return found

    def near(self, model: Model, neighbours: int) -> Keys:
        """Sorted keys of the pairs of every left text with its nearest right texts."""
        space = self.split.space
        request = Request(space, self.pool.task.symmetric, neighbours, HIGHEST, space.total)
        found = [part.keys for part in self._nearest(model, request, NO_KEYS, self._learnt(model))]
        return distinct(np.concatenate([NO_KEYS, *found]))

    def _of_all(self, model: Model, order: Order, count: int, labelled: Keys) -> Candidates:
        """Blocks of left texts visit blocks of right texts, each two once; what was found bounds what is sent.

        The driver holds `count` pairs and what a few visits bring. A visit that knows an old bound brings more, not
        others, so neither the order of answers nor a restart changes anything.
        """
        shards, places = self.pool.shards, list(self.pool.places(self.right))
        wanted = Wanted(order, count, self.split.space.width, self.pool.task.symmetric, self.config.ordered_pairs)
        known, numbers, found = ray.put(labelled), itertools.count(), [NOTHING]

        def ask(place: Place, block: Any) -> tuple[None, list[Any]]:
            number = next(numbers)
            met = hosts(number, len(places)).tolist() if wanted.unordered else range(len(places))
            of_shard: dict[int, list[tuple[int, int]]] = {}
            for host in met:
                of_shard.setdefault(places[host].shard, []).append((places[host].start, places[host].stop))
            full = len(found[0]) == count
            bound = float(order.cost(found[0].cosines[-1:])[0]) if full else float("inf")
            return None, [
                shards[shard].least.remote(model, Visit(self.right, wanted, tuple(blocks), bound), block, known)
                for shard, blocks in of_shard.items()
            ]

        for _, answers in self.pool.over_blocks(model, self.split, ask, "search"):
            found[0] = merged(wanted, [found[0], *answers])
        return found[0]

    def _nearest(self, model: Model, request: Request, labelled: Keys, learnt: Any) -> Iterator[Candidates]:
        """Candidates of each block of left texts."""
        shards, known, wanted = self.pool.shards, ray.put(labelled), ray.put(request)
        # One more where a text may find itself.
        neighbours = request.neighbours + self.pool.task.symmetric

        def ask(place: Place, block: Any) -> tuple[None, list[Any]]:
            answers = [shard.nearest.remote(model, self.right, block, neighbours, learnt) for shard in shards]
            return None, [shards[place.shard].select.remote(wanted, block, known, *answers)]

        for _, (candidates,) in self.pool.over_blocks(model, self.split, ask, "search"):
            yield candidates

    def _learnt(self, model: Model) -> Any:
        """What all shards' indexes are made from, learnt once from evenly spaced texts; None when nothing is."""
        shards = self.pool.shards
        size = gathered(shards[0].sample_size.remote(model, self.right))
        if not size:
            return None
        rows = np.sort(np.concatenate(self.pool.rows(self.right)))
        rows = ray.put(rows[:: max(1, len(rows) // size)])
        sample = [shard.vectors_of.remote(model, self.right, rows) for shard in shards]
        # The driver keeps it: what a shard made is lost with its node.
        return ray.put(gathered(shards[0].trained_index.remote(*sample)))

    def _recall(self, model: Model, learnt: Any) -> float:
        """The share of the truly nearest that the index finds, on a sample of queries; a warning below the floor."""
        shards, left = self.pool.shards, self.pool.parts[self.split.name, "left"]
        rows = np.sort(np.concatenate(self.pool.rows(left)))
        asked = ray.put(rows[:: max(1, len(rows) // ASKED)][:ASKED])
        blocks: list[Block] = gathered([shard.vectors_of.remote(model, left, asked) for shard in shards])
        block = Block(np.concatenate([b.rows for b in blocks]), np.concatenate([b.vectors for b in blocks]))
        query, count = ray.put(block), self.config.neighbours + self.pool.task.symmetric
        found = gathered([shard.nearest.remote(model, self.right, query, count, learnt) for shard in shards])
        truth = gathered([shard.truly_nearest.remote(model, self.right, query, count) for shard in shards])
        share = recall(_best(found, count), _best(truth, count))
        if share < self.config.least_recall:
            logger.warning(
                "the index %s finds %.3f of the nearest, less than --search.least-recall %s: raise --search.nprobe",
                self.config.index,
                share,
                self.config.least_recall,
            )
        return share


def recall(found: Floats, truth: Floats) -> float:
    """(q, m) cosines found and (q, m) of the truly nearest, best first, -inf where there are fewer -> the share found.

    By cosine and not by text: of texts at one cosine any will do.
    """
    there = np.isfinite(truth)
    last = np.where(there, truth, np.inf).min(axis=1, initial=np.inf)
    hits = np.isfinite(found) & (found >= last[:, None] - MARGIN)
    return float(np.minimum(hits.sum(axis=1), there.sum(axis=1)).sum() / max(1, int(there.sum())))


def _best(answers: list[tuple[Floats, Rows]], count: int) -> Floats:
    """Every shard's (q, m) cosines -> (q, count) the highest of all."""
    return -np.sort(-np.concatenate([cosines for cosines, _ in answers], axis=1), axis=1)[:, :count]
