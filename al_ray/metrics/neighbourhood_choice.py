"""Choose the neighbourhood of scores (core/neighbourhood.py) on labelled pairs that the model has not been trained on.

The pairs are all batches so far, each under the model before it. A strategy chose them, near a boundary: their scores
are almost equal by the number with which they were chosen, and less so by any other, so average precision over them
compares nothing. But the strategy looked at cosines and means alone. Of all pairs with one cosine and one mean it took
some without their labels, so a logistic regression of the labels on both is that of all such pairs:

    p = sigmoid(w (cosine - a * mean) + b),  w >= 0

A batch has w and b of its own, as scales of models differ. The likelihoods of a over batches are multiplied with a
prior, and the mean of the result is taken. A batch adds to what the batches before it say, so a does not jump.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats, Labels

NUMBERS = np.arange(21) / 20
"""The numbers a that are compared."""
PRIORS = ((0.5, 0.25), (0.25, 0.125))
"""Mean and standard deviation of a normal prior, for one side and for both, which subtract twice as much."""
SPREAD = 3.0
"""Standard deviation of a prior of w and b, for cosines of deviation 1. Without it a batch whose scores by one number
are nearly equal would take any w, and say the same of all numbers on one side of that one."""
STEPS = 50


@dataclass(frozen=True)
class Choice:
    """The chosen number, and the ends of its 95% credible interval."""

    neighbourhood: float
    low: float
    high: float

    def as_dict(self) -> dict[str, Any]:
        """Return what round-NNN/neighbourhood.json has of it."""
        return asdict(self)


@dataclass(frozen=True)
class BatchScores:
    """Labelled pairs under a model: (n,) cosines, mean cosines of the left texts with their nearest, left rows, labels.

    With both sides the means are sums of those of both texts. The labels are 0 or 1.
    """

    cosines: Floats
    means: Floats
    left: Rows
    labels: Labels


def log_likelihoods(pairs: BatchScores) -> Floats:
    """Return (21,) the log-likelihood of the labels of a batch by each of NUMBERS, with the best w and b.

    Pairs of one left text are no independent labels, so they count together as one. 0 everywhere where labels are all
    equal, or there are none: they say nothing.
    """
    labels = pairs.labels.astype(np.float64)
    if not len(labels) or labels.all() or not labels.any():
        return np.zeros(len(NUMBERS))
    # One measure for all numbers: the prior of w must not prefer one of them.
    deviation = max(float(pairs.cosines.std()), 1e-12)
    scores = [pairs.cosines - a * pairs.means for a in NUMBERS]
    found = [_log_likelihood((one - one.mean()) / deviation, labels) for one in scores]
    return np.array(found) * (len(np.unique(pairs.left)) / len(labels))


def choose(batches: Sequence[Floats], both_sides: bool) -> Choice:
    """Return the mean of a and its interval, from the log-likelihoods (21,) of batches; of none, by the prior alone."""
    mean, deviation = PRIORS[both_sides]
    logs = np.sum([np.zeros(len(NUMBERS)), *batches], axis=0) - (NUMBERS - mean) ** 2 / (2 * deviation**2)
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    below = np.cumsum(shares)
    low, high = (float(NUMBERS[np.searchsorted(below, end)]) for end in (0.025, 0.975))
    return Choice(round(float(shares @ NUMBERS), 2), low, high)


def _log_likelihood(scores: Floats, labels: Floats) -> float:
    """(n,) scores of mean 0 and (n,) labels -> the highest log-likelihood, less the penalty of w and b."""
    slope, value = _newton(np.stack([scores, np.ones_like(scores)], axis=1), labels)
    # Scores that fall where labels rise are no better than random ones.
    return value if slope >= 0 else _newton(np.ones((len(labels), 1)), labels)[1]


def _newton(design: Floats, labels: Floats) -> tuple[float, float]:
    """Return the first of the (k,) coefficients of a penalised logistic regression, and its log-likelihood.

    Newton's method; a step is halved until the loss falls.
    """
    at = np.zeros(design.shape[1])

    def loss_of(at: Floats) -> float:
        logits = design @ at
        return float(np.sum(np.logaddexp(0.0, logits) - labels * logits) + np.sum(at**2) / (2 * SPREAD**2))

    loss = loss_of(at)
    for _ in range(STEPS):
        p = np.exp(-np.logaddexp(0.0, -(design @ at)))
        gradient = design.T @ (p - labels) + at / SPREAD**2
        curvature = (design * (p * (1 - p))[:, None]).T @ design + np.eye(len(at)) / SPREAD**2
        step = np.linalg.solve(curvature, gradient)
        halved = [at - step / 2**times for times in range(12)]
        better = next((one for one in halved if loss_of(one) < loss), None)
        if better is None:
            break
        before, at, loss = loss, better, loss_of(better)
        if before - loss < 1e-12:
            break
    return float(at[0]), -loss
