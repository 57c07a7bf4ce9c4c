"""How a pair stands among the pairs of its two texts, by cosine or by 3-grams: what a matcher knows of the ranking.

Of a score s of a pair, five numbers: s; s less the mean of the FEW highest of either text; s less the highest of each.
In a task of one set of texts, where a pair has no first text, the greater difference comes before the smaller.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from al_ray.core.candidates import Candidates, Order
from al_ray.core.neighbourhood import NEIGHBOURS, mean_of_nearest
from al_ray.core.pairs import NO_KEYS, Keys, PairSpace, Rows, as_pairs, distinct
from al_ray.core.scorer import Floats

Features = npt.NDArray[np.float32]
FEW = NEIGHBOURS


@dataclass(frozen=True)
class NearestOf:
    """Nearest texts of sorted rows (b,): lines (n,) indices into rows, partners (n,) near rows, scores (n,)."""

    rows: Rows
    lines: Rows
    partners: Rows
    scores: Floats

    def best(self, count: int) -> "NearestOf":
        """Return the `count` best of each text by score, equal ones by row."""
        order = np.lexsort((self.partners, -self.scores, self.lines))
        lines = self.lines[order]
        kept = order[np.arange(len(lines)) - np.searchsorted(lines, lines) < count]
        return NearestOf(self.rows, self.lines[kept], self.partners[kept], self.scores[kept])

    def summary(self) -> Floats:
        """Return (b, 2) the mean of the FEW highest scores of each text and the highest; 0 for a text without any."""
        found = np.zeros((len(self.rows), 2))
        found[:, 0] = mean_of_nearest(self.scores, self.lines, len(self.rows), FEW)
        highest = np.full(len(self.rows), -np.inf)
        np.maximum.at(highest, self.lines, self.scores)
        found[:, 1] = np.where(np.isfinite(highest), highest, 0.0)
        return found


def gather_nearest(parts: Iterable[NearestOf], side: str, count: int, space: PairSpace) -> tuple[Keys, Rows, Floats]:
    """Return sorted keys of the `count` best of each text of a side, and sorted rows (b,) with summaries (b, 2)."""
    keys, rows, summaries = [NO_KEYS], [np.empty(0, dtype=np.int64)], [np.empty((0, 2))]
    for part in parts:
        best = part.best(count)
        own = best.rows[best.lines]
        keys.append(space.keys(as_pairs(own, best.partners) if side == "left" else as_pairs(best.partners, own)))
        rows.append(part.rows)
        summaries.append(part.summary())
    order = np.argsort(np.concatenate(rows))
    return distinct(*keys), np.concatenate(rows)[order], np.concatenate(summaries)[order]


def rank_names(way: str, symmetric: bool) -> tuple[str, ...]:
    """Return the names of `rank_features`. way: of the score, such as "cosine"."""
    one, other = ("more of both", "less of both") if symmetric else ("left", "right")
    mean, best = f"{way} less the mean of the {FEW} nearest", f"{way} less the best"
    return way, f"{mean}, {one}", f"{mean}, {other}", f"{best}, {one}", f"{best}, {other}"


def rank_features(scores: Floats, left: Floats, right: Floats, symmetric: bool) -> Features:
    """(n,) scores and the summaries (n, 2) of the left and of the right texts -> (n, 5), as `rank_names` says."""
    one, other = scores[:, None] - left, scores[:, None] - right
    if symmetric:
        one, other = np.maximum(one, other), np.minimum(one, other)
    columns = [scores, one[:, 0], other[:, 0], one[:, 1], other[:, 1]]
    return np.stack(columns, axis=1).astype(np.float32)


def score_without_labels(features: Features) -> Floats:
    """(n, 5+) features that begin with those of the cosine -> (n,) cosine less half of each mean, before any label.

    Half of CSLS (Conneau et al. 2018, Eq. 5); on records it ranks far better than the cosine (docs/matcher.md).
    """
    return (features[:, 1].astype(np.float64) + features[:, 2]) / 2


def first_of_left(found: Candidates, order: Order, width: int) -> Candidates:
    """Return of each left text the candidate of least cost, equal costs by key. width: of the keys."""
    cost, left = order.cost(found.cosines), found.keys // width
    ranked = np.lexsort((found.keys, cost, left))
    first = np.ones(len(ranked), dtype=np.bool_)
    first[1:] = left[ranked][1:] != left[ranked][:-1]
    return Candidates(found.keys[ranked[first]], found.cosines[ranked[first]])
