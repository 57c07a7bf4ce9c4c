"""Strategies on trial: functions as in al_ray/active_learning/strategies.py that simulated runs compare with those."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import cast

import numpy as np

from al_ray.active_learning.round_request import RoundRequest
from al_ray.active_learning.strategies import STRATEGIES, Strategy
from al_ray.core.candidates import HIGHEST, Candidates, Order

WIDER = 8
"""Times the size of the batch that is searched for candidates of which few a left text are taken."""


def capped(request: RoundRequest, most: int) -> Candidates:
    """Choose pairs near the boundary, at most `most` of a left text; if there are too few, `most` more of each."""
    found = request.search(request.trained, Order(request.boundary), WIDER * request.size, request.labelled)
    return take_spread(found, request, most)


def capped_highest(request: RoundRequest, most: int) -> Candidates:
    """Choose pairs of the highest scores under the latest model, `most` of a left text as `capped` does."""
    found = request.search(request.trained, HIGHEST, WIDER * request.size, request.labelled)
    return take_spread(found, request, most)


def take_spread(candidates: Candidates, request: RoundRequest, most: int) -> Candidates:
    """Take the first `most` candidates of every left text, then the next `most` of every one, up to the batch's size.

    Within each pass the candidates stay in order of cost.
    """
    left = candidates.keys // request.split.space.width
    order = np.argsort(left, kind="stable")
    ranks = np.empty(len(left), dtype=np.int64)
    ranks[order] = np.arange(len(left)) - np.searchsorted(left[order], left[order])
    chosen = np.argsort(ranks // most, kind="stable")[: request.size]
    return Candidates(candidates.keys[chosen], candidates.cosines[chosen])


def near_probability(request: RoundRequest, p: float) -> Candidates:
    """Choose the pairs whose score is nearest to the one of probability p; `uncertainty` has p = 1/2."""
    scorer = request.trained.scorer
    assert scorer is not None
    shift = float(np.log(p / (1 - p))) / scorer.weight if scorer.weight else 0.0
    return request.search(request.trained, Order(request.boundary + shift), request.size, request.labelled)


TRIALS: Mapping[str, Strategy] = {
    **{f"capped-{k}": Strategy(partial(capped, most=k), "on trial", uses_model=True) for k in (1, 3, 10)},
    **{f"adaptive-capped-{k}": Strategy(partial(capped_highest, most=k), "on trial", uses_model=True) for k in (1, 3)},
    **{
        f"near-{round(100 * p):02}": Strategy(partial(near_probability, p=p), "on trial", uses_model=True)
        for p in (0.05, 0.1, 0.2, 0.3, 0.7, 0.9)
    },
}
"""Strategies on trial by name."""


@contextmanager
def on_trial() -> Iterator[None]:
    """Add the strategies on trial to the registry, which the loop and the options of a run read."""
    registry = cast(dict[str, Strategy], STRATEGIES)
    registry |= TRIALS
    try:
        yield
    finally:
        for name in TRIALS:
            del registry[name]
