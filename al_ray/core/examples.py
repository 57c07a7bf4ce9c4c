"""Pairs of a round that people want to look at: where its model is surely wrong, and where it cannot tell (Figure 2).

Of a split, ties by key: the negatives of highest cosine, the positives of lowest cosine, and the pairs nearest the
boundary, whatever their label.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from al_ray.core.pairs import Pairs, is_in
from al_ray.core.scoring import Floats, Labels, Scorer
from al_ray.core.strategy import Candidates, Order
from al_ray.core.task import Split

HIGH_NEGATIVE, LOW_POSITIVE, NEAR_BOUNDARY = KINDS = ("high-negative", "low-positive", "near-boundary")
LOWEST = Order(float("-inf"))


@dataclass(frozen=True)
class Examples:
    """Pairs (n, 2) of a split with kinds (n,), labels (n,) 0 or 1, cosines (n,) and p (n,); a kind's first is first.

    A pair may be of two kinds. A negative is no error, and a positive no miss, unless p says so: p > 1/2, p < 1/2.
    """

    split: str
    kinds: tuple[str, ...]
    pairs: Pairs
    labels: Labels
    cosines: Floats
    p: Floats

    def __len__(self) -> int:
        return len(self.kinds)


def chosen(split: Split, scorer: Scorer, positives: Floats, found: tuple[Candidates, Candidates]) -> Examples:
    """The examples of a split: `found` are the negatives of highest cosine and the pairs nearest the boundary.

    positives: (n,) cosines of the split's positives; as many of the lowest are taken as the longer of `found` has.
    """
    highest, nearest = found
    known = Candidates(split.space.keys(split.positives), positives)
    each = highest, known.least(LOWEST, max(len(highest), len(nearest))), nearest
    keys = np.concatenate([one.keys for one in each])
    cosines = np.concatenate([one.cosines for one in each])
    kinds = tuple(kind for kind, one in zip(KINDS, each, strict=True) for _ in range(len(one)))
    labels = is_in(keys, split.positive_keys).astype(np.uint8)
    return Examples(split.name, kinds, split.space.pairs(keys), labels, cosines, scorer.probability(cosines))


def first_of(splits: Collection[str]) -> str | None:
    """The split of measured ones that a run is told by: dev where it is there, else the first, None where none is."""
    return "dev" if "dev" in splits else next(iter(splits), None)
