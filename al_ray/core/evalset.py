"""The pairs that a scorer is measured on: all positives of a split, and strata of its negatives (paper, A.2).

A stratum is a sample of a part of the negatives; the parts do not overlap and together are all negatives. Each
sampled pair stands for `weight` pairs of its part, so that weighted counts over the samples estimate counts over all
pairs. Near and random are the first two; bands of cosine can be added: nothing else knows how many strata there are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from al_ray.core.errors import BadFile
from al_ray.core.metrics import Extent
from al_ray.core.pairs import Keys, distinct, is_in
from al_ray.core.scoring import Cosines
from al_ray.core.task import Split


@dataclass(frozen=True)
class Stratum:
    """Sorted keys of a uniform sample, without repeats, of a part of the negatives that has `population` pairs."""

    name: str
    keys: Keys
    population: int

    @property
    def size(self) -> int:
        """How many pairs are in the sample."""
        return len(self.keys)

    @property
    def weight(self) -> float:
        """How many negatives a sampled pair stands for."""
        return self.extent.weight

    @property
    def extent(self) -> Extent:
        """This stratum without its pairs."""
        return Extent(self.name, self.size, self.population)


@dataclass(frozen=True)
class EvaluationSet:
    """All positives of a split (sorted keys) and strata of its negatives; total_pairs counts the positives too."""

    split: str
    strata: tuple[Stratum, ...]
    positives: Keys
    total_pairs: int

    def __post_init__(self) -> None:
        """Refuse a set whose weighted counts could not be counts over all pairs."""
        accounted = len(self.positives) + sum(stratum.population for stratum in self.strata)
        if accounted != self.total_pairs:
            raise self._wrong(f"its positives and populations are {accounted:,} pairs of {self.total_pairs:,}")
        parts = (("positives", self.positives), *((stratum.name, stratum.keys) for stratum in self.strata))
        for name, keys in parts:
            if (keys[1:] <= keys[:-1]).any():
                raise self._wrong(f"the keys of {name} repeat or are out of order")
        for (name, keys), (other, others) in combinations(parts, 2):
            if _overlap(keys, others):
                raise self._wrong(f"{name} and {other} share pairs")

    def _wrong(self, fault: str) -> BadFile:
        return BadFile(f"evaluation set of {self.split}: {fault}; make it again from the task")

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The strata without their pairs."""
        return tuple(stratum.extent for stratum in self.strata)


def stratified(
    split: Split, parts: Mapping[str, Keys], most: int | None, random_pairs: int, rng: np.random.Generator
) -> EvaluationSet:
    """A stratum of each part, at most so many of its negatives, and one of the negatives in no part, called random.

    parts: name -> sorted distinct keys; no pair is in two. What is no more than asked for is taken whole. The paper's
    (A.2): one part, near, the pairs with nearby untrained embeddings, all of them.
    """
    space, positives, strata = split.space, split.positive_keys, list[Stratum]()
    for name, keys in parts.items():
        if not space.holds(space.pairs(keys)).all():
            raise BadFile(f"{name} pairs of {split.name}: some are no pairs of this split; find them again for it")
        negatives = keys[~is_in(keys, positives)]
        drawn = negatives
        if most is not None and len(negatives) > most:
            drawn = np.sort(rng.choice(negatives, most, replace=False, shuffle=False))
        strata.append(Stratum(name, drawn, len(negatives)))
    taken = distinct(np.concatenate([positives, *parts.values()]))
    others = space.total - len(taken)
    drawn = np.sort(space.draw(min(random_pairs, others), taken, rng))
    strata.append(Stratum("random", drawn, others))
    return EvaluationSet(split.name, tuple(strata), positives, space.total)


def banded(keys: Keys, cosines: Cosines, edges: Sequence[float]) -> dict[str, Keys]:
    """(n,) sorted keys with cosines, edges from the highest -> the part of each band: from an edge up to the one above.

    The last band is what is below all edges; without edges there is one, called near.
    """
    if not edges:
        return {"near": keys}
    band = np.searchsorted(-np.asarray(edges), -np.asarray(cosines), side="left")
    names = [*(f"near from {edge:g}" for edge in edges), f"near below {edges[-1]:g}"]
    return {name: keys[band == number] for number, name in enumerate(names)}


def _overlap(keys: Keys, others: Keys) -> bool:
    """Whether two sorted arrays of keys share one."""
    few, many = sorted((keys, others), key=len)
    return bool(is_in(few, many).any())
