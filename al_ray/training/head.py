"""The layer with two parameters over batch-normalised cosines."""

import torch

from al_ray.core.config.sections import TrainingConfig


class Head(torch.nn.Module):
    """Logits of a batch of cosines: batch norm without affine parameters, then w * x + b with w >= 0 (A.1)."""

    def __init__(self, config: TrainingConfig) -> None:
        """Start at the config's weight and bias."""
        super().__init__()
        # momentum=None accumulates plain means over all batches; eps is small because the variance may be tiny.
        self.norm = torch.nn.BatchNorm1d(1, eps=1e-8, affine=False, momentum=None)
        self.weight = torch.nn.Parameter(torch.tensor(config.initial_weight, dtype=torch.float32))
        self.bias = torch.nn.Parameter(torch.tensor(config.initial_bias, dtype=torch.float32))

    def forward(self, cosines: torch.Tensor) -> torch.Tensor:
        """(b,) cosines -> (b,) logits."""
        return self.weight * self.norm(cosines[:, None])[:, 0] + self.bias

    def keep_increasing(self) -> None:
        """Set a negative w to 0."""
        with torch.no_grad():
            self.weight.clamp_(min=0.0)
