"""The layer with two parameters over cosines, or over batch-normalised cosines."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from al_ray.core.config.sections import TrainingConfig
from al_ray.core.scorer import Floats, Labels, refit

EPSILON = 1e-8  # Small, because the variance of cosines may be tiny.
MOST_LOGIT = 6.0  # p = 0.9975: steeper logits of pairs that a boundary separates would leave them hardly any gradient.
Start = tuple[float, float]
"""Initial w and b of a head."""


class Head(torch.nn.Module):
    """Logits of a batch of cosines: w * x + b with w >= 0.

    batch-norm: x is the cosine after a batch norm without affine parameters (A.1). cosine: x is the cosine, so that the
    logit of a pair does not depend on its batch.
    """

    def __init__(self, config: TrainingConfig, start: Start | None = None) -> None:
        """start: initial w and b; by default the config's."""
        super().__init__()
        self.normalises = config.head == "batch-norm"
        weight, bias = start or (config.initial_weight, config.initial_bias)
        self.weight = torch.nn.Parameter(torch.tensor(weight, dtype=torch.float32))
        self.bias = torch.nn.Parameter(torch.tensor(bias, dtype=torch.float32))

    def forward(self, cosines: torch.Tensor) -> torch.Tensor:
        """(b,) cosines -> (b,) logits."""
        if not self.normalises:
            return self.weight * cosines + self.bias
        normed = torch.nn.functional.batch_norm(cosines[:, None], None, None, training=True, eps=EPSILON)
        return self.weight * normed[:, 0] + self.bias

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Restore what `state_dict` returned; checkpoints of earlier versions have statistics of the norm too."""
        own = {name: value for name, value in state_dict.items() if not name.startswith("norm.")}
        return super().load_state_dict(own, strict, assign)

    def keep_increasing(self) -> None:
        """Set a negative w to 0."""
        with torch.no_grad():
            self.weight.clamp_(min=0.0)


def refitted_start(cosines: Floats, labels: Labels, normalises: bool) -> Start:
    """(n,) cosines of labelled pairs and their (n,) labels -> initial w and b (--training.head-start refit).

    By the outcome of `refit`:

    - `fitted`: w and b of the refit.
    - `separable`: its boundary. w is that of the refit, or the largest with which all n logits are within -6 to 6 if
      that is less.
    - all others, or if w or b is not finite: w is 1 per standard deviation of the cosines, and b makes the logit of the
      mean cosine the log-odds of the share of positives, (positives + 1) / (n + 2). Without variance w is 1; if some
      cosine is not finite, w is 1 and b the log-odds.

    normalises: w and b are of the batch-normalised cosine, (cosine - mean) / standard deviation. These are then
    w * standard deviation and w * mean + b; without variance, or if some cosine is not finite, 1 and the log-odds.
    """
    x = np.asarray(cosines, dtype=np.float64)
    scorer, positives = refit(x, labels), int(labels.sum())
    mean, spread = (float(x.mean()), float(x.std())) if np.isfinite(x).all() else (0.0, 1.0)
    # Below this `refit` takes cosines for equal.
    spread = spread if spread > 1e-12 else 1.0
    weight, bias = scorer.weight, scorer.bias
    if scorer.outcome == "separable":
        weight = min(weight, MOST_LOGIT / float(np.abs(x - scorer.boundary).max()))
        bias = -weight * scorer.boundary
    if scorer.outcome not in ("fitted", "separable") or not np.isfinite([weight, bias]).all():
        weight = 1 / spread
        bias = float(np.log((positives + 1) / (len(x) - positives + 1))) - weight * mean
    return (weight * spread, weight * mean + bias) if normalises else (weight, bias)
