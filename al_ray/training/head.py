"""The two-parameter layer on the batch-normalised cosine."""

import torch

from al_ray.core.config.sections import TrainingConfig


class Head(torch.nn.Module):
    """Logits of a batch of cosines: a batch norm without affine part, then w * x + b with w >= 0 (A.1)."""

    def __init__(self, config: TrainingConfig) -> None:
        """Start at the config's weight and bias."""
        super().__init__()
        # momentum=None accumulates plain means of all batches seen; the variance of a batch may be almost nothing.
        self.norm = torch.nn.BatchNorm1d(1, eps=1e-8, affine=False, momentum=None)
        self.weight = torch.nn.Parameter(torch.tensor(config.initial_weight, dtype=torch.float32))
        self.bias = torch.nn.Parameter(torch.tensor(config.initial_bias, dtype=torch.float32))

    def forward(self, cosines: torch.Tensor) -> torch.Tensor:
        """(b,) cosines -> (b,) logits."""
        return self.weight * self.norm(cosines[:, None])[:, 0] + self.bias

    def keep_rising(self) -> None:
        """Put w back to 0 when a step has taken it below."""
        with torch.no_grad():
            self.weight.clamp_(min=0.0)
