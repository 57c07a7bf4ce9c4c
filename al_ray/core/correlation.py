"""Rank correlation: how STS is measured (paper 003)."""

import numpy as np

from al_ray.core.errors import BadFile
from al_ray.core.scoring import Floats


def ranks(values: Floats) -> Floats:
    """(n,) values -> (n,) ranks from 1; equal values share the mean of theirs."""
    _, number, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[number]


def spearman(ones: Floats, others: Floats) -> float:
    """Spearman's rho: Pearson's correlation of the ranks. NaN where either side is all the same."""
    if np.isnan(ones).any() or np.isnan(others).any():
        raise BadFile("a score is not a number (NaN), and has no rank; train the model again")
    one, other = (ranks(values) - (len(values) + 1) / 2 for values in (ones, others))
    norm = np.sqrt((one @ one) * (other @ other))
    return float(one @ other / norm) if norm > 0 else float("nan")
