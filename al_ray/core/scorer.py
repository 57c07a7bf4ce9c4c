"""From a cosine to a score in [0, 1]: p = sigmoid(w * cosine + b), w >= 0 (paper, Eq. 7), and the refit of (w, b).

p is the probability of a match only if (w, b) were fitted to pairs that were sampled with known chances. The pairs of a
run's batches were chosen by a strategy; fitted to them, p is a score.
"""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadFile

Floats = npt.NDArray[np.float64]
Cosines = npt.NDArray[np.float32] | Floats
Labels = npt.NDArray[np.uint8]
CANDIDATE, CERTAIN = 2.0, 3.0
"""Scores of a candidate for which a matcher says p = 0, and p = 1: above all cosines (core/two_stage_score.py)."""
LEAST_P = 1e-6
"""p of a matcher is at least this and at most 1 less this, so that its log-odds are finite."""


@dataclass(frozen=True)
class Scorer:
    """Platt scaling of a score: p = sigmoid(weight * score + bias). Saved with the model (docs/departures.md, 4).

    loss: mean binary cross-entropy on the scores of the fit, in nats. outcome: the case of the fit; see `refit`.
    neighbourhood: a, from 0 to 1. The score is the cosine less a times the mean cosine of the left text's nearest right
    texts (core/neighbourhood.py); with a = 0, the default, it is the cosine. both_sides: less a times that of the right
    text with its nearest left ones, too.
    matcher: whether a matcher ranks the candidates above all other pairs (core/two_stage_score.py): p is then theirs,
    and weight and bias say where p is 1/2.
    ceiling: c, above 0 and at most 1, which p approaches as the score rises: p = c * sigmoid(weight * score + bias).
    Only a fit to drawn pairs has one below 1 (metrics/audit/ceiling.py).
    """

    weight: float
    bias: float
    loss: float = float("nan")
    outcome: str = "fitted"
    neighbourhood: float = 0.0
    matcher: bool = False
    both_sides: bool = False
    ceiling: float = 1.0

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as files hold them: without a `ceiling` of None, because earlier versions had none."""
        return {name: value for name, value in asdict(self).items() if name != "ceiling" or value < 1}

    @property
    def boundary(self) -> float:
        """The cosine where p = 1/2: -b/w. For w = 0 it is infinite, with the sign of -b: the limit as w falls to 0.

        With a ceiling it is higher, and infinite if p stays below 1/2.
        """
        if self.weight > 0:
            return -self.bias / self.weight if self.ceiling == 1 else self.score_at(0.5)
        return float("inf") if self.bias <= 0 else float("-inf")

    @property
    def highest(self) -> float:
        """The highest score of a pair: 1, and with a neighbourhood of a 1 + a, as means of cosines reach down to -1.

        With that of both sides it is 1 + 2a. With a matcher, that of a candidate of p = 1.
        """
        return CERTAIN if self.matcher else 1 + (1 + self.both_sides) * self.neighbourhood

    @property
    def has_boundary(self) -> bool:
        """Whether the boundary lies among the scores, so that pairs may be on either side of it."""
        return -self.highest < self.boundary <= self.highest

    @property
    def name(self) -> str:
        """What the score is called where people read it; with a matcher that of a candidate is shown as its p."""
        return "p" if self.matcher else "score" if self.neighbourhood else "cosine"

    def shown(self, score: float) -> float:
        """Return a score as people read it: with a matcher p of a candidate."""
        return score - CANDIDATE if self.matcher else score

    def threshold_words(self, score: float) -> str:
        """Say which pairs have at least a score, such as "cosine >= 0.812345"."""
        if self.matcher and score < CANDIDATE:
            return f"every candidate, and of the other pairs cosine >= {score:.6f}"
        return f"{self.name} >= {self.shown(score):.6f}"

    def logit(self, cosines: Cosines) -> Floats:
        """(n,) cosines -> (n,) log-odds of a match."""
        if self.matcher:
            p = np.clip(np.asarray(cosines, dtype=np.float64) - CANDIDATE, LEAST_P, 1 - LEAST_P)
            return np.log(p / (1 - p))
        logits = self._of_sigmoid(cosines)
        # p / (1 - p) = c / (1 - c + exp(-logit))
        return logits if self.ceiling == 1 else np.log(self.ceiling) - np.logaddexp(np.log1p(-self.ceiling), -logits)

    def _of_sigmoid(self, cosines: Cosines) -> Floats:
        return self.weight * np.asarray(cosines, dtype=np.float64) + self.bias

    def probability(self, cosines: Cosines) -> Floats:
        """(n,) cosines -> (n,) p in [0, 1]: scores, or probabilities of a match if they were calibrated; see above."""
        if self.ceiling == 1:
            return sigmoid(self.logit(cosines))
        return self.ceiling * sigmoid(self._of_sigmoid(cosines))

    def score_at(self, p: float) -> float:
        """Return the score that has a p between 0 and 1, where p rises with the score; the inverse of `probability`.

        Infinity if no score has it, because of the ceiling.
        """
        if self.matcher:
            return CANDIDATE + p
        return (math.log(p / (self.ceiling - p)) - self.bias) / self.weight if p < self.ceiling else math.inf


def ceiling_words(ceiling: float) -> str:
    """Say what a ceiling below 1 means, such as "at most 83% match, however high the score"."""
    return f"at most {100 * ceiling:.3g}% match, however high the score"


def sigmoid(logits: Floats) -> Floats:
    """Compute 1 / (1 + exp(-x)) without overflow, of an array of any shape."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1.0, small) / (1.0 + small)


