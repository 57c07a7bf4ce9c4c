"""Fit a ceiling of p to labels of drawn pairs: p = c * sigmoid(w * score + b), where sigmoid alone rises to 1.

Often 60 or 90% of the pairs match, however high the score. w and b cannot say so: they make p too high there, or too
low further down. w, b and c maximise the likelihood less two penalties: c counts as if one more pair above all scores
were labelled a match, and w has a normal prior, so that no fit is a step. The ceiling is taken if it raises the
logarithm of this likelihood by more than GAIN (Akaike's criterion); else w and b stay as they are.
`python -m studies calibrations` compares it with w and b alone and with isotonic regression.
"""

import numpy as np

from al_ray.core.scorer import Floats, Labels, Scorer, sigmoid

GAIN = 1.0
SLOPE = 100.0
"""Standard deviation of the prior of w, per standard deviation of the scores."""
STEPS, HIGHEST, LARGEST_STEP = 100, 0.95, 5.0

Data = tuple[Floats, Labels, Floats]


def with_ceiling(scorer: Scorer, scores: Floats, labels: Labels, weights: Floats) -> Scorer:
    """Return the fit with a ceiling to (n,) scores, labels and weights, or `scorer`, the fit without, if it is as good.

    scorer: "fitted" by `refit` to the same data.
    """
    mean, spread = float(scores.mean()), float(scores.std())
    data = (scores - mean) / spread, labels, weights
    without = np.array([scorer.weight * spread, scorer.bias + scorer.weight * mean])
    at = min(
        (_fisher_scoring(start, data) for start in _starts(without, data)), key=lambda at: penalised_loss(at, data)
    )
    total = float(weights.sum())
    if total * scorer.loss + _of_slope(without[0]) - penalised_loss(at, data) <= GAIN:
        return scorer
    weight, ceiling = float(at[0]) / spread, float(sigmoid(at[2]))
    loss = float(_losses(at, data).sum()) / total
    return Scorer(weight, float(at[1]) - weight * mean, loss, "ceiling", ceiling=ceiling)


def penalised_loss(at: Floats, data: Data) -> float:
    """Return what is minimised, in nats, at (3,) slope, intercept and log-odds of the ceiling; scores: standardised."""
    return float(_losses(at, data).sum() + _of_slope(at[0]) + np.logaddexp(0.0, -at[2]))


def _of_slope(slope: float) -> float:
    return float(slope / SLOPE) ** 2 / 2


def _losses(at: Floats, data: Data) -> Floats:
    """Return (n,) -log p of matches and -log(1 - p) of others, times their weights."""
    x, labels, weights = data
    slope, intercept, odds = (float(one) for one in at)
    logits: Floats = slope * x + intercept
    log_c, log_rest = -float(np.logaddexp(0.0, -odds)), -float(np.logaddexp(0.0, odds))
    # 1 - p = 1 - c + c * sigmoid(-logit)
    log_no = np.logaddexp(log_rest, log_c - np.logaddexp(0.0, logits))
    losses: Floats = -weights * np.where(labels == 1, log_c - np.logaddexp(0.0, -logits), log_no)
    return losses


def _starts(without: Floats, data: Data) -> list[Floats]:
    """Return where to start: near the fit without a ceiling, and twice as steep with the share of the highest labels.

    The likelihood can have several maxima.
    """
    x, labels, weights = data
    highest = np.argsort(-x, kind="stable")[: max(3, int(labels.sum()) // 2)]
    share = float((weights * labels)[highest].sum() / weights[highest].sum())
    shares = HIGHEST, float(np.clip(share, 1 - HIGHEST, HIGHEST))
    return [np.append(steeper * without, np.log(c / (1 - c))) for steeper, c in zip((1.0, 2.0), shares, strict=True)]


def _fisher_scoring(at: Floats, data: Data) -> Floats:
    """Minimise from a start by Newton's method with the expected curvature; a step is halved until the loss falls."""
    x, labels, weights = data
    loss = penalised_loss(at, data)
    for _ in range(STEPS):
        slope, intercept, odds = (float(one) for one in at)
        logits: Floats = slope * x + intercept
        c, rest = (float(sigmoid(np.array(sign * odds))) for sign in (1, -1))
        p, below = c * sigmoid(logits), sigmoid(-logits)
        no = rest + c * below
        # Derivatives of log p.
        slopes = np.stack([below * x, below, np.full_like(x, rest)], axis=1)
        gradient = slopes.T @ (weights * (p - labels) / no) + np.array([slope / SLOPE**2, 0.0, -rest])
        curvature = (slopes * (weights * p / no)[:, None]).T @ slopes + np.diag(
            np.array([SLOPE**-2, 1e-8, c * rest + 1e-8])
        )
        step = np.asarray(np.linalg.solve(curvature, gradient), dtype=np.float64)
        size = min(1.0, LARGEST_STEP / float(np.abs(step).max() + 1e-12))
        while size > 1e-6 and penalised_loss(at - size * step, data) > loss:
            size /= 2
        before, loss = loss, min(loss, penalised_loss(at - size * step, data))
        if before - loss < 1e-10:
            break
        at = at - size * step
    return at
