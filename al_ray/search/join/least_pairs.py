"""The pairs of least cost among those that an exact join looks at (exact_join.py), for one query."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from al_ray.core.candidates import NO_CANDIDATES, Candidates, Order
from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import NO_KEYS, Keys, PairSpace, Rows, as_pairs, is_in
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Block
from al_ray.core.vectors import cosines as exact_cosines

RESCORED = 1024  # Pairs whose vectors are gathered at a time: beyond the cache they take three times as long.
SPARE = 4096  # Candidates kept beyond `count` and a quarter of it, before the worst are dropped.
FAR = 1e30  # Beyond any cosine, and within what float32 holds.


@dataclass(frozen=True)
class JoinQuery:
    """Which pairs are asked for: the `count` of least cost under `order`, equal costs by key.

    width: number of right texts of the whole task, as in PairSpace.
    symmetric: both sides are the same texts, and none is a pair with itself.
    ordered: of a symmetric task, (a, b) and (b, a) are two pairs all the same.
    limit: pairs that cost more are never chosen; there may then be fewer than `count`.
    """

    order: Order
    count: int
    width: int
    symmetric: bool
    ordered: bool = False
    limit: float = float("inf")

    @property
    def unordered(self) -> bool:
        """Whether (a, b) and (b, a) are one pair."""
        return self.symmetric and not self.ordered

    @property
    def slack(self) -> float:
        """How far rounding moves a float64 cost: all the way between two cosines when the centre is far off."""
        centre = self.order.centre
        return 8 * float(np.finfo(np.float64).eps) * (1.0 if np.isinf(centre) else 2 + abs(centre))

    def window(self, cost: float) -> tuple[np.float32, np.float32]:
        """The least and the greatest cosine of pairs whose cost is at most this, rounded outward."""
        centre = self.order.centre
        if np.isinf(centre):
            low, high = (-cost, np.inf) if centre > 0 else (-np.inf, cost)
        else:
            low, high = centre - cost, centre + cost
        low, high = np.clip([low, high], -FAR, FAR).astype(np.float32)
        return np.nextafter(low, np.float32(-np.inf)), np.nextafter(high, np.float32(np.inf))

    def keys(self, left: Rows, right: Rows) -> Keys:
        """(n,) rows and (n,) rows -> (n,) keys; either order will do when unordered."""
        return PairSpace(NO_KEYS, NO_KEYS, self.width, self.unordered).keys(as_pairs(left, right))


@dataclass(frozen=True)
class Cells:
    """Pairs of two blocks: (n,) places in each, (n,) rough cosines, and how wrong costs by these can be."""

    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    rough: Floats
    error: float

    def where(self, chosen: npt.NDArray[np.bool_] | slice) -> "Cells":
        """Some of them."""
        return Cells(self.left[chosen], self.right[chosen], self.rough[chosen], self.error)


class LeastPairs:
    """The least pairs of a query among the cells that one worker has visited.

    `bound` is a cost that at least `count` unlabelled pairs of the pool do not exceed: what costs more is not wanted.
    """

    def __init__(self, query: JoinQuery, labelled: Keys) -> None:
        """Start with nothing. labelled: sorted keys, never chosen."""
        self.query, self.labelled, self.bound = query, labelled, query.limit
        self._kept, self._held = [NO_CANDIDATES], 0

    def __len__(self) -> int:
        """How many candidates are held: at most count * 5/4 + SPARE + RESCORED."""
        return self._held

    def tighten(self, cost: float) -> None:
        """Learn another worker's bound; then fewer than `count` may come of this one."""
        self.bound = min(self.bound, cost)

    def look(self, ours: Block, theirs: Block, cells: Cells, rule: PairRule | None = None) -> None:
        """Keep unlabelled pairs of the two blocks whose exact cost is <= bound.

        rule: which pairs can match, None for all.
        """
        if self.query.symmetric:
            cells = cells.where(ours.rows[cells.left] != theirs.rows[cells.right])
        if rule is not None:
            cells = cells.where(rule.allows(as_pairs(ours.rows[cells.left], theirs.rows[cells.right])))
        keys = self.query.keys(ours.rows[cells.left], theirs.rows[cells.right])
        fresh = ~is_in(keys, self.labelled)
        cells, keys = cells.where(fresh), keys[fresh]
        costs = self.query.order.cost(cells.rough)
        limit = self.bound
        if len(costs) > self.query.count:
            # The count-th in truth is at most this far from the count-th by rough cost.
            limit = min(limit, np.partition(costs, self.query.count - 1)[self.query.count - 1] + cells.error)
        near = np.flatnonzero(costs <= limit + cells.error)
        for start, stop in pairwise([*range(0, len(near), RESCORED), len(near)]):
            here = near[start:stop]
            here = here[costs[here] <= self.bound + cells.error]
            cosines = exact_cosines(ours.vectors[cells.left[here]], theirs.vectors[cells.right[here]])
            self._hold(keys[here], ours.scores(cells.left[here], theirs.rows[cells.right[here]], cosines))

    def result(self) -> Candidates:
        """The least pairs of those seen that are within the bound, in order: `count`, or all when there are fewer."""
        self._settle()
        return self._kept[0].least(self.query.order, self.query.count)

    def _hold(self, keys: Keys, cosines: Floats) -> None:
        within = self.query.order.cost(cosines) <= self.bound
        self._kept.append(Candidates(keys[within], cosines[within]))
        self._held += len(self._kept[-1])
        count = self.query.count
        if self._held >= (count if np.isinf(self.bound) else count + count // 4 + SPARE):
            self._settle()

    def _settle(self) -> None:
        """Keep the `count` least pairs by (cost, key), unordered; their highest cost is a bound if all are there."""
        keys = np.concatenate([kept.keys for kept in self._kept])
        cosines = np.concatenate([kept.cosines for kept in self._kept])
        costs, count = self.query.order.cost(cosines), self.query.count
        if len(keys) >= count > 0:
            self.tighten(float(np.partition(costs, count - 1)[count - 1]))
        chosen = np.flatnonzero(costs < self.bound)
        tied = np.flatnonzero(costs == self.bound)
        room = count - len(chosen)
        if room < len(tied):
            tied = tied[np.argsort(keys[tied])[:room]]
        chosen = np.concatenate([chosen, tied])
        self._kept, self._held = [Candidates(keys[chosen], cosines[chosen])], len(chosen)
