"""Shares of labelled pairs with their 95% intervals."""

import numpy as np
import numpy.typing as npt

from al_ray.metrics.average_precision import Estimate

Z = 1.959964
"""Of a normal distribution: the quantile 0.975."""


def wilson(counts: npt.ArrayLike, n: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return Wilson's 95% limits (low, high) of shares: (k,) counts of n >= 1 draws each, or one count."""
    k = np.asarray(counts, dtype=np.float64)
    centre = (k + Z**2 / 2) / (n + Z**2)
    half = Z * np.sqrt(k * (n - k) / n + Z**2 / 4) / (n + Z**2)
    return centre - half, centre + half


def share_estimate(count: int, n: int) -> Estimate:
    """Return a share, count of n >= 1, with Wilson's 95% interval."""
    low, high = (float(end) for end in wilson(count, n))
    # At 0 and n a limit is the share itself, but for rounding.
    return Estimate(count / n, low if count else 0.0, high if count < n else 1.0)


def next_count(count: int, n: int, size: int) -> tuple[int, int]:
    """Return a 95% interval of the count among the next `size` draws, after `count` of n >= 1 draws alike.

    A normal approximation around Wilson's centre, with the variance of both samples, rounded to whole numbers outward.
    """
    share = (count + Z**2 / 2) / (n + Z**2)
    half = Z * np.sqrt(share * (1 - share) * (1 / n + 1 / size)) * size
    return max(0, int(np.floor(share * size - half))), min(size, int(np.ceil(share * size + half)))
