"""The actor of a shard, which works through the whole pool by itself.

A stage is one call to each shard, which asks its peers for what it needs and returns one value: so what the driver does
and receives grows with the number of shards, not with the number of texts. There are three kinds of stages:

- All left texts visit a shard's right ones: it goes round the ring of shards, beginning with its own texts, and asks
  for the next blocks while it computes (exact search, counts).
- A shard's own left texts are asked about: all shards say which of their texts are the nearest, and the shard that has
  the left texts merges (search by neighbours, neighbors.py).
- Pairs are scored by the shard that has their right texts: it asks for their left texts alone (positives, samples).

A stage changes nothing that an answer depends on, so Ray may call it again on a shard that restarts. While a shard is
in a stage, it answers its peers in other threads, which are Ray's concurrency groups.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any

import numpy as np

from al_ray.cluster.pool.meetings import Meetings
from al_ray.cluster.pool.neighbors import means_of_nearest, with_neighbors, with_offsets
from al_ray.cluster.pool.ring import SAMPLE_BLOCKS, SERVE, Place, Ring, Stage, asked_ahead, is_due, texts_at_once
from al_ray.cluster.pool.shard_actor import ShardActor
from al_ray.cluster.watchdog import Steps
from al_ray.cluster.workers import wait_for
from al_ray.core.candidates import BestCandidates, Candidates
from al_ray.core.labels import Model
from al_ray.core.nearest_means import NearestMeans
from al_ray.core.pairs import Keys, Pairs, PairSpace, Rows, as_pairs, distinct, is_in
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Block, paired_scores
from al_ray.metrics.estimator import CountRequest, NegativeCounts, SampleCounter, SampleWeights, pieces_of
from al_ray.search.join.best_of_each import BestOfEach, BestPartners
from al_ray.search.join.exact_join import ExactJoin
from al_ray.search.join.least_pairs import JoinQuery
from al_ray.search.knn_merge import KnnRequest, Shortlist, select, shortlist
from al_ray.search.merge import join_blocks
from al_ray.search.paired_products import release
from al_ray.search.shard import PoolShard


class PullsFromPeers(ShardActor):
    """The stages of searches and counts."""

    def __init__(self, shard: PoolShard) -> None:
        """No search goes on."""
        super().__init__(shard)
        self._searching: tuple[int, ExactJoin] | None = None

    def count_pool(self, model: Model, ring: Ring, positives: Pairs, request: CountRequest) -> Stage[NegativeCounts]:
        """Count the pairs of all left texts with this shard's right ones, except the positives (p, 2)."""
        counts, symmetric = NegativeCounts.zero(request), request.bootstrap.symmetric

        def count(queries: Block, _: Place) -> None:
            nonlocal counts
            hidden = np.isin(positives, queries.rows)
            own = positives[hidden.any(axis=1) if symmetric else hidden[:, 0]]
            counts += self.shard.count_negatives(model, ring.right, queries, own, request)

        yield from self._with_visitors(model, ring, count)
        release()
        yield counts

    def count_sample(
        self, model: Model, ring: Ring, request: CountRequest, weights: SampleWeights, *samples: Keys
    ) -> Stage[list[NegativeCounts]]:
        """Count the sampled pairs of each stratum whose right text is this shard's. samples: sorted keys of each."""
        counter, done, steps = SampleCounter(request, weights, model.scorer), 0, Steps()
        # A shard asks for some blocks of left texts at a time.
        most = SAMPLE_BLOCKS * ring.block
        cut = partial(pieces_of, width=weights.width, pairs=most * len(ring.shards), texts=most)
        pieces = [(stratum, keys[here]) for stratum, keys in enumerate(samples) for here in cut(keys)]

        def ask(piece: tuple[int, Keys]) -> tuple[Keys, list[Any]]:
            own = self.ready(model, ring.right).keys_here(model, ring.right, piece[1], weights.width)
            return own, self._ask_for_left(model, ring, own // weights.width)

        for step, ((stratum, keys), (own, asked)) in enumerate(asked_ahead(pieces, ask)):
            queries = with_offsets(ring, join_blocks(wait_for(asked)))
            with steps:
                pairs = as_pairs(*np.divmod(own, weights.width))
                counter.add(stratum, own, self.score_sample(model, ring.right, queries, pairs, request.thresholds))
            done += len(keys)
            if is_due(step, len(pieces)):
                yield done
                done = 0
        release()
        yield counter.result()

    def score_pairs(self, model: Model, ring: Ring, pairs: Pairs) -> Stage[tuple[Rows, Floats]]:
        """(n, 2) pairs of the split -> places (k,) of those whose right text is here, and their scores (k,)."""
        held = self.texts_of(model, ring.right)
        own = np.flatnonzero(is_in(pairs[:, 1], held.rows))
        scores, of_shard = np.empty(len(own)), pairs[own]
        order = np.argsort(of_shard[:, 0], kind="stable")
        pieces = [order[start : start + ring.block] for start in range(0, len(order), ring.block)]
        done = 0
        for step, (here, asked) in enumerate(
            asked_ahead(pieces, lambda here: self._ask_for_left(model, ring, of_shard[here, 0]))
        ):
            queries = with_offsets(ring, join_blocks(wait_for(asked)))
            left, right = (np.searchsorted(x.rows, of_shard[here, side]) for side, x in enumerate((queries, held)))
            cosines = paired_scores(queries.vectors, left, held.vectors, right)
            scores[here] = queries.scores(left, of_shard[here, 1], cosines)
            done += len(here)
            if is_due(step, len(pieces)):
                yield done
                done = 0
        yield own, scores

    def least_of_all(
        self, model: Model, ring: Ring, queries: Sequence[JoinQuery], *labelled: Keys
    ) -> Stage[list[Candidates]]:
        """The least pairs of all left texts with this shard's right ones: at most `count` for each query, in order.

        labelled: sorted keys for each query. Where pairs are unordered, two blocks meet in one place
        (exact_join.hosts). Shards learn each other's bounds with the blocks: one that knows an old bound returns more
        pairs, not others.
        """
        ring = replace(ring, block=texts_at_once(self.spec.device, ring.block))
        # On a GPU products of 16 bits are quickest; scores near the cut are recomputed in float64 either way.
        join = ExactJoin(queries, labelled, self.spec.device, self.spec.device != "cpu", self.rule)
        self._searching = ring.stage, join
        meetings = Meetings(self.texts_of(model, ring.right), ring, self.spec.shard, join.unordered)
        try:
            yield from self._with_visitors(model, ring, meetings.work(join.add), meetings.needed)
        finally:
            # What it holds is memory.
            self._searching = None
        yield join.results()

    def best_of_each(
        self, model: Model, ring: Ring, space: PairSpace, texts: int, excluded: Keys
    ) -> Stage[tuple[BestPartners, BestPartners]]:
        """The best right text of every left text, among this shard's, and the best left text of these right texts."""
        held = self.texts_of(model, ring.right)
        search = BestOfEach(space, texts, excluded, self.spec.device, self.rule)
        meetings = Meetings(held, ring, self.spec.shard, space.symmetric)
        yield from self._with_visitors(model, ring, meetings.work(search.add), meetings.needed)
        yield search.results()

    def least_of_nearest(
        self, model: Model, ring: Ring, requests: Sequence[KnnRequest], trained: tuple[Any], *labelled: Keys
    ) -> Stage[list[Candidates]]:
        """The least pairs of this shard's left texts with the nearest of all right ones, for each request.

        The requests differ in order and count alone. labelled: sorted keys for each. trained: see `nearest`.
        """
        searches = [
            (request, BestCandidates(request.order, request.count), keys)
            for request, keys in zip(requests, labelled, strict=True)
        ]
        for near in with_neighbors(self, model, ring, requests[0], trained, right_offsets=ring.right_offsets):
            rescored, queries = list[tuple[Shortlist, list[Any]]](), with_offsets(ring, near.block)
            for request, best, keys in searches:
                offsets = queries.offsets, queries.right_offsets
                listed = shortlist(request, best.bound, queries.rows, keys, near.answers, *offsets)
                rescored.append((listed, ring.ask("cosines", SERVE, model, ring.right, near.reference, listed.pairs)))
            for (request, best, _), (listed, asked) in zip(searches, rescored, strict=True):
                best.add(select(request, listed, wait_for(asked)))
            if near.word is not None:
                yield near.word
        yield [best.result() for _, best, _ in searches]

    def means_of_nearest(
        self, model: Model, ring: Ring, request: KnnRequest, trained: tuple[Any]
    ) -> Stage[NearestMeans]:
        """The mean cosine of each of this shard's left texts with the nearest of all right ones. trained: as above."""
        yield from means_of_nearest(self, model, ring, request, trained)

    def score_sample(self, model: Model, part: str, queries: Block, pairs: Pairs, thresholds: Floats) -> Floats:
        """As PoolShard.score_sample."""
        return self.shard.score_sample(model, part, queries, pairs, thresholds)

    def block_and_bounds(
        self, model: Model, part: str, start: int, stop: int, stage: int
    ) -> tuple[Block, tuple[float, ...] | None]:
        """A block for a peer, and the bounds of this shard's search if it is in that stage."""
        searching = self._searching
        bounds = searching[1].bounds if searching is not None and searching[0] == stage else None
        return self.block(model, part, start, stop), bounds

    def _with_visitors(
        self,
        model: Model,
        ring: Ring,
        work: Callable[[Block, Place], None],
        needed: Callable[[Place], bool] = lambda _: True,
    ) -> Iterator[int]:
        """Do the work with each block of left texts that is needed; yield progress at most MAX_UPDATES times.

        A stream that Ray asks for again must be as long, so how many words it has depends on the ring alone.
        """
        places = ring.places("left", first=self.spec.shard)
        there, done = len(self.texts_of(model, ring.right).rows) > 0, 0
        visits = [there and needed(place) for place in places]
        blocks, steps = self._pull(model, ring, list(compress(places, visits))), Steps()
        for step, (place, visit) in enumerate(zip(places, visits, strict=True)):
            if visit:
                queries = with_offsets(ring, next(blocks))
                with steps:
                    work(queries, place)
            done += place.stop - place.start
            if is_due(step, len(places)):
                yield done
                done = 0

    def _pull(self, model: Model, ring: Ring, places: Sequence[Place]) -> Iterator[Block]:
        """Yield blocks of left texts, asking for a few ahead."""
        for _, asked in asked_ahead(places, partial(self._ask_for_block, model, ring)):
            yield self._take(asked)

    def _ask_for_block(self, model: Model, ring: Ring, place: Place) -> Any:
        """Return a block of this shard, or the reference of one of a peer's, with its bounds."""
        where = model, ring.left, place.start, place.stop
        if place.shard == self.spec.shard:
            return self.block(*where)
        return ring.ask_one(place.shard, "block_and_bounds", SERVE, *where, ring.stage)

    def _ask_for_left(self, model: Model, ring: Ring, rows: Rows) -> list[Any]:
        """Return the references of left texts, on all shards. rows: may repeat."""
        return ring.ask("vectors_of", SERVE, model, ring.left, distinct(rows))

    def _take(self, asked: Any) -> Block:
        if isinstance(asked, Block):
            return asked
        block, bounds = wait_for(asked)
        if self._searching is not None and bounds is not None:
            self._searching[1].tighten(bounds)
        return block
