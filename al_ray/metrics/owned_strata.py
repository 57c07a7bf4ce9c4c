"""The strata of an evaluation set where each pair is known to one owner: the same samples as metrics/strata.py draws.

A shard owns the pairs whose right text it has. Owners return how many pairs they have in each stratum, a few hashes
near the cut of a sample, and the numbers of draws that they reject. These decide the cut of each sample, by which every
owner knows its own pairs of it; one of them merges those of all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt
from typing import Any, Literal

import numpy as np

from al_ray.core.hashing import Hashes, hash_keys
from al_ray.core.pairs import NO_KEYS, Keys, Mask, PairSpace, Rows, is_in
from al_ray.core.scorer import Cosines
from al_ray.core.task import Split
from al_ray.metrics.average_precision import Ints
from al_ray.metrics.pair_sampling import BLOCK, DrawnPairs, draw_pairs, draws_needed, is_dense, likely_draws
from al_ray.metrics.strata import NEAR_PURPOSE, RANDOM, RANDOM_PURPOSE, EvaluationSet, Stratum, split_by_cosine

HIGHEST_HASH = 2**64 - 1

AskOwners = Callable[..., list[Any]]
"""Calls a method of OwnedStrata of every owner: its name and arguments -> the answers."""


@dataclass(frozen=True, eq=False)
class StrataRequest:
    """What decides the strata of a split besides its near pairs.

    split: its name. positives: (p,) sorted keys. edges: cosines that divide the near pairs, as in split_by_cosine.
    width, symmetric: as in PairSpace.
    """

    split: str
    positives: Keys
    edges: tuple[float, ...]
    seed: int
    width: int
    symmetric: bool


@dataclass(frozen=True)
class SampleCut:
    """Decides the sample of a stratum: each owner returns its part of it by a call of `method` with `argument`.

    population: negatives of the stratum. method: "least" or "drawn" of OwnedStrata.
    """

    stratum: str
    population: int
    method: Literal["least", "drawn"]
    argument: int | None


@dataclass(frozen=True, eq=False)
class OwnedStrata:
    """An owner's pairs of a split: those whose right text is one of `right` (r,), sorted rows.

    space: all pairs of the split. near: stratum -> (n,) sorted keys of its negatives. positives: (p,) sorted keys. The
    random stratum excludes both.
    """

    request: StrataRequest
    space: PairSpace
    right: Rows
    near: Mapping[str, Keys]
    positives: Keys

    @staticmethod
    def of(request: StrataRequest, space: PairSpace, right: Rows, near: Keys, cosines: Cosines) -> "OwnedStrata":
        """Make the strata of an owner's near pairs (n,), sorted keys, and their cosines (n,), if there are edges."""
        positives = request.positives[is_in(request.positives % space.width, right)]
        parts = split_by_cosine(near, cosines, request.edges)
        return OwnedStrata(
            request, space, right, {name: _without(keys, positives) for name, keys in parts.items()}, positives
        )

    def sizes(self) -> Ints:
        """Return the numbers (s + 1,) of pairs: in each near stratum, and of all that the random one excludes."""
        negatives = [len(keys) for keys in self.near.values()]
        return np.array([*negatives, sum(negatives) + len(self.positives)], dtype=np.int64)

    def hashes(self, stratum: str, low: int, high: int) -> tuple[int, Hashes]:
        """Return how many pairs of a stratum have a hash below `low`, and the hashes from `low` to `high` inclusive."""
        below, window = 0, [np.empty(0, dtype=np.uint64)]
        for _, hashes in self._hashed(stratum):
            below += int((hashes < np.uint64(low)).sum())
            window.append(hashes[(hashes >= np.uint64(low)) & (hashes <= np.uint64(high))])
        return below, np.concatenate(window)

    def sample(self, cut: SampleCut) -> Keys:
        """Return the keys of the sample of a stratum that are here."""
        return self.least(cut.stratum, cut.argument) if cut.method == "least" else self.drawn(cut.argument or 0)

    def least(self, stratum: str, below: int | None) -> Keys:
        """Return the keys of a stratum whose hash is below a limit; all with None."""
        if below is None:
            return self._keys(stratum)
        return np.concatenate([NO_KEYS, *(keys[hashes < np.uint64(below)] for keys, hashes in self._hashed(stratum))])

    def rejected(self, draws: int) -> Rows:
        """Return the ascending numbers of the rejected ones among the first draws of the random stratum."""
        return self._draw(draws).rejected

    def drawn(self, draws: int) -> Keys:
        """Return the keys that are accepted among the first draws of the random stratum."""
        return self._draw(draws).first(draws)

    def _draw(self, draws: int) -> DrawnPairs:
        # All draws are repeated in each call, so that nothing but the strata is kept between calls.
        purpose, seed = RANDOM_PURPOSE + self.request.split, self.request.seed
        return draw_pairs(self.space, draws, seed, purpose, self._taken, self._owns)

    def _owns(self, keys: Keys) -> np.ndarray:
        return is_in(keys % self.space.width, self.right)

    def _taken(self, keys: Keys) -> Mask:
        return np.any([is_in(keys, taken) for taken in (self.positives, *self.near.values())], axis=0)

    def _hashed(self, stratum: str) -> Iterator[tuple[Keys, Hashes]]:
        """Yield the keys of a stratum with their hashes, some at a time: there may be many."""
        purpose = RANDOM_PURPOSE if stratum == RANDOM else NEAR_PURPOSE
        keys = self._keys(stratum)
        for start in range(0, len(keys), BLOCK):
            some = keys[start : start + BLOCK]
            yield some, hash_keys(some, self.request.seed, purpose + self.request.split)

    def _keys(self, stratum: str) -> Keys:
        return self._free if stratum == RANDOM else self.near[stratum]

    @cached_property
    def _free(self) -> Keys:
        """All own pairs that are not taken. Only for a pool so small that most draws would be rejected."""
        own = [NO_KEYS]
        for start in range(0, self.space.total, BLOCK):
            keys = self.space.at(np.arange(start, min(start + BLOCK, self.space.total), dtype=np.int64))
            own.append(keys[self._owns(keys)])
        every = np.sort(np.concatenate(own))
        return every[~self._taken(every)]


