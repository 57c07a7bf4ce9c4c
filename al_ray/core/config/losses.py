"""The training losses by name, and their options; al_ray/training/losses.py computes them.

To add a loss, add an entry to LOSSES here, with its options in LossConfig, and its function to LOGIT_LOSSES or
SIDE_LOSSES there: help, errors, plans and the tests of every loss read these.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Literal

from al_ray.core.config.bounds import Between
from al_ray.core.errors import BadOption
from al_ray.core.naming import option


@dataclass(frozen=True)
class LossKind:
    """What other modules depend on of a loss.

    summary: a few words for --help. options: the fields of LossConfig that it uses. trains_head: whether it trains w
    and b; a loss of cosines alone does not. slow_keys: a slow copy of the encoder encodes right texts, and those of
    earlier batches are negatives; the trainer holds the weights twice.
    """

    summary: str
    options: tuple[str, ...] = ()
    trains_head: bool = True
    slow_keys: bool = False


LOSSES: Mapping[str, LossKind] = {
    "bce": LossKind("binary cross-entropy"),
    "focal": LossKind("easy pairs count less", ("focal_alpha", "focal_gamma")),
    "ghm": LossKind("easy and hopeless pairs count less", ("ghm_bins", "ghm_momentum")),
    "ohem": LossKind("only the hardest pairs of a batch count", ("hardest",)),
    "in-batch": LossKind("other right texts of the batch are further negatives"),
    "in-batch-softmax": LossKind("as in-batch, by the ranking of the right texts", ("temperature",), trains_head=False),
    "momentum": LossKind(
        "as in-batch-softmax, with right texts of earlier batches too",
        ("temperature", "queue", "key_momentum"),
        trains_head=False,
        slow_keys=True,
    ),
}
"""All losses by name, in the order of --help."""

if TYPE_CHECKING:
    LossName = str
else:
    # A type checker cannot read a Literal made at run time; TrainingConfig refuses unknown names.
    LossName = Literal[tuple(LOSSES)]


def losses_help() -> str:
    """Return the --help of --training.loss."""
    return f"Loss (docs/losses.md). {'; '.join(f'{name}: {kind.summary}' for name, kind in LOSSES.items())}."


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

    def check_unused_options(self, loss: LossName) -> None:
        """Raise BadOption for an option other than its default that the loss does not use."""
        for one in fields(self):
            value = getattr(self, one.name)
            if value != one.default and one.name not in LOSSES[loss].options:
                having = " and ".join(name for name, kind in LOSSES.items() if one.name in kind.options)
                name = option(f"training.losses.{one.name}", value)
                raise BadOption(
                    f"{name} is of `training.loss` {having}, and that is {loss}; give the one, or leave out the other"
                )
