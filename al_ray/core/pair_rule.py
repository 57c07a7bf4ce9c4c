"""Which pairs of a task can match: those with equal values in some columns, and with two values in another.

A pair that cannot match is no pair of the pool: it is not found, counted or drawn. This is blocking by keys that are
certain (Christen, Data Matching, 2012, chapter 4): it bounds the pool, and within it the search stays as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from al_ray.core.naming import option

Codes = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class GroupCodes:
    """Group numbers of the left (l,) and of the right (r,) texts of a task: equal values have equal numbers, from 0.

    columns: the columns of the values. The two arrays are the same if the task is symmetric.
    values: for each column the value of each group, "" for an empty cell; () if they are not known, as in a task that
    was read from its folder. Only a task that grows needs them.
    """

    columns: tuple[str, ...]
    left: Codes
    right: Codes
    values: Sequence[Sequence[str]] = ()


@dataclass(frozen=True, eq=False)
class PairRule:
    """A pair can match if its texts are in one group of `same`, and in two groups of `different`.

    None: no such condition; at least one of the two is given.
    """

    same: GroupCodes | None = None
    different: GroupCodes | None = None

    @property
    def conditions(self) -> dict[str, GroupCodes]:
        """Return the conditions that are given, by name."""
        both = {"same": self.same, "different": self.different}
        return {name: codes for name, codes in both.items() if codes is not None}

    @property
    def turned(self) -> "PairRule":
        """Return the rule for pairs whose right text comes first; the same for a symmetric task."""
        return PairRule(**{name: GroupCodes(one.columns, one.right, one.left) for name, one in self.conditions.items()})

    def allows(self, pairs: Ints) -> Mask:
        """(n, 2) pairs of rows -> (n,) whether each can match."""
        return self._compare(pairs[:, 0], pairs[:, 1])

    def table(self, left: Ints, right: Ints) -> Mask:
        """(b,) left rows, (c,) right rows -> (b, c) whether each pair can match."""
        return self._compare(left[:, None], right[None, :])

    def _compare(self, left: Ints, right: Ints) -> Mask:
        allowed = np.ones(np.broadcast_shapes(left.shape, right.shape), dtype=np.bool_)
        if self.same is not None:
            allowed &= self.same.left[left] == self.same.right[right]
        if self.different is not None:
            allowed &= self.different.left[left] != self.different.right[right]
        return allowed

    def reachable(self, left: Ints, right: Ints) -> Ints:
        """(b,) left rows, (c,) right rows -> places of the right ones that share a group of `same` with a left one."""
        if self.same is None:
            return np.arange(len(right))
        return np.flatnonzero(np.isin(self.same.right[right], np.unique(self.same.left[left])))

    def describe(self) -> str:
        """Return the options that give this rule."""
        return " ".join(option(name, ",".join(codes.columns)) for name, codes in self.conditions.items())


@dataclass(frozen=True, eq=False)
class AllowedPairs:
    """Numbers the allowed pairs of left (l,) and right (r,) rows; none of them is stored.

    Right texts are put in order of their groups of `same`, then of `different`. Then the texts that a left text can
    match have consecutive places, but for a gap, which is its own group of `different`. In a symmetric pool, where the
    rows are the same, a pair is numbered once, with the text of the lower place: its partners begin after its group of
    `different`, or after itself.
    """

    left: Ints
    right: Ints
    rule: PairRule
    symmetric: bool

    @property
    def total(self) -> int:
        """Number of allowed pairs."""
        return int(self._partners.ends[-1])

    def at(self, index: Ints) -> Ints:
        """(n,) distinct numbers in [0, total) -> (n, 2) distinct pairs of rows."""
        partners = self._partners
        text = np.searchsorted(partners.ends, index, side="right") - 1
        place = partners.starts[text] + index - partners.ends[text]
        place += np.where(place >= partners.gaps[text], partners.gap_sizes[text], 0)
        return np.stack([partners.left[text], partners.right[place]], axis=1)

    @cached_property
    def _partners(self) -> "_Partners":
        different = self.rule.different
        width = 1 if different is None else 1 + int(max(different.left.max(initial=0), different.right.max(initial=0)))
        right_groups = self._groups(self.right, width, "right")
        order = np.argsort(right_groups, kind="stable")
        right_groups, left = right_groups[order], self.right[order] if self.symmetric else self.left
        groups = self._groups(left, width, "left")
        starts, stops = (np.searchsorted(right_groups, (groups // width + step) * width) for step in (0, 1))
        gaps, gap_stops = stops, stops
        if different is not None:
            gaps, gap_stops = (np.searchsorted(right_groups, groups, side=side) for side in ("left", "right"))
        if self.symmetric:
            starts = np.arange(1, len(left) + 1) if different is None else gap_stops
            gaps = gap_stops = stops
        counts = stops - starts - (gap_stops - gaps)
        ends = np.concatenate([[0], np.cumsum(counts)])
        return _Partners(left, self.right[order], starts, gaps, gap_stops - gaps, ends)

    def _groups(self, rows: Ints, width: int, side: str) -> Ints:
        """(n,) rows of a side -> (n,) numbers of their groups of both conditions, in order of `same`."""
        groups = np.zeros(len(rows), dtype=np.int64)
        for codes in self.rule.conditions.values():
            groups = groups * width + (codes.left if side == "left" else codes.right)[rows]
        return groups


@dataclass(frozen=True, eq=False)
class _Partners:
    """For each left text (l,) the places in `right` that it pairs with: from `starts`, without `gap_sizes` at `gaps`.

    ends: (l + 1,) numbers of the pairs of the texts before each.
    """

    left: Ints
    right: Ints
    starts: Ints
    gaps: Ints
    gap_sizes: Ints
    ends: Ints
