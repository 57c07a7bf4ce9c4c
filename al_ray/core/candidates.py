"""Candidates of a search, and the order in which they are chosen: a cost computed from the cosine."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from al_ray.core.pairs import NO_KEYS, Keys, is_in
from al_ray.core.scorer import Cosines, Floats

# A float32 product of unit vectors is within this distance of the float64 one. Scores that are so close to a cutoff
# are recomputed in float64.
MARGIN = 2e-6


def margin(dimension: int) -> float:
    """Return how far a float32 product of two unit vectors of this dimension may be from the float64 one.

    Not proved: independent roundings add up to about sqrt(d) * 2^-24 (Higham and Mary, 2019). Drawn vectors reach 0.9
    of that, and this is twice it. Vectors of equal numbers, whose roundings all go one way, reach 5 times by oneDNN.
    """
    return max(MARGIN, 2.0**-23 * dimension**0.5)


@dataclass(frozen=True)
class Order:
    """Orders pairs by |cosine - centre|, least first.

    centre: usually the decision boundary. Infinity (minus infinity) orders by highest (lowest) cosine: the limit of a
    boundary that lies above (below) all cosines.
    """

    centre: float

    def cost(self, cosines: Cosines) -> Floats:
        """(n,) cosines -> (n,) costs."""
        cosines = np.asarray(cosines, dtype=np.float64)
        if np.isinf(self.centre):
            return -cosines if self.centre > 0 else cosines
        return np.abs(cosines - self.centre)


HIGHEST = Order(float("inf"))


@dataclass(frozen=True)
class Candidates:
    """Pairs that a search returned: (n,) distinct keys and their (n,) cosines."""

    keys: Keys
    cosines: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.keys)

    def joined(self, *others: "Candidates") -> "Candidates":
        """Return the union with others, sorted by key; of a repeated pair the first cosine counts."""
        keys = np.concatenate([self.keys, *(other.keys for other in others)])
        _, first = np.unique(keys, return_index=True)
        return Candidates(keys[first], np.concatenate([self.cosines, *(other.cosines for other in others)])[first])

    def least(self, order: Order, count: int) -> "Candidates":
        """Return the `count` pairs of least cost, in order of cost; equal costs in order of key."""
        chosen = np.lexsort((self.keys, order.cost(self.cosines)))[:count]
        return Candidates(self.keys[chosen], self.cosines[chosen])

    def at(self, places: npt.NDArray[np.int64]) -> "Candidates":
        """Return those at (k,) places."""
        return Candidates(self.keys[places], self.cosines[places])

    def without(self, known: Keys) -> "Candidates":
        """Return those, in their order, whose keys are not among the sorted known ones."""
        return self.at(np.flatnonzero(~is_in(self.keys, known)))

    def beside(self, others: "Candidates") -> "Candidates":
        """Return these followed by others."""
        return Candidates(np.concatenate([self.keys, others.keys]), np.concatenate([self.cosines, others.cosines]))


NO_CANDIDATES = Candidates(NO_KEYS, np.empty(0, dtype=np.float64))


class BestCandidates:
    """Accumulates the `count` candidates of least cost from a stream of blocks; the result is the same in any order.

    bound: the largest cost among them; infinite while there are fewer than `count`. Pairs above it can be skipped.
    """

    def __init__(self, order: Order, count: int) -> None:
        """Start without candidates."""
        self.order, self.count, self.bound = order, count, np.inf
        self._best, self._pending = NO_CANDIDATES, list[Candidates]()

    def add(self, *parts: Candidates) -> None:
        """Add candidates; a pair may be added again."""
        self._pending += parts
        # A merge sorts all candidates, so wait until a quarter of `count` is pending.
        if sum(map(len, self._pending)) > (self.count // 4 if len(self._best) == self.count else 0):
            self.result()

    def result(self) -> Candidates:
        """Return the best so far in order of cost, equal costs in order of key."""
        self._best, self._pending = self._best.joined(*self._pending).least(self.order, self.count), []
        if self.count and len(self._best) == self.count:
            self.bound = float(self.order.cost(self._best.cosines[-1:])[0])
        return self._best


def unlabelled_candidates(keys: Keys, cosines: Cosines, labelled: Keys) -> Candidates:
    """(n,) keys, perhaps repeated, with cosines -> distinct candidates that are not in the sorted `labelled`."""
    fresh = ~is_in(keys, labelled)
    keys, first = np.unique(keys[fresh], return_index=True)
    return Candidates(keys, np.asarray(cosines, dtype=np.float64)[fresh][first])
