"""Options of the training losses; al_ray/training/losses.py computes them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Literal

from al_ray.core.config.bounds import Between
from al_ray.core.errors import BadOption
from al_ray.core.naming import option

LossName = Literal["bce", "focal", "ghm", "ohem", "in-batch", "in-batch-softmax", "momentum"]
OF_SIDES: tuple[LossName, ...] = ("in-batch", "in-batch-softmax", "momentum")
"""Losses that look at the two sides of a batch, not at the logits of its pairs alone."""
WITHOUT_HEAD: tuple[LossName, ...] = ("in-batch-softmax", "momentum")
"""Losses of cosines alone, which train neither w nor b."""

LOSSES_OF: Mapping[str, tuple[LossName, ...]] = {
    "focal_alpha": ("focal",),
    "focal_gamma": ("focal",),
    "ghm_bins": ("ghm",),
    "ghm_momentum": ("ghm",),
    "hardest": ("ohem",),
    "temperature": ("in-batch-softmax", "momentum"),
    "queue": ("momentum",),
    "key_momentum": ("momentum",),
}
"""The losses that use an option."""


@dataclass(frozen=True)
class LossConfig:
    """Options of the losses other than bce; each names the loss that uses it."""

    focal_alpha: Annotated[float, Between(0, 1)] = 0.25
    """focal: weight of a match; the weight of a non-match is 1 - alpha (Lin et al. 2017: 0.25)."""
    focal_gamma: Annotated[float, Between(0, 100)] = 2.0
    """focal: how strongly easy pairs are down-weighted; 0 is a weighted bce (Lin et al. 2017: 2)."""
    ghm_bins: Annotated[int, Between(1, 100_000)] = 30
    """ghm: M, number of bins of the gradient norm |p - y| between 0 and 1 (Li et al. 2019: 30)."""
    # With 1 the moving count of a bin could stay 0, and the weight of its pairs would have no bound.
    ghm_momentum: Annotated[float, Between(0, 0.999)] = 0.75
    """ghm: momentum of a bin's moving count; 0 counts every batch by itself."""
    hardest: Annotated[float, Between(1e-6, 1)] = 0.25
    """ohem: share of a batch's pairs, those of the highest loss, that the gradient is of."""
    temperature: Annotated[float, Between(1e-4, 1e4)] = 0.07
    """in-batch-softmax, momentum: tau, which divides a cosine (He et al. 2020: 0.07)."""
    queue: Annotated[int, Between(0, 10_000_000)] = 1024
    """momentum: K, encoded right texts of earlier batches that are negatives (He et al. 2020: 65,536 of a million)."""
    key_momentum: Annotated[float, Between(0, 1)] = 0.99
    """momentum: m, momentum of the encoder of right texts. He et al. 2020 use 0.999, with which a training of a few
    hundred steps would end with nearly the initial encoder."""

    def refuse_unused(self, loss: LossName) -> None:
        """Raise BadOption for an option other than its default that the loss does not use."""
        for one in fields(self):
            value = getattr(self, one.name)
            if value != one.default and loss not in LOSSES_OF[one.name]:
                raise BadOption(
                    f"{option(f'training.losses.{one.name}', value)} is of `training.loss` "
                    f"{' and '.join(LOSSES_OF[one.name])}, and that is {loss}; give the one, or leave out the other"
                )
