"""Labelled comparisons for the tests of the matcher."""

from functools import cache

import numpy as np
import numpy.typing as npt

from al_ray.core.rng import generator
from al_ray.matcher.extra_trees import fit_trees
from al_ray.matcher.forest import Forest
from al_ray.matcher.model import Features

NAMES = ("cosine", "price: relative difference", "title: Jaro-Winkler")


def examples(count: int = 200, seed: int = 0) -> tuple[Features, npt.NDArray[np.int64]]:
    """Return features with equal and missing (-1) values, and labels that mostly follow the first two."""
    rng = generator(seed, "examples")
    x = np.round(rng.random((count, len(NAMES))), 2).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = -1
    return x, (x[:, 0] + 0.3 * x[:, 1] + rng.normal(0, 0.1, count) > 0.6).astype(np.int64)


@cache
def fitted(count: int = 200, seed: int = 0) -> Forest:
    """Return a forest that learnt from as many examples."""
    x, y = examples(count, seed)
    return fit_trees(x, y, np.ones(len(y)), NAMES, seed)
