"""Cells of two blocks of texts that are no pairs: a text with itself, pairs that cannot match, and excluded pairs."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import Keys, Pairs, PairSpace, Rows, is_in


@dataclass(frozen=True, eq=False)
class ForbiddenPairs:
    """Which cells are no pairs.

    symmetric: both sides are the same texts, and none is a pair with itself. excluded: (n, 2) pairs by left row, in
    both orders if the task is symmetric. rule: which pairs can match, None for all.
    """

    symmetric: bool
    excluded: Pairs
    rule: PairRule | None

    @classmethod
    def of(cls, space: PairSpace, excluded: Keys, rule: PairRule | None) -> "ForbiddenPairs":
        """space: how keys are made; its rows are not used. excluded: sorted keys."""
        pairs = space.pairs(excluded)
        both = np.concatenate([pairs, pairs[:, ::-1]]) if space.symmetric else pairs
        return cls(space.symmetric, both[np.argsort(both[:, 0], kind="stable")], rule)

    def hide(self, tile: npt.NDArray[np.float32], rows: Rows, columns: Rows) -> None:
        """Set the scores (b, c) of sorted left rows (b,) and right rows (c,) to -inf where there is no pair."""
        if self.symmetric:
            _, at, by = np.intersect1d(rows, columns, assume_unique=True, return_indices=True)
            tile[at, by] = -np.inf
        if self.rule is not None:
            tile[~self.rule.table(rows, columns)] = -np.inf
        first, last = np.searchsorted(self.excluded[:, 0], [rows[0], rows[-1] + 1])
        near = self.excluded[first:last]
        near = near[is_in(near[:, 0], rows) & is_in(near[:, 1], columns)]
        tile[np.searchsorted(rows, near[:, 0]), np.searchsorted(columns, near[:, 1])] = -np.inf
