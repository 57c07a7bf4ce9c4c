"""A logistic regression on linear splines: the log-odds of a match are a sum of one curve for each comparison.

A generalised additive model (Hastie and Tibshirani 1986). The curve of a comparison is linear between KNOTS knots,
which divide the range of the labelled rows evenly, and constant outside. All curves are learnt at once, with an L2
penalty on their heights (INVERSE_PENALTY is scikit-learn's C). It has a smooth p, and needs fewer labels than trees
where comparisons do not interact.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from al_ray.core.scorer import Floats
from al_ray.matcher.model import (
    Arrays,
    Contributions,
    Features,
    Learner,
    array_of,
    check_examples,
    check_features,
    in_blocks,
)

KNOTS = 5
INVERSE_PENALTY = 0.3
STEPS = 2000
FARTHEST = 1e6
"""Largest log-odds in a file."""


@dataclass(frozen=True)
class Splines:
    """The curves: knots (F, K), rising, and heights (F, K), log-odds at the knots, both float64; offset (1,), log-odds.

    The heights of a comparison average to 0 over the labelled rows, by weight, so offset is what is known without any.
    """

    names: tuple[str, ...]
    knots: Floats
    heights: Floats
    offset: Floats

    def __post_init__(self) -> None:
        for array in self.arrays().values():
            array.setflags(write=False)

    def probability(self, features: Features, threads: int = 1) -> Floats:
        """Return p of each row of (n, F) features: (n,) float64 in [0, 1]. BadOption for NaN or infinity."""
        features = check_features(features, self.names)
        blocks = in_blocks(lambda block: _probability(self.offset + _summed(self._odds(block))), features, threads)
        return np.concatenate([np.empty(0), *blocks])

    def contributions(self, features: Features, threads: int = 1) -> Contributions:
        """Return what each comparison adds to p.

        On the straight way from the log-odds `offset` to those of the pair, each comparison takes its share of the way
        (integrated gradients: Sundararajan, Taly, Yan 2017), so its sign is that of its log-odds.
        """
        features = check_features(features, self.names)
        values = np.concatenate([np.empty((0, len(self.names))), *in_blocks(self._explained, features, threads)])
        return Contributions(float(_probability(self.offset)[0]), values)

    def arrays(self) -> Arrays:
        """Return all that the model consists of but its names, by name."""
        return {"knots": self.knots, "heights": self.heights, "offset": self.offset}

    def _odds(self, block: Features) -> Floats:
        """Return (F, n) log-odds of each comparison."""
        columns = block.T.astype(np.float64)
        return np.stack([np.interp(*one) for one in zip(columns, self.knots, self.heights, strict=True)])

    def _explained(self, block: Features) -> Floats:
        odds = self._odds(block)
        way = _summed(odds)
        moved = _probability(self.offset + way) - _probability(self.offset)
        # For a short way the quotient loses digits, and the slope at its middle is as good.
        middle = _probability(self.offset + way / 2)
        short = np.abs(way) < 1e-5
        slope = np.where(short, middle * (1 - middle), moved / np.where(short, 1, way))
        return (odds * slope).T


def _summed(odds: Floats) -> Floats:
    """Return the sum of the rows, one after the other, so that it does not depend on the number of columns."""
    total = np.zeros(odds.shape[1])
    for one in odds:
        total = total + one
    return total


def _probability(odds: Floats) -> Floats:
    """Return the probability of log-odds."""
    # exp of a number of at most 0 does not overflow.
    small = np.exp(-np.abs(odds))
    return np.where(odds >= 0, 1 / (1 + small), small / (1 + small))


def fit_splines(
    features: Features, labels: npt.ArrayLike, weights: npt.ArrayLike, names: Sequence[str], seed: int
) -> Splines:
    """Learn the curves from (n, F) features, (n,) labels of 0 and 1, and (n,) weights of at least 0.

    There is no chance in it: `seed` is there for learners that have. Rows of weight 0 are left out. p is 1/2 everywhere
    if no row is left; of labels that are all equal p is (share + 1/2) / (rows + 1) by weight, as log-odds are finite. A
    comparison that is constant adds nothing. BadOption for NaN or infinite features.
    """
    x, y, w = check_examples(features, labels, weights, names)
    if len(set(y.tolist())) < 2:
        share = (float(w @ y) + 0.5) / (float(w.sum()) + 1)
        zeros = np.zeros((len(names), KNOTS))
        knots = np.tile(np.arange(KNOTS, dtype=np.float64), (len(names), 1))
        return Splines(tuple(names), knots, zeros, np.array([np.log(share / (1 - share))]))
    low, high = x.min(axis=0).astype(np.float64), x.max(axis=0).astype(np.float64)
    knots = np.linspace(low, np.where(high > low, high, low + 1), KNOTS, axis=1)
    hats = np.stack([_hats(column, at) for column, at in zip(x.T.astype(np.float64), knots, strict=True)], axis=1)
    means = np.average(hats, axis=0, weights=w)
    rows = (hats - means).reshape(len(x), -1)
    from sklearn.linear_model import LogisticRegression

    # Sums of BLAS depend on the number of its threads.
    with threadpool_limits(1, user_api="blas"):
        fitted = LogisticRegression(C=INVERSE_PENALTY, max_iter=STEPS).fit(rows, y, sample_weight=w)
    heights = fitted.coef_.reshape(len(names), KNOTS).astype(np.float64)
    centred = heights - (means * heights).sum(axis=1, keepdims=True)
    return Splines(tuple(names), knots, centred, fitted.intercept_.astype(np.float64))


def _hats(column: Floats, knots: Floats) -> Floats:
    """Return (n, K): of each value what the curve that is 1 at a knot and 0 at the others has there."""
    return np.stack([np.interp(column, knots, one) for one in np.eye(KNOTS)], axis=1)


def read_splines(names: tuple[str, ...], arrays: Arrays) -> Splines:
    """Return the curves of arrays that others wrote; ValueError if they are none."""
    knots = array_of(arrays, "knots", np.float64, (len(names), KNOTS))
    heights = array_of(arrays, "heights", np.float64, (len(names), KNOTS))
    offset = array_of(arrays, "offset", np.float64, (1,))
    if not np.isfinite(knots).all() or not (np.diff(knots, axis=1) > 0).all():
        raise ValueError("knots do not rise")
    # The comparison is false for NaN, too.
    if not (np.abs(heights) <= FARTHEST).all() or not (np.abs(offset) <= FARTHEST).all():
        raise ValueError(f"heights or offset are not from {-FARTHEST:g} to {FARTHEST:g}")
    return Splines(names, knots, heights, offset)


SPLINES = Learner(fit_splines, read_splines)
