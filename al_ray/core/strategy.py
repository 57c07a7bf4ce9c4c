"""How pairs are chosen: a strategy is an order on pairs, or a draw; never a loop over them (paper, 4.1 and 5.2).

`uncertainty` takes the pairs whose cosine is nearest the boundary -b/w, where p = 1/2; `adaptive` and `static` take the
highest cosines; `random`, `stated` and `stratified-*` need no model.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from al_ray.core.config import STRATIFIED, RunConfig, generator
from al_ray.core.errors import BadOption
from al_ray.core.pairs import NO_KEYS, Keys, is_in
from al_ray.core.records import Model
from al_ray.core.scoring import Cosines, Floats
from al_ray.core.task import Split

# A float32 product of unit vectors is this near the float64 one; what lies so near a cut is settled in float64.
MARGIN = 2e-6


@dataclass(frozen=True)
class Order:
    """The cost of a pair by its cosine: the distance to `centre`; an infinite centre means the highest (lowest) first.

    The limits are those of a boundary that moves out: all pairs lie on one side of it, nearest first.
    """

    centre: float

    def cost(self, cosines: Cosines) -> Floats:
        """(n,) cosines -> (n,) costs; the least is chosen first."""
        cosines = np.asarray(cosines, dtype=np.float64)
        if np.isinf(self.centre):
            return -cosines if self.centre > 0 else cosines
        return np.abs(cosines - self.centre)


HIGHEST = Order(float("inf"))


@dataclass(frozen=True)
class Candidates:
    """Pairs that a search found: (n,) distinct keys and their cosines."""

    keys: Keys
    cosines: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.keys)

    def joined(self, *others: "Candidates") -> "Candidates":
        """These and others; a pair found twice stands once."""
        keys = np.concatenate([self.keys, *(other.keys for other in others)])
        _, first = np.unique(keys, return_index=True)
        return Candidates(keys[first], np.concatenate([self.cosines, *(other.cosines for other in others)])[first])

    def least(self, order: Order, count: int) -> "Candidates":
        """The `count` pairs of least cost, in order of cost; equal costs in order of key."""
        chosen = np.lexsort((self.keys, order.cost(self.cosines)))[:count]
        return Candidates(self.keys[chosen], self.cosines[chosen])


NOTHING = Candidates(NO_KEYS, np.empty(0, dtype=np.float64))


class Least:
    """The `count` of least cost of all candidates that were added, in whatever order they came.

    bound: a cost that none of them exceeds; infinite while there are fewer. Merged when a quarter of `count` is new,
    for a merge sorts all that is kept.
    """

    def __init__(self, order: Order, count: int) -> None:
        """Start with nothing, and no bound."""
        self.order, self.count, self.bound = order, count, np.inf
        self._kept, self._new = NOTHING, list[Candidates]()

    def add(self, *parts: Candidates) -> None:
        """More candidates; a pair may come again."""
        self._new += parts
        if sum(map(len, self._new)) > (self.count // 4 if len(self._kept) == self.count else 0):
            self.result()

    def result(self) -> Candidates:
        """In order of cost, equal costs in order of key."""
        self._kept, self._new = self._kept.joined(*self._new).least(self.order, self.count), []
        if self.count and len(self._kept) == self.count:
            self.bound = float(self.order.cost(self._kept.cosines[-1:])[0])
        return self._kept


def found(keys: Keys, cosines: Cosines, labelled: Keys) -> Candidates:
    """(n,) keys, perhaps repeated, with cosines -> distinct candidates without those in the sorted `labelled`."""
    fresh = ~is_in(keys, labelled)
    keys, first = np.unique(keys[fresh], return_index=True)
    return Candidates(keys, np.asarray(cosines, dtype=np.float64)[fresh][first])


def order_of(strategy: str, model: Model) -> Order:
    """The order in which a strategy wants pairs under a model; untrained it has no boundary: the highest first."""
    if strategy == "uncertainty" and model.scorer is not None:
        return Order(model.scorer.boundary)
    return HIGHEST


def drawn(config: RunConfig, split: Split, number: int, labelled: Keys) -> Keys | None:
    """The keys of round `number` where no model is asked: a draw of the pool or of the stated pairs; else None.

    labelled: sorted. `random` takes what is left when that is less than the round's share. `stated` takes every
    positive and every stated negative whatever the budget (5.2): by rounds in one drawn order, and in the last all that
    are left. Stated seeding draws the first batch from those (5.7), in the same order.
    """
    if config.strategy == "random":
        left = split.space.total - len(labelled)
        rng = generator(config.seed, "random", number)
        return split.space.draw(min(config.batches[number - 1], left), labelled, rng)
    if config.strategy in STRATIFIED:
        return stratified(config, split)
    if config.strategy == "stated" and config.once:
        return stated(split)
    if config.strategy == "stated" or (config.seeding == "stated" and number == 1):
        every = generator(config.seed, "stated-seed").permutation(stated(split))
        rest = config.strategy == "stated" and number == config.rounds
        return every[~is_in(every, labelled)][: None if rest else config.batches[number - 1]]
    return None


def stratified(config: RunConfig, split: Split) -> Keys:
    """Positives and negatives drawn apart, each uniformly (5.4): as many as were told, or all positives.

    To all positives the rest of the budget is added, or as many negatives where that is more: the paper's WikiQA and
    its QQP.
    """
    known = split.positive_keys
    every = len(known), max(sum(config.batches) - len(known), len(known))
    positives, negatives = every if config.strategy == "stratified-all" or config.matched is None else config.matched
    if positives > len(known):
        raise BadOption(f"--matched asks for {positives:,} positives, and {split.name} has {len(known):,}")
    rng = generator(config.seed, "stratified")
    some = rng.choice(known, positives, replace=False)
    others = split.space.draw(min(negatives, split.space.total - len(known)), known, rng)
    return rng.permutation(np.concatenate([some, others]))


def stated(split: Split) -> Keys:
    """Sorted keys of all positives of the split and all its stated negatives (3.1.2)."""
    return np.union1d(split.positive_keys, split.space.keys(split.stated_negatives))
