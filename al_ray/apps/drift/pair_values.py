"""Values of pairs in samples of texts: cosines of random pairs, and the cosine of each text's best partner."""

from dataclasses import dataclass

import numpy as np

from al_ray.core.pairs import NO_KEYS, Rows
from al_ray.core.scorer import Floats
from al_ray.core.task import Task
from al_ray.core.vectors import Vectors, paired_scores

TOLERANCE = 2.0
"""Samples whose shares of all texts differ by this factor at most have about as many of the matches of a text."""


@dataclass(frozen=True)
class SideSample:
    """Sampled texts of one side in random order: rows (n,) in the task, vectors (n, d), and the texts of the side."""

    rows: Rows
    vectors: Vectors
    texts: int

    def first(self, count: int) -> "SideSample":
        """Return the first texts of the sample, which are a smaller sample."""
        return SideSample(self.rows[:count], self.vectors[:count], self.texts)

    @property
    def share(self) -> float:
        """Return the share of all texts that are in the sample."""
        return len(self.rows) / max(1, self.texts)


def random_cosines(task: Task, left: SideSample, right: SideSample, count: int, rng: np.random.Generator) -> Floats:
    """Return the cosines of `count` random pairs of two samples that can match, or of all if there are fewer."""
    orders = np.argsort(left.rows), np.argsort(right.rows)
    space = task.space(left.rows[orders[0]], right.rows[orders[1]])
    pairs = space.pairs(np.sort(space.draw(min(count, space.total), NO_KEYS, rng)))
    places = [
        orders[side][np.searchsorted(sample.rows[orders[side]], pairs[:, side])]
        for side, sample in enumerate((left, right))
    ]
    return paired_scores(left.vectors, places[0], right.vectors, places[1])


def best_cosines(task: Task, left: SideSample, right: SideSample) -> Floats:
    """Return the highest cosine (n,) of each left text with a text that it can match; texts without one are left out.

    In a symmetric task both samples are the same.
    """
    cosines = left.vectors.astype(np.float32) @ right.vectors.astype(np.float32).T
    if task.rule is not None:
        cosines[~task.rule.table(left.rows, right.rows)] = -np.inf
    if task.symmetric:
        cosines[left.rows[:, None] == right.rows[None, :]] = -np.inf
    best = cosines.max(axis=1, initial=-np.inf).astype(np.float64)
    return best[np.isfinite(best)]
