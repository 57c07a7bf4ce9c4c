"""Examples of a model's errors for people to read (paper, Figure 2).

From a split: the negatives of highest cosine, the positives of lowest cosine, and the pairs nearest to the decision
boundary, of any label. Ties are ordered by key.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from al_ray.core.candidates import Candidates, Order
from al_ray.core.pairs import Pairs, is_in
from al_ray.core.scorer import Floats, Labels, Scorer
from al_ray.core.task import Split

HIGH_NEGATIVE, LOW_POSITIVE, NEAR_BOUNDARY = KINDS = ("high-negative", "low-positive", "near-boundary")
LOWEST = Order(float("-inf"))


@dataclass(frozen=True)
class Examples:
    """Pairs (n, 2) of a split with kinds (n,), labels (n,) 0 or 1, cosines (n,) and p (n,); ranked within each kind.

    A pair may occur under two kinds. A negative is a model error only if p > 1/2, a positive only if p < 1/2.
    """

    split: str
    kinds: tuple[str, ...]
    pairs: Pairs
    labels: Labels
    cosines: Floats
    p: Floats

    def __len__(self) -> int:
        return len(self.kinds)


def collect_examples(
    split: Split, scorer: Scorer, positives: Floats, highest: Candidates, nearest: Candidates
) -> Examples:
    """Combine the examples of a split.

    positives: (p,) cosines of the split's positives. highest: the negatives of highest cosine. nearest: the pairs
    nearest to the boundary. Takes as many of the lowest positives as the longer of the two has.
    """
    known = Candidates(split.space.keys(split.positives), positives)
    parts = highest, known.least(LOWEST, max(len(highest), len(nearest))), nearest
    keys = np.concatenate([part.keys for part in parts])
    cosines = np.concatenate([part.cosines for part in parts])
    kinds = tuple(kind for kind, part in zip(KINDS, parts, strict=True) for _ in range(len(part)))
    labels = is_in(keys, split.positive_keys).astype(np.uint8)
    return Examples(split.name, kinds, split.space.pairs(keys), labels, cosines, scorer.probability(cosines))


def main_split(splits: Collection[str]) -> str | None:
    """Return the split whose metrics represent a run: dev if it is evaluated, else the first; None without any."""
    return "dev" if "dev" in splits else next(iter(splits), None)
