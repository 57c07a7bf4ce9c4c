"""A linear adapter of frozen vectors: a model that trains in seconds on one thread, for simulated runs.

The vector of a text becomes normalise(v + A v). A starts at 0, so the untrained adapter is the untrained encoder, and
weight decay pulls A back to 0. Pairs are trained as the bi-encoder trains them: the cross-entropy of a head over their
cosines. An adapter cannot learn what the frozen vectors do not hold, so its average precision is below that of a
trained encoder; simulations compare strategies, not models.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch

from al_ray.core.config.bounds import Between
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.pairs import Pairs
from al_ray.core.scorer import Floats, Labels
from al_ray.core.vectors import Vectors, paired_scores
from al_ray.training.head import Head, refitted_start


@dataclass(frozen=True)
class AdapterOptions:
    """The adapter and its training."""

    maps: Literal["shared", "separate"] = "shared"
    """One map A for both sides, or one for each."""
    epochs: Annotated[int, Between(1, 10_000)] = 10
    """Epochs over all labelled pairs, every round."""
    batch: Annotated[int, Between(2, 1_000_000)] = 128
    """Pairs per step; a last partial batch is dropped."""
    rate: Annotated[float, Between(0, 1e6)] = 1e-3
    """Peak learning rate of A. It decays linearly to 0."""
    decay: Annotated[float, Between(0, 1e6)] = 1.0
    """AdamW's weight decay of A."""
    head: Literal["batch-norm", "cosine"] = "cosine"
    """The logit of a pair in training, as jobs.run has it. It starts at a refit of all labelled pairs."""
    head_rate: Annotated[float, Between(0, 1e12)] = 10.0
    """Learning rate of w and b relative to A's."""


@dataclass(frozen=True)
class SideVectors:
    """Unit vectors of all texts of a task: left (l, d), right (r, d). Texts of splits that are not used may be 0."""

    left: Vectors
    right: Vectors

    def cosines(self, pairs: Pairs) -> Floats:
        """(n, 2) pairs -> (n,) cosines."""
        return paired_scores(self.left, pairs[:, 0], self.right, pairs[:, 1])


class Adapter(torch.nn.Module):
    """normalise(v + A v), with A of the left side in row 0 and of the right side in the last row."""

    def __init__(self, dimension: int, maps: Literal["shared", "separate"]) -> None:
        """A starts at 0."""
        super().__init__()
        self.maps = torch.nn.Parameter(torch.zeros(1 if maps == "shared" else 2, dimension, dimension))

    def forward(self, vectors: torch.Tensor, side: Literal[0, -1]) -> torch.Tensor:
        """(n, d) vectors of a side -> (n, d) unit vectors."""
        return torch.nn.functional.normalize(vectors + vectors @ self.maps[side].T)

    def adapted(self, frozen: SideVectors) -> SideVectors:
        """Adapt the vectors of both sides."""
        with torch.inference_mode():
            left, right = self(torch.from_numpy(frozen.left), 0), self(torch.from_numpy(frozen.right), -1)
        return SideVectors(left.numpy(), right.numpy())


def train_adapter(
    frozen: SideVectors,
    pairs: Pairs,
    labels: Labels,
    options: AdapterOptions,
    rng: np.random.Generator,
    flips: float = 0.0,
) -> Adapter:
    """Train an adapter from A = 0 on (n, 2) pairs and (n,) labels in {0, 1}; rng: of the order of the pairs.

    flips: the probability that a label is wrong.
    """
    adapter = Adapter(frozen.left.shape[1], options.maps)
    head = Head(
        TrainingConfig(head=options.head),
        refitted_start(frozen.cosines(pairs), labels, normalises=options.head == "batch-norm"),
    )
    optimiser = torch.optim.AdamW(
        [
            {"params": adapter.parameters(), "weight_decay": options.decay},
            {"params": head.parameters(), "lr": options.rate * options.head_rate, "weight_decay": 0.0},
        ],
        lr=options.rate,
    )
    left, right = torch.from_numpy(frozen.left), torch.from_numpy(frozen.right)
    rows, target = torch.from_numpy(pairs), torch.from_numpy(labels.astype(np.float32))
    batch = min(options.batch, len(labels))
    per_epoch = len(labels) // batch
    steps = options.epochs * per_epoch
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / steps)
    for _ in range(options.epochs):
        order = torch.from_numpy(rng.permutation(len(labels)))
        for at in order[: per_epoch * batch].split(batch):
            ones, others = adapter(left[rows[at, 0]], 0), adapter(right[rows[at, 1]], -1)
            logits = head((ones * others).sum(dim=1))
            if flips:
                p = flips + (1 - 2 * flips) * torch.sigmoid(logits)
                loss = torch.nn.functional.binary_cross_entropy(p, target[at])
            else:
                loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, target[at])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            head.keep_increasing()
            schedule.step()
    return adapter
