"""From a cosine to a probability: p = sigmoid(w * cosine + b), w >= 0 (paper, Eq. 7), and the refit of (w, b)."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadFile

Floats = npt.NDArray[np.float64]
Cosines = npt.NDArray[np.float32] | Floats
Labels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Scorer:
    """The two numbers that turn a cosine into a probability; they travel with the model (README, departure 4).

    loss: mean binary cross-entropy on the cosines it was fitted to, in nats.
    outcome: what the fit met; see `refit`.
    """

    weight: float
    bias: float
    loss: float = float("nan")
    outcome: str = "fitted"

    @property
    def boundary(self) -> float:
        """The cosine where p = 1/2: -b/w. Without slope, its limit as w falls to 0: infinite, with the sign of -b."""
        if self.weight > 0:
            return -self.bias / self.weight
        return float("inf") if self.bias <= 0 else float("-inf")

    def logit(self, cosines: Cosines) -> Floats:
        """(n,) cosines -> (n,) log-odds of a match."""
        return self.weight * np.asarray(cosines, dtype=np.float64) + self.bias

    def probability(self, cosines: Cosines) -> Floats:
        """(n,) cosines -> (n,) probabilities of a match."""
        return sigmoid(self.logit(cosines))


def sigmoid(logits: Floats) -> Floats:
    """1 / (1 + exp(-x)), without overflow at either end."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1.0, small) / (1.0 + small)


def refuse_nan(scores: Cosines) -> None:
    """BadFile where a score is no number."""
    if len(scores) and np.isnan(scores.max()):
        raise BadFile(
            f"{int(np.isnan(scores).sum()):,} of {len(scores):,} scores are not numbers (NaN); "
            "score those pairs again, or train the model again"
        )


def cross_entropy(logits: Floats, labels: Labels) -> float:
    """Mean binary cross-entropy in nats of (n,) log-odds for (n,) labels in {0, 1}."""
    return float(np.mean(np.logaddexp(0.0, logits) - labels * logits))


def refit(cosines: Cosines, labels: Labels, steps: int = 100) -> Scorer:
    """The logistic regression of (n,) labels on (n,) cosines, to convergence (paper, A.1; README, departure 6).

    The cosines are standardised, then Newton steps are halved until the loss falls. Every awkward case has an outcome:

    - `diverged`: some cosine is not finite. w = 0, b the log-odds of the share of positives, and the loss is infinite.
    - `one-class`: nothing says how p rises with the cosine. w is one per standard deviation, b makes p at the mean
      cosine the rule of succession's (positives + 1) / (n + 2).
    - `no-variance`: all cosines are equal (to 1e-12). w = 0, b the log-odds of the share of positives.
    - `falling`: the best w is below 1e-6 a standard deviation. w = 0, b likewise: w is kept nonnegative (4.2.1).
    - `separable`: no negative lies above a positive; the best w is infinite. The boundary is put half way between the
      highest negative and the lowest positive, and w gives them the rule of succession's 1/(n+2) and 1 - 1/(n+2). Where
      these two are equal, b makes p there the share of positives among the pairs of that cosine, and w is the least
      that leaves its nearest neighbours no worse than 1/(n+2) and 1 - 1/(n+2).
    - `fitted`: everything else.
    """
    x = np.asarray(cosines, dtype=np.float64)
    n, positives = len(x), int(labels.sum())
    if not np.isfinite(x).all():
        return replace(_flat(positives, n, labels, "diverged"), loss=float("inf"))
    mean, spread = float(x.mean()), float(x.std())
    if spread <= 1e-12:
        return _flat(positives, n, labels, "no-variance")
    if positives in (0, n):
        bias = float(np.log((positives + 1) / (n - positives + 1)))
        return _scorer(1 / spread, bias - mean / spread, x, labels, "one-class")
    if x[labels == 0].max() <= x[labels == 1].min():
        return _scorer(*_steep(x, labels), x, labels, "separable")
    slope, intercept = _newton((x - mean) / spread, labels, steps)
    if slope < 1e-6:
        return _flat(positives, n, labels, "falling")
    return _scorer(slope / spread, intercept - slope * mean / spread, x, labels, "fitted")


def _steep(x: Floats, labels: Labels) -> tuple[float, float]:
    """The w and b of cosines that separate, or touch at one value; see `refit`."""
    below, above = float(x[labels == 0].max()), float(x[labels == 1].min())
    certain = float(np.log(len(x) + 1))
    if below < above:
        weight = 2 * certain / (above - below)
        return weight, -weight * (below + above) / 2
    share = float(labels[x == below].mean())
    odds = float(np.log(share / (1 - share)))
    lower, higher = x[x < below], x[x > below]
    weight = max(
        (certain + odds) / (below - float(lower.max())) if len(lower) else 0.0,
        (certain - odds) / (float(higher.min()) - below) if len(higher) else 0.0,
    )
    return weight, odds - weight * below


def _newton(x: Floats, labels: Labels, steps: int) -> tuple[float, float]:
    """Slope and intercept of least cross-entropy on standardised x, which separates in no way or the wrong way.

    In no way: the least is unique. The wrong way: the slope goes down until nothing more is gained.
    """
    design = np.stack([x, np.ones_like(x)], axis=1)
    share = labels.mean()
    at = np.array([0.0, np.log(share / (1 - share))])
    loss = cross_entropy(design @ at, labels)
    for _ in range(steps):
        p = sigmoid(design @ at)
        gradient = design.T @ (p - labels) / len(x)
        curvature = (design * (p * (1 - p))[:, None]).T @ design / len(x)
        if np.abs(gradient).max() < 1e-12:
            break
        step = np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        size = 1.0
        while size > 1e-10 and cross_entropy(design @ (at - size * step), labels) > loss:
            size /= 2
        if size <= 1e-10:
            break
        at = at - size * step
        loss = cross_entropy(design @ at, labels)
    return float(at[0]), float(at[1])


def _flat(positives: int, n: int, labels: Labels, outcome: str) -> Scorer:
    """No slope: p is the share of positives, by the rule of succession so that it is neither 0 nor 1."""
    return _scorer(0.0, float(np.log((positives + 1) / (n - positives + 1))), np.zeros(n), labels, outcome)


def _scorer(weight: float, bias: float, x: Floats, labels: Labels, outcome: str) -> Scorer:
    return Scorer(weight, bias, cross_entropy(weight * x + bias, labels), outcome)
