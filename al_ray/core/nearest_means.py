"""Means of texts by row: how near each lies to the texts of the other side (core/neighbourhood.py)."""

from dataclasses import dataclass

import numpy as np

from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats


@dataclass(frozen=True)
class NearestMeans:
    """Of sorted rows (n,) of texts of one side: means (n,), each in [-1, 1]. 0 for a text that can match none."""

    rows: Rows
    means: Floats

    def of(self, rows: Rows) -> Floats:
        """(k,) rows, which may repeat -> (k,) means."""
        return self.means[np.searchsorted(self.rows, rows)]

    def joined(self, *others: "NearestMeans") -> "NearestMeans":
        """Join with those of other texts."""
        rows = np.concatenate([self.rows, *(other.rows for other in others)])
        means, order = np.concatenate([self.means, *(other.means for other in others)]), np.argsort(rows)
        return NearestMeans(rows[order], means[order])

    def times(self, weight: float) -> "NearestMeans":
        """Return these means times a weight, to be subtracted from the cosines of each text."""
        return NearestMeans(self.rows, weight * self.means)
