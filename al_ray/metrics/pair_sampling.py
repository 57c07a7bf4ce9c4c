"""Uniform samples of pairs without replacement, drawn by hash: shards draw their parts, which make up the same sample.

thin: the keys of least hash among many that are known. Samples of parts merge.
draw_pairs: pairs of a space by number. All owners make all draws 0, 1, 2... and each keeps those of its own keys, so
that equal draws meet at one owner. The sample is the first `count` accepted draws (`draws_needed`): of the draws, only
the numbers of the rejected ones travel, and these are few.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log1p, sqrt

import numpy as np

from al_ray.core.hashing import hash_keys, uniform_at
from al_ray.core.pairs import NO_KEYS, Keys, Mask, PairSpace, Rows, is_in

BLOCK = 2**20  # Draws made at a time; bounds the memory of an owner of few.


@dataclass(frozen=True)
class DrawnPairs:
    """An owner's part of the first draws: (n,) accepted keys, their numbers, and (k,) numbers of the rejected draws.

    Numbers ascend; keys are distinct and in the order of their numbers.
    """

    keys: Keys
    numbers: Rows
    rejected: Rows

    def first(self, draws: int) -> Keys:
        """Return the accepted keys, sorted, of draws whose numbers are below `draws`."""
        return np.sort(self.keys[: np.searchsorted(self.numbers, draws)])


def thin(keys: Keys, most: int, seed: int, purpose: str) -> Keys:
    """Return the `most` distinct keys of least hash, sorted; all if there are no more.

    A uniform sample without replacement. To thin the union of thinned parts gives the sample of the whole.
    """
    if len(keys) <= most:
        return np.sort(keys)
    hashes = hash_keys(keys, seed, purpose)
    return np.sort(keys[hashes < np.partition(hashes, most)[most]])


def sample_pairs(space: PairSpace, count: int, excluded: Keys, seed: int, purpose: str) -> Keys:
    """Sample `count` distinct keys uniformly from the pairs that are not `excluded`; sorted.

    excluded: (k,) sorted keys of this space, which leave at least `count` pairs.
    """
    if is_dense(count, len(excluded), space.total):
        every = np.sort(space.at(np.arange(space.total, dtype=np.int64)))
        return thin(every[~is_in(every, excluded)], count, seed, purpose)
    draws = likely_draws(count, space.total - len(excluded), space.total)
    while True:
        drawn = draw_pairs(space, draws, seed, purpose, lambda keys: is_in(keys, excluded))
        needed = draws_needed(count, drawn.rejected)
        if needed <= draws:
            return drawn.first(needed)
        draws *= 2


def is_dense(count: int, excluded: int, total: int) -> bool:
    """Return whether too many draws would be rejected, so that the least hashes of all free pairs are taken instead."""
    return 2 * (count + excluded) > total


def draw_pairs(
    space: PairSpace,
    draws: int,
    seed: int,
    purpose: str,
    excluded: Callable[[Keys], Mask],
    owned: Callable[[Keys], Mask] | None = None,
) -> DrawnPairs:
    """Draw pairs uniformly with replacement, number 0 to draws - 1, and reject excluded and repeated ones.

    excluded: (n,) sorted keys -> (n,) mask. owned: (n,) keys -> (n,) mask of this owner's; all by default. A draw
    depends on its number alone, and whether it is accepted also on earlier draws of the same key.
    """
    numbers, keys = [NO_KEYS], [NO_KEYS]
    for start in range(0, draws, BLOCK):
        number = np.arange(start, min(start + BLOCK, draws), dtype=np.int64)
        key = space.at(uniform_at(number, seed, purpose, space.total))
        mine = slice(None) if owned is None else owned(key)
        numbers.append(number[mine])
        keys.append(key[mine])
    number, key = np.concatenate(numbers), np.concatenate(keys)
    del numbers, keys
    # Stable: on ties the least number comes first. Lookups in sorted keys are many times as fast.
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    rejected = np.empty(len(key), dtype=np.bool_)
    rejected[order] = excluded(ordered) | _repeated(ordered)
    return DrawnPairs(key[~rejected], number[~rejected], number[rejected])


def _repeated(ordered: Keys) -> Mask:
    """(n,) sorted keys -> (n,) whether each equals the one before."""
    return np.concatenate([np.zeros(min(1, len(ordered)), dtype=np.bool_), ordered[1:] == ordered[:-1]])


def draws_needed(count: int, rejected: Rows) -> int:
    """Return how many draws hold `count` accepted ones, given the ascending numbers of rejected draws of all owners."""
    accepted_before = rejected - np.arange(len(rejected))
    return count + int(np.searchsorted(accepted_before, count))


def likely_draws(count: int, free: int, total: int) -> int:
    """Return a number of draws that holds `count` distinct pairs of the `free` ones of `total`, almost surely.

    The expected number and six standard deviations, if each draw is accepted with a probability of at least one half.
    """
    return ceil(-total * log1p(-count / free) + 6 * sqrt(2 * count)) + 16 if count else 0