def check_no_nan(scores: Cosines) -> None:
    """Raise BadFile if any score is NaN."""
    if len(scores) and np.isnan(scores.max()):
        raise BadFile(
            f"{int(np.isnan(scores).sum()):,} of {len(scores):,} scores are not numbers (NaN); "
            "score those pairs again, or train the model again"
        )


def cross_entropy(logits: Floats, labels: Labels, weights: Floats | float = 1.0) -> float:
    """Compute the mean binary cross-entropy, in nats, of (n,) log-odds and (n,) labels in {0, 1}; weights: (n,)."""
    losses = np.logaddexp(0.0, logits) - labels * logits
    return float(np.sum(weights * losses) / np.sum(np.broadcast_to(weights, losses.shape)))


def refit(cosines: Cosines, labels: Labels, steps: int = 100, weights: Floats | None = None) -> Scorer:
    """Fit the logistic regression of (n,) labels on (n,) cosines to convergence (paper, A.1; docs/departures.md, 6).

    weights: (n,) positive ones, how many pairs each one counts as; 1 by default.

    Newton's method on standardised cosines; a step is halved until the loss falls. The outcome names the case:

    - `fitted`: the usual case.
    - `diverged`: some cosine is not finite. w = 0, b the log-odds of the share of positives, and the loss is infinite.
    - `one-class`: all labels are equal, so the data does not determine w. w is 1 per standard deviation; b makes p at
      the mean cosine (positives + 1) / (n + 2), the rule of succession.
    - `no-variance`: all cosines are equal (to 1e-12). w = 0, b the log-odds of the share of positives.
    - `falling`: the best w is below 1e-6 per standard deviation. w = 0, b likewise: w must not be negative (4.2.1).
    - `separable`: no negative is above a positive, so the best w is infinite. The boundary is half way between the
      highest negative and the lowest positive, and w makes their p 1/(n+2) and 1 - 1/(n+2), the rule of succession.
      If these two cosines are equal, b makes p there the share of positives among the pairs of that cosine, and w is
      the least that makes p at most 1/(n+2) at the next lower cosine and at least 1 - 1/(n+2) at the next higher one.

    Shares of positives also follow the rule of succession, so that no p is 0 or 1.
    """
    x = np.asarray(cosines, dtype=np.float64)
    data = labels, np.ones(len(x)) if weights is None else weights
    if not np.isfinite(x).all():
        return replace(_flat(*data, "diverged"), loss=float("inf"))
    mean, spread = float(x.mean()), float(x.std())
    if spread <= 1e-12:
        return _flat(*data, "no-variance")
    if labels.all() or not labels.any():
        return _scorer(1 / spread, _log_odds(*data) - mean / spread, x, *data, "one-class")
    if x[labels == 0].max() <= x[labels == 1].min():
        return _scorer(*_steep(x, *data), x, *data, "separable")
    slope, intercept = _newton((x - mean) / spread, *data, steps)
    if slope < 1e-6:
        return _flat(*data, "falling")
    return _scorer(slope / spread, intercept - slope * mean / spread, x, *data, "fitted")


def _log_odds(labels: Labels, weights: Floats) -> float:
    """Return the log-odds of the share of positives, by the rule of succession."""
    n, positives = float(weights.sum()), float((weights * labels).sum())
    return float(np.log((positives + 1) / (n - positives + 1)))


def _steep(x: Floats, labels: Labels, weights: Floats) -> tuple[float, float]:
    """Return w and b for the separable case of `refit`."""
    below, above = float(x[labels == 0].max()), float(x[labels == 1].min())
    certain = float(np.log(weights.sum() + 1))
    if below < above:
        weight = 2 * certain / (above - below)
        return weight, -weight * (below + above) / 2
    at = x == below
    share = float((weights * labels)[at].sum() / weights[at].sum())
    odds = float(np.log(share / (1 - share)))
    lower, higher = x[x < below], x[x > below]
    weight = max(
        (certain + odds) / (below - float(lower.max())) if len(lower) else 0.0,
        (certain - odds) / (float(higher.min()) - below) if len(higher) else 0.0,
    )
    return weight, odds - weight * below


def _newton(x: Floats, labels: Labels, weights: Floats, steps: int) -> tuple[float, float]:
    """Minimise the cross-entropy over slope and intercept on standardised x that do not separate with a positive slope.

    If x do not separate at all, the minimum is unique. If they separate with a negative slope, the slope falls until
    the loss no longer improves.
    """
    design = np.stack([x, np.ones_like(x)], axis=1)
    n = float(weights.sum())
    share = float((weights * labels).sum()) / n
    at = np.array([0.0, np.log(share / (1 - share))])
    loss = cross_entropy(design @ at, labels, weights)
    for _ in range(steps):
        p = sigmoid(design @ at)
        gradient = design.T @ (weights * (p - labels)) / n
        curvature = (design * (weights * p * (1 - p))[:, None]).T @ design / n
        if np.abs(gradient).max() < 1e-12:
            break
        step = np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        size = 1.0
        while size > 1e-10 and cross_entropy(design @ (at - size * step), labels, weights) > loss:
            size /= 2
        if size <= 1e-10:
            break
        at = at - size * step
        loss = cross_entropy(design @ at, labels, weights)
    return float(at[0]), float(at[1])


def _flat(labels: Labels, weights: Floats, outcome: str) -> Scorer:
    """Return a scorer of slope 0 whose p is the share of positives by the rule of succession."""
    return _scorer(0.0, _log_odds(labels, weights), np.zeros(len(labels)), labels, weights, outcome)


def _scorer(weight: float, bias: float, x: Floats, labels: Labels, weights: Floats, outcome: str) -> Scorer:
    return Scorer(weight, bias, cross_entropy(weight * x + bias, labels, weights), outcome)
