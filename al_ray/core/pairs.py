"""Pairs of texts as (n, 2) rows and as int64 keys, and the space of all pairs of a pool.

A pair (left, right) has the key left * width + right, where width is the number of right texts of the whole task, so
that a key names the same pair in every split. In a symmetric task pairs are unordered, stored as left < right, and a
text forms no pair with itself (docs/departures.md, 1).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadOption
from al_ray.core.pair_rule import AllowedPairs, PairRule

Rows = npt.NDArray[np.int64]
Keys = npt.NDArray[np.int64]
Pairs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

TABLED = 4  # Rows of a range for each key that is looked up, up to which a table takes less time than a search.
NO_KEYS: Keys = np.empty(0, dtype=np.int64)
NO_PAIRS: Pairs = np.empty((0, 2), dtype=np.int64)


def as_pairs(left: npt.ArrayLike, right: npt.ArrayLike) -> Pairs:
    """Two sequences of n rows -> (n, 2) pairs."""
    return np.stack([np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64)], axis=1)


def is_in(keys: Keys, known: Keys) -> Mask:
    """(n,) keys, (k,) SORTED known keys -> (n,) whether each is among them."""
    if not len(known):
        return np.zeros(len(keys), dtype=np.bool_)
    first, last = int(known[0]), int(known[-1])
    if last - first < TABLED * len(keys):
        # Of many keys in a narrow range a table is several times as quick as a search.
        table = np.zeros(last - first + 3, dtype=np.bool_)
        table[known - (first - 1)] = True
        return table[np.clip(keys, first - 1, last + 1) - (first - 1)]
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return known[at] == keys


def distinct(*parts: Keys) -> Keys:
    """(n,) keys of each part -> sorted distinct keys of all. np.unique is a hundred times as slow at 10^7 keys."""
    ordered = np.concatenate(parts)
    ordered.sort()
    return ordered[np.concatenate([np.ones(min(1, len(ordered)), dtype=np.bool_), ordered[1:] != ordered[:-1]])]


@dataclass(frozen=True)
class PairSpace:
    """All pairs of `left` rows with `right` rows, the pool of one split; they are never materialised.

    left, right: sorted distinct rows of the task's texts; the same array when symmetric.
    width: number of right texts of the whole task.
    rule: which of the pairs can match, and so belong to the pool; None for all.
    """

    left: Rows
    right: Rows
    width: int
    symmetric: bool
    rule: PairRule | None = None

    @cached_property
    def total(self) -> int:
        """Number of pairs."""
        if self._allowed is not None:
            return self._allowed.total
        count = len(self.left)
        return count * (count - 1) // 2 if self.symmetric else count * len(self.right)

    def keys(self, pairs: Pairs) -> Keys:
        """(n, 2) pairs -> (n,) keys; when symmetric, both orders of a pair have one key."""
        if self.symmetric:
            return pairs.min(axis=1) * self.width + pairs.max(axis=1)
        return pairs[:, 0] * self.width + pairs[:, 1]

    def pairs(self, keys: Keys) -> Pairs:
        """(n,) keys -> (n, 2) pairs."""
        return np.stack(np.divmod(keys, self.width), axis=1)

    def holds(self, pairs: Pairs) -> Mask:
        """(n, 2) pairs -> (n,) whether each belongs to this space."""
        inside = is_in(pairs[:, 0], self.left) & is_in(pairs[:, 1], self.right)
        inside &= (pairs[:, 0] != pairs[:, 1]) | (not self.symmetric)
        if self.rule is not None:
            # Rows of no text have no group.
            inside[inside] = self.rule.allows(pairs[inside])
        return inside

    def at(self, index: npt.NDArray[np.int64]) -> Keys:
        """(n,) distinct positions in [0, total) -> (n,) distinct keys: enumerates the space in a fixed order."""
        if self._allowed is not None:
            return self.keys(self._allowed.at(index))
        if not self.symmetric:
            left, right = np.divmod(index, max(1, len(self.right)))
            return self.keys(as_pairs(self.left[left], self.right[right]))
        # Pair number r*(r-1)/2 + c is (c, r) with c < r. Beyond 10^16 pairs the float root can be one too large, which
        # the next line corrects. It is never too small: the rounding of i = r*(r-1)/2 cannot bring its root below r.
        high = ((1 + np.sqrt(1 + 8 * index.astype(np.float64))) / 2).astype(np.int64)
        high -= high * (high - 1) // 2 > index
        low = index - high * (high - 1) // 2
        return self.keys(as_pairs(self.left[low], self.left[high]))

    @cached_property
    def _allowed(self) -> AllowedPairs | None:
        return None if self.rule is None else AllowedPairs(self.left, self.right, self.rule, self.symmetric)

    def draw(self, count: int, excluded: Keys, rng: np.random.Generator) -> Keys:
        """Sample `count` distinct keys uniformly from the pairs that are not `excluded`; they come in random order.

        excluded: (k,) sorted keys of this space. Raises BadOption when fewer than `count` pairs are left.
        """
        free = self.total - len(excluded)
        if count > free:
            raise BadOption(f"cannot draw {count:,} pairs: only {free:,} of {self.total:,} are left; ask for fewer")
        if 2 * (count + len(excluded)) > self.total:
            every = np.sort(self.at(np.arange(self.total, dtype=np.int64)))
            return rng.permutation(every[~is_in(every, excluded)])[:count]
        # Rejection sampling is fast here, for at least half of all pairs are free.
        sample = NO_KEYS
        while len(sample) < count:
            size = int((count - len(sample)) * 1.1) + 16
            fresh = self.at(rng.integers(0, self.total, size, dtype=np.int64))
            # Sorted: a lookup of 10^7 sorted keys among 10^7 takes 0.3 s, of unsorted ones 13 s.
            sample = distinct(np.concatenate([sample, fresh]))
            sample = sample[~is_in(sample, excluded)]
        return rng.permutation(sample)[:count]
