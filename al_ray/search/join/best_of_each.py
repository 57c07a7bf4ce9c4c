"""The best partner of every text among ALL texts of the other side, for matches that need no threshold.

Blocks of texts meet two at a time, as in the exact join (exact_join.py). A float32 product gives rough scores. Cells
that may be the best of their row or of their column are recomputed in float64. So neither the size of blocks nor the
number of workers changes a result. Memory is O(texts + tile).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import NO_KEYS, Keys, PairSpace, Rows
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Block, paired_scores
from al_ray.search.join.exact_join import TILE, rough_cosines, single_error
from al_ray.search.join.forbidden_pairs import ForbiddenPairs
from al_ray.search.merge import reachable_block
from al_ray.search.vector_files import single

NONE = -1  # The partner of a text that has none.


@dataclass(frozen=True)
class BestPartners:
    """The best partner of each text of a side that has one: sorted rows (n,), partner rows (n,) and scores (n,).

    On ties the partner with the lowest row is the best.
    """

    rows: Rows
    partners: Rows
    scores: Floats


class PartnerTable:
    """The best partner so far of every text of a side, by its row in the task."""

    def __init__(self, texts: int) -> None:
        """Start without partners. texts: of the side in the task."""
        self.partners, self.scores = np.full(texts, NONE), np.full(texts, -np.inf)

    def add(self, rows: Rows, partners: Rows, scores: Floats) -> None:
        """Keep the better of the best partners so far and of (k,) others; rows may repeat."""
        order = np.lexsort((partners, -scores, rows))
        rows, partners, scores = rows[order], partners[order], scores[order]
        first = np.flatnonzero(np.diff(rows, prepend=NONE))
        rows, partners, scores = rows[first], partners[first], scores[first]
        now = self.scores[rows]
        better = (scores > now) | ((scores == now) & (partners < self.partners[rows]))
        self.partners[rows[better]], self.scores[rows[better]] = partners[better], scores[better]

    def result(self) -> BestPartners:
        """Return the texts that have a partner."""
        rows = np.flatnonzero(self.partners != NONE)
        return BestPartners(rows, self.partners[rows], self.scores[rows])


def join_partners(parts: Sequence[BestPartners], texts: int) -> BestPartners:
    """Return the best partner of each text among those that several workers found. texts: of the side in the task."""
    table = PartnerTable(texts)
    for part in parts:
        table.add(part.rows, part.partners, part.scores)
    return table.result()


class BestOfEach:
    """The best partner of each left and of each right text, as one worker finds them block by block."""

    def __init__(
        self, space: PairSpace, texts: int, excluded: Keys = NO_KEYS, device: str = "cpu", rule: PairRule | None = None
    ) -> None:
        """Start with nothing. In a symmetric task both sides are the same texts, and none is its own partner.

        space: how keys are made; its rows are not used. texts: left texts of the task. excluded: sorted keys of pairs
        that are no partners. rule: which pairs can match, None for all.
        """
        self.space, self.forbidden = space, ForbiddenPairs.of(space, excluded, rule)
        self.device, self.rule = torch.device(device), rule
        self._left = PartnerTable(texts)
        self._right = self._left if space.symmetric else PartnerTable(space.width)

    def add(self, left: Block, right: Block) -> None:
        """See every pair of two blocks of sorted rows; each two blocks meet once, symmetric ones in either order."""
        if not np.array_equal(left.rows, right.rows):
            right = reachable_block(left, right, self.rule)
        if not len(left.rows) or not len(right.rows):
            return
        ours, theirs = (single(block.vectors).to(self.device) for block in (left, right))
        error = single_error(left)
        for top in range(0, len(left.rows), TILE[0]):
            for start in range(0, len(right.rows), TILE[1]):
                up, across = np.s_[top : top + TILE[0]], np.s_[start : start + TILE[1]]
                tile = rough_cosines(ours[up], theirs[across]).cpu().numpy()
                if left.offsets is not None:
                    tile -= left.offsets[up, None].astype(np.float32)
                rows, columns = left.rows[up], right.rows[across]
                if left.right_offsets is not None:
                    tile -= left.right_offsets.of(columns).astype(np.float32)
                self.forbidden.hide(tile, rows, columns)
                at, by = best_cells(tile, self._left.scores[rows], self._right.scores[columns], error)
                cosines = paired_scores(left.vectors, at + top, right.vectors, by + start)
                scores = left.scores(at + top, columns[by], cosines)
                self._left.add(rows[at], columns[by], scores)
                self._right.add(columns[by], rows[at], scores)

    def results(self) -> tuple[BestPartners, BestPartners]:
        """Return the best partners of the left and of the right texts that were seen; a symmetric task has one kind."""
        left = self._left.result()
        return left, left if self.space.symmetric else self._right.result()


def best_cells(
    tile: npt.NDArray[np.float32], rows: Floats, columns: Floats, error: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the places of the cells that may be the best of their row or column, in truth.

    tile: (a, b) rough scores, -inf where no pair is. rows (a,), columns (b,): the best true scores so far. error: how
    far a rough score may be from the true one.
    """
    cells = tile >= _lowest(tile.max(axis=1), rows, error)[:, None]
    cells |= tile >= _lowest(tile.max(axis=0), columns, error)[None, :]
    cells &= tile > -np.inf
    at, by = np.nonzero(cells)
    return at, by


def _lowest(rough: npt.NDArray[np.float32], best: Floats, error: float) -> npt.NDArray[np.float32]:
    """Return the lowest rough score (n,) of a cell that may be the best, rounded down to float32.

    rough: (n,) highest rough scores. best: (n,) best true scores so far. Comparisons in float32 take half the time.
    """
    bound = np.maximum(rough.astype(np.float64) - 2 * error, best - error).astype(np.float32)
    return np.nextafter(bound, np.float32(-np.inf))
