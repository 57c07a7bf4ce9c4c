"""The input of a strategy: what it may use to choose the pairs of a round."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from al_ray.core.candidates import Candidates, Order
from al_ray.core.labels import Model
from al_ray.core.pairs import Keys
from al_ray.core.task import Split


@dataclass(frozen=True)
class RoundRequest:
    """A round, the pool, the labelled pairs, and functions that load models and search.

    split: the training pool. number: of the round, from 1. size: pairs to choose. budget: labels of all rounds
    together. once: the whole budget is labelled before the only training. last: no round follows.
    labelled: (k,) sorted keys of all labelled pairs, which `search` excludes. With ordered pairs (search.ordered_pairs)
        (a, b) and (b, a) are two keys, also where the split is symmetric and its own space counts them once.
    model: of the previous round; None before the first training. untrained: loads the pre-trained encoder.
    rng(purpose, number): a named random generator; the same stream for the same seed.
    search(model, order, count, excluded): the `count` pairs of least cost that are not among the sorted keys
        `excluded`, equal costs in order of key; fewer when they run out.
    spread(count, excluded): pairs spread over a ranking without labels; None for a run without a matcher.
    """

    split: Split
    number: int
    size: int
    budget: int
    once: bool
    last: bool
    labelled: Keys
    matched: tuple[int, int] | None
    model: Model | None
    untrained: Callable[[], Model]
    rng: Callable[[str, int], np.random.Generator]
    search: Callable[[Model, Order, int, Keys], Candidates]
    spread: Callable[[int, Keys], Candidates] | None = None

    @property
    def trained(self) -> Model:
        """The model of the previous round. A strategy that uses a model is never asked before there is one."""
        assert self.model is not None
        return self.model

    @property
    def boundary(self) -> float:
        """The cosine -b/w at which the model of the previous round predicts p = 1/2."""
        assert self.trained.scorer is not None
        return self.trained.scorer.boundary
