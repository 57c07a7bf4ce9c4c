"""Why a pair has its p: what each comparison adds, in order, and which comparisons matter over many pairs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from al_ray.core.scorer import Floats
from al_ray.matcher.model import Contributions, Features, Model


@dataclass(frozen=True)
class Part:
    """A comparison of a pair: its name, its value (-1: missing), and what it adds to p; negative: against a match."""

    name: str
    value: float
    adds: float


@dataclass(frozen=True)
class Explanation:
    """Why a pair has its p: p = base + the sum of all `adds`, but for the rounding of float64.

    base: p of a pair of which no comparison is known. parts: of all comparisons, the one that adds or takes most first;
    equal ones in the order of the features.
    """

    p: float
    base: float
    parts: tuple[Part, ...]


def explain(model: Model, features: Features) -> list[Explanation]:
    """Return why each row of (n, F) features has its p."""
    probability, found = model.probability(features), model.contributions(features)
    order = np.argsort(-np.abs(found.values), axis=1, kind="stable")
    return [
        Explanation(
            float(p),
            found.base,
            tuple(Part(model.names[column], float(row[column]), float(added[column])) for column in columns),
        )
        for p, row, added, columns in zip(probability, features, found.values, order, strict=True)
    ]


def importance(contributions: Sequence[Contributions]) -> Floats:
    """Return (F,) what each comparison adds or takes on average over the pairs of all blocks, without its sign.

    In units of p, over the pairs that are given: over candidates it says what orders them. ValueError without pairs.
    """
    count = sum(len(one.values) for one in contributions)
    if not count:
        raise ValueError("no pairs: importance is a mean over pairs")
    return np.sum([np.abs(one.values).sum(axis=0) for one in contributions], axis=0) / count
