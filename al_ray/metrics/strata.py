"""Evaluation sets: all positives of a split, and a stratified sample of its negatives (paper, A.2).

The strata partition the negatives. Each sampled pair represents `weight` pairs of its stratum, so that weighted counts
over the samples estimate counts over all pairs. The paper has two strata, near and random; near pairs can be divided
further into bands of cosine. No other module depends on the number of strata.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Keys, distinct, is_in
from al_ray.core.scorer import Cosines
from al_ray.core.task import Split
from al_ray.metrics.average_precision import StratumSummary
from al_ray.metrics.pair_sampling import sample_pairs, thin

RANDOM = "random"  # The stratum of all negatives that are not near.
COMPARED = 2**20  # Keys compared at a time, to need little memory.
# Purposes of the samples' hashes, with the name of the split.
NEAR_PURPOSE, RANDOM_PURPOSE = "near-pairs-", "random-pairs-"


@dataclass(frozen=True)
class Stratum:
    """A uniform sample without replacement, (n,) sorted keys, of a part of the negatives with `population` pairs."""

    name: str
    keys: Keys
    population: int

    @property
    def size(self) -> int:
        """Number of sampled pairs."""
        return len(self.keys)

    @property
    def weight(self) -> float:
        """Number of negatives that a sampled pair represents."""
        return self.summary.weight

    @property
    def summary(self) -> StratumSummary:
        """The sizes of this stratum, without its pairs."""
        return StratumSummary(self.name, self.size, self.population)


@dataclass(frozen=True)
class EvaluationSet:
    """All positives of a split (sorted keys) and strata of its negatives; total_pairs includes the positives."""

    split: str
    strata: tuple[Stratum, ...]
    positives: Keys
    total_pairs: int

    def __post_init__(self) -> None:
        """Raise BadFile if the strata and positives do not partition all pairs, or keys are unsorted or repeated."""
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
    def summaries(self) -> tuple[StratumSummary, ...]:
        """The sizes of the strata, without their pairs."""
        return tuple(stratum.summary for stratum in self.strata)


def make_evaluation_set(
    split: Split, parts: Mapping[str, Keys], most: int | None, random_pairs: int, seed: int
) -> EvaluationSet:
    """Make a stratum of each part, with at most `most` of its negatives, and one, "random", of all other negatives.

    parts: name -> sorted distinct keys; no pair may be in two. random_pairs: size of the random stratum. A stratum that
    has fewer negatives is taken whole. The paper (A.2) has one part, near: all pairs with nearby untrained embeddings.
    Samples are drawn by hash (metrics/pair_sampling.py). Raises BadFile if a part has pairs of another split.
    """
    space, positives, strata = split.space, split.positive_keys, list[Stratum]()
    for name, keys in parts.items():
        if not space.holds(space.pairs(keys)).all():
            raise BadFile(f"{name} pairs of {split.name}: some are no pairs of this split; find them again for it")
        negatives = keys[~is_in(keys, positives)]
        sample = negatives if most is None else thin(negatives, most, seed, NEAR_PURPOSE + split.name)
        strata.append(Stratum(name, sample, len(negatives)))
    taken = distinct(np.concatenate([positives, *parts.values()]))
    others = space.total - len(taken)
    sample = sample_pairs(space, min(random_pairs, others), taken, seed, RANDOM_PURPOSE + split.name)
    strata.append(Stratum(RANDOM, sample, others))
    return EvaluationSet(split.name, tuple(strata), positives, space.total)


def split_by_cosine(keys: Keys, cosines: Cosines, edges: Sequence[float]) -> dict[str, Keys]:
    """Divide (n,) sorted keys into bands of their cosines; each band is from an edge (included) up to the next higher.

    edges: descending cosines. The last band is below all edges; without edges there is one band, "near".
    """
    if not edges:
        return {"near": keys}
    band = np.searchsorted(-np.asarray(edges), -np.asarray(cosines), side="left")
    names = [*(f"near from {edge:g}" for edge in edges), f"near below {edges[-1]:g}"]
    return {name: keys[band == number] for number, name in enumerate(names)}


def _overlap(keys: Keys, others: Keys) -> bool:
    """Return whether two sorted arrays of keys intersect."""
    few, many = sorted((keys, others), key=len)
    return any(is_in(few[start : start + COMPARED], many).any() for start in range(0, len(few), COMPARED))
