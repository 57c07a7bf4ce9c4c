"""A shard of a pool as an actor that works through the whole pool by itself: it pulls the texts of its peers.

A stage is one call to each shard. The shard goes round the ring of shards, beginning with its own texts, asks for the
next blocks while it computes, and returns one value: so what the driver does and receives grows with the number of
shards, not with the number of texts. A stage changes nothing in a shard, so Ray may call it again on one that restarts.

While a shard computes it serves its peers in other threads (the concurrency group SERVE).
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import ray

from al_ray.cluster.actors import TEXTS
from al_ray.core.labels import Model
from al_ray.core.pairs import Keys, Mask, Pairs, is_in
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Block, paired_scores
from al_ray.metrics.estimator import CountRequest, NegativeCounts
from al_ray.search.counting import SampleWeights
from al_ray.search.merge import join_blocks
from al_ray.search.shard import PoolShard

SERVE = "serve"
# Threads that serve; two, so that a short question need not wait for a block.
GROUPS = {SERVE: 2}
AHEAD = 2  # Blocks asked for before they are needed.
WORDS = 100  # A shard says at most so many times in a stage how far it is.
Answer = TypeVar("Answer")
Stage: TypeAlias = Iterator[int | Answer]
"""What a stage streams: numbers of texts done since the last one, and at the end the answer."""


@dataclass(frozen=True)
class Ring:
    """The parts of a split on all shards, and where a shard finds them.

    shards: the actors (s,). left, right: parts. sizes: (s,) how many left texts each has. block: texts in a block.
    """

    shards: Sequence[Any]
    left: str
    right: str
    sizes: tuple[int, ...]
    block: int

    def places(self, first: int) -> Iterator[tuple[int, int, int]]:
        """Yield (shard, start, stop) of every block of left texts, those of shard `first` first."""
        for step in range(len(self.shards)):
            number = (first + step) % len(self.shards)
            for start in range(0, self.sizes[number], self.block):
                yield number, start, min(start + self.block, self.sizes[number])


if TYPE_CHECKING:
    Base = PoolShard
else:
    Base = object


class PullsFromPeers(Base):
    """What an actor adds to a shard; `pool_actor` joins the two."""

    def __init__(self, spec: Any) -> None:
        """Make the shard."""
        super().__init__(spec)
        self._lock = threading.RLock()

    def on_embedded(self, count: int) -> None:
        """Count the texts that are embedded."""
        TEXTS.inc(count)

    def size(self, part: str) -> int:
        """Return how many texts of a part this shard has."""
        return len(self.rows(part))

    def count_pool(self, model: Model, ring: Ring, positives: Pairs, request: CountRequest) -> Stage[NegativeCounts]:
        """Count the pairs of all left texts with this shard's right ones, except the positives (p, 2)."""
        counts, symmetric = NegativeCounts.zero(request), request.bootstrap.symmetric

        def count(queries: Block) -> None:
            nonlocal counts
            hidden = np.isin(positives, queries.rows)
            own = positives[hidden.any(axis=1) if symmetric else hidden[:, 0]]
            counts += self.count_negatives(model, ring.right, queries, own, request)

        yield from self._with_each(model, ring, count)
        yield counts

    def count_sample(
        self, model: Model, ring: Ring, request: CountRequest, weights: SampleWeights, *samples: Keys
    ) -> Stage[list[NegativeCounts]]:
        """Count the sampled pairs of each stratum whose right text is this shard's. samples: sorted keys of each."""
        counts = [NegativeCounts.zero(request) for _ in samples]

        def count(queries: Block) -> None:
            of_block = self.count_sampled_negatives(model, ring.right, queries, request, weights, *samples)
            counts[:] = [one + other for one, other in zip(counts, of_block, strict=True)]

        yield from self._with_each(model, ring, count)
        yield counts

    def score_pairs(self, model: Model, ring: Ring, pairs: Pairs) -> Stage[tuple[Mask, Floats]]:
        """(n, 2) pairs of the split -> (n,) which have their right text here, and the (k,) float64 cosines of these."""
        held = self._part(model, ring.right)
        own = is_in(pairs[:, 1], held.rows)
        cosines, of_shard = np.empty(int(own.sum())), pairs[own]
        order = np.argsort(of_shard[:, 0], kind="stable")
        for start in range(0, len(order), ring.block):
            here = order[start : start + ring.block]
            rows = np.unique(of_shard[here, 0])
            queries = join_blocks(ray.get(ask(ring.shards, "vectors_of", model, ring.left, rows)))
            left, right = (np.searchsorted(x.rows, of_shard[here, side]) for side, x in enumerate((queries, held)))
            cosines[here] = paired_scores(queries.vectors, left, held.vectors, right)
        yield own, cosines

    def _with_each(self, model: Model, ring: Ring, work: Callable[[Block], None]) -> Iterator[int]:
        """Do the work with each block of left texts; yield the texts done since the last word, WORDS times at most.

        A stream that Ray asks for again must be as long, so how many words it has depends on the ring alone.
        """
        places = list(ring.places(self.spec.shard))
        said, done, coming = 0, 0, deque[Any]()
        # Without a right text there is nothing to do; the words are said all the same.
        nothing = not len(self._part(model, ring.right).rows)
        for number, (_, start, stop) in enumerate(places):
            if not nothing:
                while len(coming) <= min(AHEAD, len(places) - number - 1):
                    coming.append(self._ask_for_block(model, ring, places[number + len(coming)]))
                block = coming.popleft()
                work(block if isinstance(block, Block) else ray.get(block))
            done += stop - start
            if (number + 1) * WORDS // len(places) > number * WORDS // len(places):
                yield done - said
                said = done

    def _ask_for_block(self, model: Model, ring: Ring, place: tuple[int, int, int]) -> Any:
        """Return a block of this shard, or the reference of one of a peer's."""
        number, start, stop = place
        if number == self.spec.shard:
            return self.block(model, ring.left, start, stop)
        return ask([ring.shards[number]], "block", model, ring.left, start, stop)[0]

    def _part(self, model: Model, part: str) -> Block:
        # A shard that restarts is asked by its peers while it begins its own stage: it embeds once.
        with self._lock:
            return super()._part(model, part)


def ask(shards: Sequence[Any], method: str, *arguments: Any) -> list[Any]:
    """Call a method of some shards in the threads that serve; return the references of the answers."""
    return [getattr(shard, method).options(concurrency_group=SERVE).remote(*arguments) for shard in shards]


def pool_actor(shard: type) -> type:
    """Return the class of a shard that pulls the texts of its peers, under the same name."""
    return type(shard.__name__, (PullsFromPeers, shard), {})
