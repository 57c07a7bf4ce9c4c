"""A shard's part in making an evaluation set: it owns the pairs whose right text it has (metrics/owned_strata.py).

The shard of the left text finds a near pair, and the owner asks for its pairs: keys of near pairs travel between shards
alone, and those of the samples to the first shard, which stores the set. What a shard found and what it owns stay on it
from one call to the next. A shard that restarted has lost them and answers None, and the driver makes the set from the
beginning.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from al_ray.cluster.pool.actor import PullsFromPeers
from al_ray.cluster.pool.neighbors import with_neighbors
from al_ray.cluster.pool.ring import MAX_UPDATES, SERVE, Ring, Stage
from al_ray.cluster.workers import wait_for
from al_ray.core.labels import Model
from al_ray.core.pairs import NO_KEYS, Keys, PairSpace, Rows, as_pairs, distinct
from al_ray.core.scorer import Floats
from al_ray.metrics.average_precision import Ints
from al_ray.metrics.owned_strata import OwnedStrata, SampleCut, StrataRequest, merge_samples
from al_ray.runs.evaluation_sets import StoredSet, write_set
from al_ray.search.knn_merge import KnnRequest, members, select
from al_ray.search.shard import PoolShard
from al_ray.storage.uri import StoragePath


class _SampleLost(Exception):
    """A peer has lost its strata."""


class OwnsStrata(PullsFromPeers):
    """The stages in which evaluation sets are made."""

    def __init__(self, shard: PoolShard) -> None:
        """Own nothing yet."""
        super().__init__(shard)
        self._near_by_owner: list[Keys] | None = None
        self._strata: OwnedStrata | None = None

    def find_near(self, model: Model, ring: Ring, request: KnnRequest, trained: tuple[Any]) -> Stage[tuple[()]]:
        """Find the pairs of this shard's left texts with the nearest of all right ones, for their owners to ask for."""
        width, self._strata = request.space.width, None
        owners = np.empty(width, dtype=np.uint16)
        for shard, rows in enumerate(ring.ask("rows_of", SERVE, model, ring.right)):
            owners[wait_for(rows)] = shard
        found = [[NO_KEYS] for _ in ring.shards]
        for near in with_neighbors(self, model, ring, request, trained):
            certain, listed = members(request, near.block.rows, near.answers)
            cosines = wait_for(ring.ask("cosines", SERVE, model, ring.right, near.reference, listed.pairs))
            keys = np.concatenate([certain, select(request, listed, cosines).keys])
            for of_owner, own in zip(found, split_by_owner(keys, owners[keys % width], len(found)), strict=True):
                of_owner.append(own)
            if near.word is not None:
                yield near.word
        # One after the other, so that few are in memory twice.
        self._near_by_owner = [distinct(*found.pop(0)) for _ in ring.shards]
        yield ()

    def own_near(self, model: Model, ring: Ring, request: StrataRequest) -> Stage[Ints | None]:
        """Own the near pairs whose right text is here, and return the sizes of the strata; None if a shard lost some.

        With edges it computes cosines, and the stream has MAX_UPDATES items; else it has none.
        """
        pieces = wait_for(ring.ask("near_of", SERVE, self.spec.shard))
        lost = any(piece is None for piece in pieces)
        near, cosines = NO_KEYS if lost else distinct(*pieces), [np.empty(0)]
        # In Ray's object store.
        del pieces
        if request.edges:
            parts = np.array_split(near, max(1, min(MAX_UPDATES, len(near) // ring.block)))
            # A call that Ray repeats must have as many words, also where pairs are lost.
            for number in range(MAX_UPDATES):
                if number < len(parts):
                    cosines.append(self._cosines_here(model, ring, parts[number], request.width))
                yield 1
        if lost:
            yield None
            return
        left = self._rows_of_all(model, ring, ring.left)
        right = left if ring.right == ring.left else self._rows_of_all(model, ring, ring.right)
        space = PairSpace(left, right, request.width, request.symmetric, self.rule)
        own = self.texts_of(model, ring.right).rows
        self._strata = OwnedStrata.of(request, space, own, near, np.concatenate(cosines))
        yield self._strata.sizes()

    def ask_strata(self, model: Model, ring: Ring, method: str, *arguments: Any) -> Stage[Any]:
        """Call a method of OwnedStrata; None if this shard has lost its strata."""
        self.use(model)
        # All owners have their near pairs now.
        self._near_by_owner = None
        yield None if self._strata is None else getattr(self._strata, method)(*arguments)

    def store_strata(
        self, model: Model, ring: Ring, cuts: Sequence[SampleCut], place: StoragePath, made_from: Mapping[str, Any]
    ) -> Stage[tuple[()] | None]:
        """On the first shard, merge the samples of all shards and write the evaluation set; None if a shard lost some.

        place, made_from: as write_set takes them.
        """
        self.use(model)
        if self._strata is None:
            yield None
            return
        if self.spec.shard == 0:
            request, space = self._strata.request, self._strata.space
            try:
                merged = partial(self._samples, ring)
                evalset = merge_samples(request.split, request.positives, space.total, cuts, merged)
            except _SampleLost:
                yield None
                return
            write_set(place, evalset, made_from)
        yield ()

    def sample_of(self, cut: SampleCut) -> Keys | None:
        """The keys of a sample that are this shard's, for the shard that merges; None if it has lost its strata."""
        return None if self._strata is None else self._strata.sample(cut)

    def _samples(self, ring: Ring, cut: SampleCut) -> list[Keys]:
        """The keys of a sample, by shard."""
        parts = wait_for(ring.ask("sample_of", SERVE, cut))
        if any(part is None for part in parts):
            raise _SampleLost
        return parts

    def read_strata(self, stored: StoredSet, split: str, positives: Keys, total: int) -> list[Any]:
        """Read a stored set and return the summaries of its strata, and the keys of each; BadFile for a damaged one.

        split, positives, total: as StoredSet.read takes them.
        """
        evalset = stored.read(split, positives, total)
        return [evalset.summaries, *(stratum.keys for stratum in evalset.strata)]

    def drop_strata(self, model: Model, ring: Ring) -> Stage[tuple[()]]:
        """Free the memory of the strata."""
        self._strata = None
        yield ()

    def near_of(self, owner: int) -> Keys | None:
        """Sorted keys of the near pairs that this shard found for an owner; None if it has lost them."""
        return None if self._near_by_owner is None else self._near_by_owner[owner]

    def _cosines_here(self, model: Model, ring: Ring, keys: Keys, width: int) -> Floats:
        """(n,) keys of pairs whose right text is here -> (n,) cosines in float64."""
        *_, answer = self.score_pairs(model, ring, as_pairs(*np.divmod(keys, width)))
        assert not isinstance(answer, int)
        return answer[1]

    def _rows_of_all(self, model: Model, ring: Ring, part: str) -> Rows:
        """The sorted rows of a part of all shards."""
        return np.sort(np.concatenate(wait_for(ring.ask("rows_of", SERVE, model, part))))

    def use(self, model: Model) -> None:
        """As ShardActor.use; near pairs found by other weights are dropped."""
        if self.weights != model.weights:
            self._near_by_owner = self._strata = None
        super().use(model)


def split_by_owner(keys: Keys, owners: npt.NDArray[np.uint16], shards: int) -> list[Keys]:
    """(n,) keys with the shards that own them -> the keys of each shard, in their order."""
    order = np.argsort(owners, kind="stable")
    parts = np.split(keys[order], np.searchsorted(owners[order], np.arange(1, shards)))
    # Copies: a view would keep those of all shards in memory.
    return [part.copy() for part in parts]
