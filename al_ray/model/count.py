"""Counting negatives above thresholds: all of two blocks of texts, or those of a sample. Counts of parts add."""

from dataclasses import dataclass

import numpy as np

from al_ray.core.calibration import Reliability, reliability
from al_ray.core.metrics import Ints, counts_above
from al_ray.core.pairs import NO_KEYS, Keys, Mask, Pairs, Rows, as_pairs
from al_ray.core.scoring import Cosines, Floats, Scorer
from al_ray.core.strategy import MARGIN
from al_ray.model.encoder import Vectors
from al_ray.model.join import Block
from al_ray.model.training import dots
from al_ray.model.vectors import single

COLUMNS = 8192  # Right texts in one block of a product: 1,024 x 8,192 float32 are 32 MB.


@dataclass(frozen=True)
class Tally:
    """What a count of negatives says: (t,) how many reach each threshold, and, if the model has p, its reliability."""

    above: Ints
    reliability: Reliability | None

    def __add__(self, other: "Tally") -> "Tally":
        """What two parts of the negatives say together."""
        both = self.reliability, other.reliability
        summed = both[0] + both[1] if both[0] is not None and both[1] is not None else both[0] or both[1]
        return Tally(self.above + other.above, summed)


@dataclass(frozen=True)
class Stands:
    """What sampled pairs stand for: the width of their keys, and how many negatives each stratum's stand for."""

    width: int
    weights: tuple[float, ...]


@dataclass(frozen=True)
class Negatives:
    """Which pairs of two blocks are counted: none of the `hidden` (k, 2), and when symmetric only left < right."""

    hidden: Pairs
    symmetric: bool


def counted(queries: Block, held: Block, negatives: Negatives, thresholds: Floats, scorer: Scorer | None) -> Tally:
    """Count ALL pairs of two blocks that are negatives: the exact false positives.

    Cells of the float32 product within MARGIN of a threshold are settled by float64 products, so that the count does
    not depend on blocks or shards.
    """
    asked = single(queries.vectors)
    found = Tally(np.zeros(len(thresholds), dtype=np.int64), None)
    for start in range(0, len(held.rows), COLUMNS):
        columns = Block(held.rows[start : start + COLUMNS], held.vectors[start : start + COLUMNS])
        product = (asked @ single(columns.vectors).T).numpy()
        shown = _shown(queries.rows, columns.rows, negatives.hidden, negatives.symmetric)
        seen = _seen(product[shown], scorer, 1.0)
        product[~shown] = -np.inf
        found += Tally(counts_above(thresholds, _settled(product, queries, columns, thresholds)), seen)
    return found


def tallied(cosines: Floats, thresholds: Floats, scorer: Scorer | None, weight: float) -> Tally:
    """Count (n,) cosines of sampled negatives, each of which stands for `weight`."""
    return Tally(counts_above(thresholds, cosines), _seen(cosines, scorer, weight))


def within(keys: Keys, left: Rows, width: int) -> Pairs:
    """Sorted keys, rows of left texts -> the pairs whose left text is among them."""
    ends = np.searchsorted(keys, (left[:, None] + np.arange(2)) * width)
    own = np.concatenate([NO_KEYS, *(keys[begin:end] for begin, end in ends)])
    return as_pairs(*np.divmod(own, width))


def _seen(cosines: Cosines, scorer: Scorer | None, weight: float) -> Reliability | None:
    if scorer is None:
        return None
    return reliability(scorer.logit(cosines), np.zeros(len(cosines), dtype=np.uint8), weight)


def _shown(left: Rows, right: Rows, hidden: Pairs, symmetric: bool) -> Mask:
    """Which cells of a block (b, c) are pairs to count."""
    shown = left[:, None] < right[None, :] if symmetric else np.ones((len(left), len(right)), dtype=np.bool_)
    for turned in (hidden, hidden[:, ::-1]) if symmetric else (hidden,):
        here = turned[np.isin(turned[:, 0], left) & np.isin(turned[:, 1], right)]
        shown[np.searchsorted(left, here[:, 0]), np.searchsorted(right, here[:, 1])] = False
    return shown


def _settled(product: Vectors, queries: Block, columns: Block, thresholds: Floats) -> Floats:
    """The scores of a block that may reach the lowest threshold; those near any threshold in float64."""
    if not len(thresholds):
        return np.empty(0)
    rising = thresholds[::-1]
    left, right = np.nonzero(product >= rising[0] - MARGIN)
    scores = product[left, right].astype(np.float64)
    near = np.searchsorted(rising, scores - MARGIN) != np.searchsorted(rising, scores + MARGIN, side="right")
    close = np.flatnonzero(near)
    for start in range(0, len(close), COLUMNS):
        here = close[start : start + COLUMNS]
        scores[here] = dots(queries.vectors[left[here]], columns.vectors[right[here]])
    return scores
