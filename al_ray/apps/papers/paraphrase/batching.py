"""Shuffle pairs into batches that hold no two pairs of one component."""

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadOption
from al_ray.core.pairs import Rows


def random_batches(component: Rows, size: int, rng: np.random.Generator) -> list[Rows]:
    """(n,) components of pairs, -> batches of exactly `size` pairs in random order.

    A last partial batch is dropped; fewer pairs than `size` make one batch. BadOption for fewer than two.
    """
    size = min(size, len(component))
    _require_two(size)
    order = rng.permutation(len(component))
    return [order[start : start + size] for start in range(0, len(order) - size + 1, size)]


def separate_batches(component: Rows, size: int, rng: np.random.Generator) -> list[Rows]:
    """(n,) components of pairs -> batches of exactly `size` pairs in random order, no two of one component.

    So no q2_j of a batch is a known paraphrase of another q1_i. A component with more pairs than there are batches
    contributes a random subset, another one in every epoch; fewer components than `size` make smaller batches.
    """
    _, inverse, counts = np.unique(component, return_inverse=True, return_counts=True)
    size = min(size, len(counts))
    _require_two(size)
    batches = len(component) // size
    while (fewer := int(np.minimum(counts, batches).sum()) // size) < batches:
        batches = fewer
    # Components in random order, and the pairs of each in random order.
    turn, order = rng.permutation(len(counts)), rng.permutation(len(component))
    line = order[np.argsort(turn[inverse[order]], kind="stable")]
    counts = counts[np.argsort(turn)]
    within = np.arange(len(line)) - np.repeat(np.cumsum(counts) - counts, counts)
    # Consecutive pairs go to different batches, and at most `batches` consecutive ones are of one component.
    return list(line[within < batches][: size * batches].reshape(size, batches).T)


def random_negative_pairs(component: Rows, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """(n,) components of questions, two at least -> (about `count`, 2) random pairs of different components."""
    pairs = rng.integers(len(component), size=(count, 2))
    return pairs[component[pairs[:, 0]] != component[pairs[:, 1]]]


def _require_two(size: int) -> None:
    if size < 2:
        raise BadOption("a batch needs two pairs of different clusters, and the train split has fewer; give it more")
