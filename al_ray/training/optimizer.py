"""AdamW as in the paper's program, and its learning-rate schedule."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from al_ray.core.config.sections import TrainingConfig
from al_ray.encoders.encoder import TextEncoder
from al_ray.training.head import Head

BETAS = (0.9, 0.999)


@dataclass(frozen=True)
class Step:
    """Progress of a training: number of the step, number of all steps, and the loss (nats per pair) of the batch."""

    step: int
    steps: int
    loss: float


class Optimiser:
    """AdamW with a peak learning rate for each part, linear warm-up and decay, and clipped gradients (Table 7)."""

    def __init__(
        self, parts: Sequence[tuple[torch.nn.Module, float]], config: TrainingConfig, steps: int, device: str
    ) -> None:
        """parts: modules, each with its peak learning rate. steps: number of all steps. device: of the modules.

        With `l2_sp` the first part, the encoder, is pulled towards the weights that it has now. A head is not: it has
        learned nothing before.
        """
        self.config, self.steps, self.device, self.taken = config, steps, device, 0
        self.rates = tuple(rate for _, rate in parts)
        groups = [{"params": [p for p in part.parameters() if p.requires_grad]} for part, _ in parts]
        self.all = [p for group in groups for p in group["params"]]
        self.gradients = WholeGradients(self.all)
        pulled = groups[0]["params"] if config.l2_sp else []
        self.pulled = [(parameter, parameter.detach().clone()) for parameter in pulled]
        self.adam = torch.optim.AdamW(groups, betas=BETAS, weight_decay=config.weight_decay, fused=True)

    @staticmethod
    def of(encoder: TextEncoder, head: Head, config: TrainingConfig, steps: int) -> "Optimiser":
        """Make the optimizer of a bi-encoder, whose head has `head_rate` times the learning rate."""
        rate = config.learning_rate
        return Optimiser([(encoder.network, rate), (head, rate * config.head_rate)], config, steps, encoder.device)

    def factor(self) -> float:
        """Return the learning rate of the next step as a share of the peak: up during warm-up, then down to 0."""
        warm = self.config.warmup * self.steps
        return min((self.taken + 1) / (warm + 1), (self.steps - self.taken) / max(1.0, self.steps - warm))

    def step(self) -> None:
        """Clip the gradients, set the rates of this step, and update the weights."""
        self.gradients.make()
        torch.nn.utils.clip_grad_norm_(self.all, self.config.clip_norm)
        first, second = (1 - beta ** (self.taken + 1) for beta in BETAS)
        # torch corrects the bias: m/first and sqrt(v/second). Scaling rate and epsilon removes the correction exactly:
        # rate * first / sqrt(second) * (m / first) / (sqrt(v / second) + eps / sqrt(second))
        # = rate * m / (sqrt(v) + eps).
        undo = 1.0 if self.config.bias_correction else first / math.sqrt(second)
        shrink = 1.0 if self.config.bias_correction else math.sqrt(second)
        for group, rate in zip(self.adam.param_groups, self.rates, strict=True):
            group["lr"] = rate * self.factor() * undo
            group["eps"] = self.config.epsilon / shrink
            # torch decays by rate * decay, which has no bias correction to remove.
            group["weight_decay"] = self.config.weight_decay / undo
        self._pull()
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        self.taken += 1

    @torch.no_grad()
    def _pull(self) -> None:
        """Decay towards the initial weights w0: w = w - rate l2_sp (w - w0), the step on l2_sp / 2 |w - w0|^2 (L2-SP).

        Decoupled from the gradient, as AdamW decays towards 0 (Loshchilov and Hutter 2019): in the gradient it would be
        clipped, and divided by Adam's sqrt(v), so that weights with large gradients would hardly be pulled.
        """
        share = self.rates[0] * self.factor() * self.config.l2_sp
        for parameter, start in self.pulled:
            parameter.lerp_(start, share)


def thin_gradients(network: torch.nn.Module) -> None:
    """Make the gradients of embeddings sparse on a CPU: a step has several passes, and most words occur in none."""
    for part in network.modules():
        if isinstance(part, torch.nn.Embedding):
            part.sparse = part.weight.device.type == "cpu"


class WholeGradients:
    """Makes sparse gradients dense, before their norm is computed or the weights are updated.

    Each step uses the same memory again: to fill as much with zeros takes a fifth of a step.
    """

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Of parameters whose gradients are set to None between two steps."""
        self.parameters = list(parameters)
        self._whole: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def make(self) -> None:
        """Make the gradients of this step dense."""
        for number, parameter in enumerate(self.parameters):
            sparse = parameter.grad
            if sparse is None or not sparse.is_sparse:
                continue
            rows = sparse._indices()[0]
            whole, before = self._whole.get(number) or (torch.zeros_like(parameter), rows[:0])
            parameter.grad = whole.index_fill_(0, before, 0.0).index_add_(0, rows, sparse._values())
            self._whole[number] = whole, rows
