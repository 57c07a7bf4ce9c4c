"""The layer with two parameters over cosines, or over batch-normalised cosines."""

from collections.abc import Mapping
from typing import Any

import torch

from al_ray.core.config.sections import TrainingConfig

EPSILON = 1e-8  # Small, because the variance of cosines may be tiny.


class Head(torch.nn.Module):
    """Logits of a batch of cosines: w * x + b with w >= 0.

    batch-norm: x is the cosine after a batch norm without affine parameters (A.1). cosine: x is the cosine, so that the
    logit of a pair does not depend on its batch.
    """

    def __init__(self, config: TrainingConfig) -> None:
        """Start at the config's weight and bias."""
        super().__init__()
        self.normalises = config.head == "batch-norm"
        self.weight = torch.nn.Parameter(torch.tensor(config.initial_weight, dtype=torch.float32))
        self.bias = torch.nn.Parameter(torch.tensor(config.initial_bias, dtype=torch.float32))

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
