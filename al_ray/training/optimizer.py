"""AdamW as the paper's program has it, and its learning-rate schedule."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from al_ray.core.config.sections import TrainingConfig
from al_ray.encoders.encoder import TextEncoder
from al_ray.training.checkpoint import restored
from al_ray.training.head import Head

BETAS = (0.9, 0.999)


@dataclass(frozen=True)
class Step:
    """Progress of a training: step of steps, and the loss (nats a pair) of that batch."""

    step: int
    steps: int
    loss: float


class Optimiser:
    """AdamW with a peak rate for each part, a linear warm-up and decay, and clipped gradients (Table 7)."""

    def __init__(self, parts: Sequence[tuple[torch.nn.Module, float]], config: TrainingConfig, steps: int) -> None:
        """Prepare for so many steps. parts: modules, each with its peak rate."""
        self.config, self.steps, self.taken = config, steps, 0
        self.rates = tuple(rate for _, rate in parts)
        groups = [{"params": [p for p in part.parameters() if p.requires_grad]} for part, _ in parts]
        self.all = [p for group in groups for p in group["params"]]
        self.adam = torch.optim.AdamW(groups, betas=BETAS, weight_decay=config.weight_decay, fused=True)

    @staticmethod
    def of(encoder: TextEncoder, head: Head, config: TrainingConfig, steps: int) -> "Optimiser":
        """The bi-encoder's: the head learns so many times faster."""
        rate = config.learning_rate
        return Optimiser([(encoder.network, rate), (head, rate * config.head_rate)], config, steps)

    def factor(self) -> float:
        """Share of the peak rate at the coming step: up over the warm-up, then down to 0."""
        warm = self.config.warmup * self.steps
        return min((self.taken + 1) / (warm + 1), (self.steps - self.taken) / max(1.0, self.steps - warm))

    def step(self) -> None:
        """Clip, set this step's rates, and move."""
        whole_gradients(self.all)
        torch.nn.utils.clip_grad_norm_(self.all, self.config.clip_norm)
        first, second = (1 - beta ** (self.taken + 1) for beta in BETAS)
        # torch corrects m/first and sqrt(v/second). Scaling rate and epsilon takes the correction out again, exactly:
        # rate * first / sqrt(second) * (m / first) / (sqrt(v / second) + eps / sqrt(second))
        # = rate * m / (sqrt(v) + eps).
        undo = 1.0 if self.config.bias_correction else first / math.sqrt(second)
        shrink = 1.0 if self.config.bias_correction else math.sqrt(second)
        for group, rate in zip(self.adam.param_groups, self.rates, strict=True):
            group["lr"] = rate * self.factor() * undo
            group["eps"] = self.config.epsilon / shrink
            # torch decays by rate * decay: the correction that the rate takes out was never in it.
            group["weight_decay"] = self.config.weight_decay / undo
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        self.taken += 1

    def resume(self, taken: int, parts: dict[str, dict[str, torch.Tensor]]) -> None:
        """Continue after the first `taken` steps from the parts of their checkpoint."""
        self.taken = taken
        if taken:
            restored(self.adam, parts["optimiser"])


def thin_gradients(network: torch.nn.Module) -> None:
    """Let a pass on a CPU leave gradients of the words it saw alone: a step has several, and most words are in none."""
    for part in network.modules():
        if isinstance(part, torch.nn.Embedding):
            part.sparse = part.weight.device.type == "cpu"


def whole_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Make gradients of all words of those, before anybody looks at their norm or moves the weights."""
    for one in parameters:
        if one.grad is not None and one.grad.is_sparse:
            one.grad = one.grad.to_dense()
