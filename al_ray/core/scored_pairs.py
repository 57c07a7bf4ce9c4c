"""Pairs of texts with a score each: what matching finds, keeps and decides about."""

from dataclasses import dataclass

import numpy as np

from al_ray.core.pairs import NO_PAIRS, Mask, Pairs, Rows
from al_ray.core.scorer import Floats


@dataclass(frozen=True)
class ScoredPairs:
    """Pairs (n, 2) of rows with their scores (n,), in any order.

    other: their cosines (n,), where a matcher or a neighbourhood gives scores that are none.
    """

    pairs: Pairs
    scores: Floats
    other: Floats | None = None

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def cosines(self) -> Floats:
        """Return the cosines (n,), which are the scores unless others are given."""
        return self.scores if self.other is None else self.other

    def at(self, chosen: Mask | Rows) -> "ScoredPairs":
        """Return those at which the (n,) mask is true, or those at the (k,) places, in their order."""
        other = None if self.other is None else self.other[chosen]
        return ScoredPairs(self.pairs[chosen], self.scores[chosen], other)


NO_SCORED_PAIRS = ScoredPairs(NO_PAIRS, np.empty(0, dtype=np.float64))