def _without(keys: Keys, few: Keys) -> Keys:
    """(n,) sorted keys -> those that are not among a few sorted others; the array itself if that is all."""
    at = np.searchsorted(keys, few[is_in(few, keys)])
    return np.delete(keys, at) if len(at) else keys


def cut_samples(
    split: Split, edges: Sequence[float], sizes: Sequence[Ints], most: int | None, random_pairs: int, ask: AskOwners
) -> list[SampleCut]:
    """Return the cuts of the samples that make_evaluation_set takes of all owners' near pairs, in its order of strata.

    sizes: of each owner (OwnedStrata.sizes). most, random_pairs: as in make_evaluation_set.
    """
    *populations, taken = np.sum(sizes, axis=0).tolist()
    names, total = split_by_cosine(NO_KEYS, np.empty(0), edges), split.space.total
    cuts = [
        _cut_of_least(ask, name, population if most is None else most, population)
        for name, population in zip(names, populations, strict=True)
    ]
    others = total - taken
    count = min(random_pairs, others)
    if is_dense(count, taken, total):
        return [*cuts, _cut_of_least(ask, RANDOM, count, others)]
    return [*cuts, SampleCut(RANDOM, others, "drawn", _draws(ask, count, others, total))]


def merge_samples(
    split: str, positives: Keys, total: int, cuts: Sequence[SampleCut], ask: Callable[[SampleCut], list[Keys]]
) -> EvaluationSet:
    """Merge the owners' parts of all samples. ask: cut -> the keys of its sample that each owner has.

    positives: (p,) sorted keys of the split. total: pairs of the split. BadFile if the strata do not partition them.
    """
    strata = [Stratum(cut.stratum, _merged(ask(cut)), cut.population) for cut in cuts]
    return EvaluationSet(split, tuple(strata), positives, total)


def _cut_of_least(ask: AskOwners, stratum: str, count: int, population: int) -> SampleCut:
    """Return the cut of the `count` keys of least hash of a stratum; all if there are no more (thin)."""
    below, spread = None, ceil(6 * sqrt(count + 1))
    while count < population and below is None:
        # Hashes are uniform: 2^64 count / population is six standard deviations or less from the cut, almost surely.
        low = 2**64 * max(0, count - spread) // population
        high = min(HIGHEST_HASH, 2**64 * (count + spread) // population)
        answers = ask("hashes", stratum, low, high)
        inside = np.sort(np.concatenate([hashes for _, hashes in answers]))
        place = count - sum(before for before, _ in answers)
        if 0 <= place < len(inside):
            below = int(inside[place])
        spread *= 4
    return SampleCut(stratum, population, "least", below)


def _draws(ask: AskOwners, count: int, free: int, total: int) -> int:
    """Return how many draws have the first `count` accepted ones (sample_pairs)."""
    draws = likely_draws(count, free, total)
    while (needed := draws_needed(count, np.sort(np.concatenate(ask("rejected", draws))))) > draws:
        draws *= 2
    return needed


def _merged(parts: list[Keys]) -> Keys:
    """Keys of all owners -> one array, sorted; in place, for there may be many."""
    keys = np.concatenate(parts)
    keys.sort()
    return keys
