"""A shard's part in ranking candidates: it owns those whose right text it has, compares them and scores them by p.

With a matcher, what a shard says of a pair is its score of two stages (core/two_stage_score.py) in every stage: exact
counts, samples, positives, searches. So all that is computed from scores works with a matcher as it does with cosines.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from al_ray.cluster.candidates.finding import SIDES, FindsCandidates, Summaries
from al_ray.cluster.candidates.records import WAYS
from al_ray.cluster.pool.ring import MAX_UPDATES, SERVE, Ring, Stage
from al_ray.cluster.watchdog import watched
from al_ray.cluster.workers import add_to_counter, wait_for
from al_ray.core.candidates import Candidates
from al_ray.core.hashing import hash_keys
from al_ray.core.labels import Model
from al_ray.core.pairs import NO_KEYS, Keys, Pairs, Rows, distinct, is_in
from al_ray.core.scorer import Floats
from al_ray.core.two_stage_score import candidate_scores, placed_scores
from al_ray.core.vectors import Block
from al_ray.matcher.model_file import read_model
from al_ray.metrics.average_precision import Ints
from al_ray.metrics.estimator import CountRequest, NegativeCounts, SampleWeights, count_sample
from al_ray.search.candidate_files import (
    CHUNK,
    LeastRequest,
    OwnedCandidates,
    OwnRequest,
    finish,
    has_candidates,
    read_candidates,
    write_features,
    write_found,
)
from al_ray.search.candidate_ranks import (
    Features,
    first_of_left,
    score_without_labels,
)
from al_ray.search.join.best_of_each import BestPartners, PartnerTable
from al_ray.search.shard import PoolShard
from al_ray.search.shard_spec import ShardSpec
from al_ray.storage.uri import storage_path


class OwnsCandidates(FindsCandidates):
    """The actor of a shard of a run: the stages of candidates, beside all others.

    Its own streams have MAX_UPDATES items.
    """

    def __init__(self, shard: PoolShard) -> None:
        """Own nothing yet."""
        super().__init__(shard)
        self._owned = dict[str, OwnedCandidates]()
        # Scores of candidates by place, under one matcher.
        self._ranked_by, self._ranked = "", dict[str, Floats]()
        self._sampled_of: OwnRequest | None = None

    def has_candidates(self, request: OwnRequest) -> bool:
        """Return whether the candidates of this shard are stored."""
        return has_candidates(request.folder(self.spec))

    def own_candidates(self, model: Model, ring: Ring, request: OwnRequest) -> Stage[tuple[()] | None]:
        """Take over the candidates whose right text is here, compare and store them; None if a shard lost some.

        The stream has MAX_UPDATES items whatever happens: a call that Ray repeats must have as many.
        """
        folder = request.folder(self.spec)
        if has_candidates(folder):
            for word in (1,) * MAX_UPDATES:
                yield word
            yield ()
            return
        parts = wait_for(ring.ask("found_for", SERVE, self.spec.shard, request.symmetric))
        if any(part is None for part in parts):
            for word in (1,) * MAX_UPDATES:
                yield word
            yield None
            return
        found = [distinct(NO_KEYS, *(of_shard[way] for of_shard, _ in parts)) for way in range(len(WAYS))]
        keys = distinct(NO_KEYS, *found)
        ways = np.zeros(len(keys), dtype=np.uint8)
        for bit, of_way in enumerate(found):
            ways |= is_in(keys, of_way).astype(np.uint8) << bit
        left, right = _tables([of_shard for _, of_shard in parts], request)
        cosines = self._cosines_of(model, ring, keys, request)
        write_found(folder, {"keys": keys, "cosines": cosines, "ways": ways, "left": left, "right": right})
        chunks, done = range(-(-len(keys) // CHUNK)), 0
        for number in watched(iter(chunks)):
            here = slice(number * CHUNK, (number + 1) * CHUNK)
            write_features(folder, number, self._compare(keys[here], cosines[here], left, right, request))
            for _ in range(done, MAX_UPDATES * (number + 1) // len(chunks)):
                yield 1
            done = MAX_UPDATES * (number + 1) // len(chunks)
        finish(folder, self.records(request.reference).names)
        for _ in range(done, MAX_UPDATES):
            yield 1
        yield ()

    def least_of_candidates(
        self, model: Model, ring: Ring, request: LeastRequest, own: OwnRequest, excluded: Keys
    ) -> Stage[Candidates]:
        """Return the least of this shard's candidates; with `spread` of each left text only the one of least cost."""
        owned = self._candidates(own)
        scores = self._scores(model, own) if model.matcher is not None else self._without_labels(own)
        free = np.flatnonzero(~is_in(owned.keys, excluded))
        found = Candidates(owned.keys[free], scores[free])
        yield MAX_UPDATES
        found = first_of_left(found, request.order, own.texts[1]) if request.spread else found
        yield found.least(request.order, request.count)

    def best_of_candidates(
        self, model: Model, ring: Ring, own: OwnRequest, excluded: Keys
    ) -> Stage[tuple[BestPartners, BestPartners]]:
        """Return the best partners of left and of right texts among this shard's candidates; of one side, twice."""
        owned, tables = self._candidates(own), [PartnerTable(texts) for texts in own.texts]
        free = ~is_in(owned.keys, excluded)
        (left, right), scores = own.pairs(owned.keys[free]).T, self._scores(model, own)[free]
        tables[0].add(left, right, scores)
        tables[0 if own.symmetric else 1].add(right, left, scores)
        yield MAX_UPDATES
        yield tables[0].result(), tables[0 if own.symmetric else 1].result()

    def sample_of_candidates(self, model: Model, ring: Ring, own: OwnRequest, below: int) -> Stage[Candidates]:
        """Return the candidates whose key hashes below a bound, with their scores without labels."""
        owned = self._candidates(own)
        taken = np.flatnonzero(hash_keys(owned.keys, 0, "candidates") < np.uint64(below))
        yield MAX_UPDATES
        yield Candidates(owned.keys[taken], self._without_labels(own)[taken])

    def features_of(self, model: Model, ring: Ring, own: OwnRequest, pairs: Pairs) -> Stage[tuple[Rows, Features]]:
        """(n, 2) pairs of a split -> places (k,) of those whose right text is here, and their features (k, F)."""
        owned, keys = self._candidates(own), own.keys(pairs)
        places = np.flatnonzero(is_in(pairs[:, 1], self.texts_of(model, ring.right).rows))
        cosines = self._cosines_of(model, ring, keys[places], own)
        yield MAX_UPDATES
        yield places, self._compare(keys[places], cosines, owned.left, owned.right, own)

    def ways_of(self, model: Model, ring: Ring, own: OwnRequest, keys: Keys) -> Stage[tuple[int, Ints]]:
        """(n,) keys -> number of candidates here, and (n,) the ways by which each was found; 0 if not here."""
        owned, ways = self._candidates(own), np.zeros(len(keys), dtype=np.int64)
        here = np.flatnonzero(is_in(keys, owned.keys))
        ways[here] = owned.ways[np.searchsorted(owned.keys, keys[here])]
        yield MAX_UPDATES
        yield len(owned.keys), ways

    def score_pairs(self, model: Model, ring: Ring, pairs: Pairs) -> Stage[tuple[Rows, Floats]]:
        """As PullsFromPeers.score_pairs, by both stages if the model has a matcher."""
        for word in super().score_pairs(model, ring, pairs):
            if isinstance(word, int) or ring.own is None:
                yield word
            else:
                places, cosines = word
                yield places, self._placed(model, ring.own, pairs[places], cosines)

    def count_pool(self, model: Model, ring: Ring, positives: Pairs, request: CountRequest) -> Stage[NegativeCounts]:
        """As PullsFromPeers.count_pool, by both stages if the model has a matcher."""
        for word in super().count_pool(model, ring, positives, request):
            if isinstance(word, int) or ring.own is None:
                yield word
            else:
                yield self._moved(model, ring.own, word, positives, request)

    def count_sample(
        self, model: Model, ring: Ring, request: CountRequest, weights: SampleWeights, *samples: Keys
    ) -> Stage[list[NegativeCounts]]:
        """As PullsFromPeers.count_sample, by both stages if the model has a matcher."""
        self._sampled_of = ring.own
        try:
            yield from super().count_sample(model, ring, request, weights, *samples)
        finally:
            self._sampled_of = None

    def score_sample(self, model: Model, part: str, queries: Block, pairs: Pairs, thresholds: Floats) -> Floats:
        """As PullsFromPeers.score_sample, by both stages within `count_sample` of a model with a matcher."""
        cosines = super().score_sample(model, part, queries, pairs, thresholds)
        return cosines if self._sampled_of is None else self._placed(model, self._sampled_of, pairs, cosines)

    def _placed(self, model: Model, own: OwnRequest, pairs: Pairs, cosines: Floats) -> Floats:
        return placed_scores(own.keys(pairs), cosines, self._candidates(own).keys, self._scores(model, own))

    def _moved(
        self, model: Model, own: OwnRequest, counts: NegativeCounts, positives: Pairs, request: CountRequest
    ) -> NegativeCounts:
        """Return the counts of all negatives by cosine with the candidates among them counted by p instead."""
        owned, scorer = self._candidates(own), model.scorer
        assert scorer is not None
        negative = ~is_in(owned.keys, np.sort(own.keys(positives)))
        keys, pairs = owned.keys[negative], own.pairs(owned.keys[negative])
        second, first = (
            count_sample(request, keys, pairs, scores[negative], scorer.logit(scores[negative]), 1.0)
            for scores in (self._scores(model, own), owned.cosines)
        )
        return counts + second - first

    def _candidates(self, own: OwnRequest) -> OwnedCandidates:
        if own.place not in self._owned:
            # Those of an encoder before a training are hardly needed again.
            self._owned = {place: kept for place, kept in self._owned.items() if own.is_beside(place)}
            self._owned[own.place] = read_candidates(own.folder(self.spec))
        return self._owned[own.place]

    def _scores(self, model: Model, own: OwnRequest) -> Floats:
        """Return the scores (n,) of this shard's candidates under a matcher, computed once for each matcher."""
        matcher, owned = model.matcher, self._candidates(own)
        assert matcher is not None
        if self._ranked_by != model.digest:
            self._ranked_by = model.digest
            self._ranked.clear()
            self._matcher = read_model(storage_path(matcher.path), owned.names)
        if own.place not in self._ranked:
            threads = self.spec.encoder.threads
            p = [self._matcher.probability(np.ascontiguousarray(chunk), threads) for chunk in owned.features]
            self._ranked[own.place] = candidate_scores(np.concatenate([np.empty(0), *p]), owned.cosines)
        return self._ranked[own.place]

    def _without_labels(self, own: OwnRequest) -> Floats:
        return np.concatenate([np.empty(0), *map(score_without_labels, self._candidates(own).features)])

    def _cosines_of(self, model: Model, ring: Ring, keys: Keys, own: OwnRequest) -> Floats:
        """(n,) keys of pairs whose right text is here -> (n,) cosines in float64."""
        plain = replace(ring, own=None, offsets=None, right_offsets=None)
        *_, answer = self.score_pairs(model.by_cosine, plain, own.pairs(keys))
        assert not isinstance(answer, int)
        return answer[1]

    def _compare(self, keys: Keys, cosines: Floats, left: Floats, right: Floats, own: OwnRequest) -> Features:
        """(n,) keys with cosines, and summaries of all texts -> (n, F) features."""
        return self.records(own.reference).features(own.pairs(keys), cosines, left, right)


def pool_actor(shard: type[PoolShard]) -> Callable[[ShardSpec], OwnsCandidates]:
    """Return what makes an actor that has a shard of a class, whose name the actor has."""

    def make(spec: ShardSpec) -> OwnsCandidates:
        return OwnsCandidates(shard(spec, partial(add_to_counter, "texts_embedded")))

    make.__name__ = shard.__name__
    return make


def _tables(summaries: Sequence[Summaries], own: OwnRequest) -> tuple[Floats, Floats]:
    """Return (left texts, 2 * ways) and (right texts, 2 * ways) summaries of all shards; 0 for other texts."""
    tables = [np.zeros((texts, 2 * len(WAYS))) for texts in own.texts]
    for of_shard in summaries:
        for (way, side), (rows, summary) in of_shard.items():
            at = 2 * WAYS.index(way)
            tables[SIDES.index(side)][rows, at : at + 2] = summary
    return tables[0], tables[0] if own.symmetric else tables[1]
