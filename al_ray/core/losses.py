"""Options of the losses that labelled pairs are learnt by; model/losses.py has the losses themselves."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from al_ray.core.errors import BadOption

LossName = Literal["bce", "focal", "ghm", "ohem", "in-batch", "in-batch-softmax", "momentum"]
OF_SIDES: tuple[LossName, ...] = ("in-batch", "in-batch-softmax", "momentum")
"""Losses that look at the two sides of a batch, not at the logits of its pairs alone."""

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
"""Which losses ask for an option."""


@dataclass(frozen=True)
class LossConfig:
    """What the losses other than bce ask for; each option says of which it is."""

    focal_alpha: float = 0.25
    """focal: the weight of a match; that of a non-match is 1 - alpha (Lin et al. 2017: 0.25)."""
    focal_gamma: float = 2.0
    """focal: how fast an easy pair loses its weight; 0 is a weighted bce (Lin et al. 2017: 2)."""
    ghm_bins: int = 30
    """ghm: M, unit regions of the gradient norm |p - y| between 0 and 1 (Li et al. 2019: 30)."""
    ghm_momentum: float = 0.75
    """ghm: the share that a bin's moving count keeps of what it was; 0 counts every batch by itself."""
    hardest: float = 0.25
    """ohem: the share of a batch's pairs, those of the highest loss, that is learnt from."""
    temperature: float = 0.07
    """in-batch-softmax, momentum: tau, by which a cosine is divided (He et al. 2020: 0.07)."""
    queue: int = 1024
    """momentum: K, encoded right texts of earlier batches that are negatives (He et al. 2020: 65,536, of a million)."""
    key_momentum: float = 0.99
    """momentum: m, the share that the encoder of right texts keeps of itself in a step. He et al. 2020: 0.999, with
    which a training of a few hundred steps would end with the encoder it began with."""

    @property
    def limits(self) -> tuple[tuple[float, str, float, float], ...]:
        """What may be asked for, as `refuse_beyond` takes it."""
        return (
            (self.focal_alpha, "--training.losses.focal-alpha", 0, 1),
            (self.focal_gamma, "--training.losses.focal-gamma", 0, 100),
            (self.ghm_bins, "--training.losses.ghm-bins", 1, 100_000),
            # A bin that forgot nothing could count nothing where a pair falls, which would weigh without bound.
            (self.ghm_momentum, "--training.losses.ghm-momentum", 0, 0.999),
            (self.hardest, "--training.losses.hardest", 1e-6, 1),
            (self.temperature, "--training.losses.temperature", 1e-4, 1e4),
            (self.queue, "--training.losses.queue", 0, 10_000_000),
            (self.key_momentum, "--training.losses.key-momentum", 0, 1),
        )

    def refuse_unused(self, loss: LossName) -> None:
        """BadOption for an option, not as it is by itself, that the loss does not ask for."""
        for one in fields(self):
            value = getattr(self, one.name)
            if value != one.default and loss not in LOSSES_OF[one.name]:
                raise BadOption(
                    f"--training.losses.{one.name.replace('_', '-')} {value} is of --training.loss "
                    f"{' and '.join(LOSSES_OF[one.name])}, and that is {loss}; give the one, or leave out the other"
                )
