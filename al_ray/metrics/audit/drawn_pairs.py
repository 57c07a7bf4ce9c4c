"""Pairs that were drawn for labels, and the scores by which their labels are judged."""

from dataclasses import dataclass

import numpy as np

from al_ray.core.labels import UNSURE
from al_ray.core.pairs import Pairs
from al_ray.core.scorer import Floats, Labels
from al_ray.metrics.average_precision import Ints


@dataclass(frozen=True)
class DrawnPairs:
    """Drawn pairs in the order of the sheet: (n, 2) rows, (n,) strata, ranks (-1: none), cosines (NaN: unknown)."""

    pairs: Pairs
    strata: tuple[str, ...]
    ranks: Ints
    cosines: Floats

    def shuffled(self, rng: np.random.Generator) -> "DrawnPairs":
        """Shuffle the pairs, so that their order does not reveal the strata."""
        return self.in_order(rng.permutation(len(self.ranks)))

    def in_order(self, order: Ints) -> "DrawnPairs":
        """Return the pairs in an order (n,)."""
        places: list[int] = order.tolist()
        strata = tuple(self.strata[place] for place in places)
        return DrawnPairs(self.pairs[order], strata, self.ranks[order], self.cosines[order])


@dataclass(frozen=True)
class BandScores:
    """Scores of bands: (reach,) cosines by rank, and (k,) cosines and labels of pairs labelled before."""

    cosines: Floats
    known_cosines: Floats
    known_labels: Labels

    @property
    def decided(self) -> "BandScores":
        """Return the scores without the known pairs that are labelled unsure."""
        sure = self.known_labels != UNSURE
        return BandScores(self.cosines, self.known_cosines[sure], self.known_labels[sure])
