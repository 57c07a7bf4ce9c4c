"""Training CosineBERT on labelled pairs (paper, 4.2.1 and A.1): the encoder, then (w, b) refitted to convergence."""

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from al_ray.core.config import TrainingConfig, generator
from al_ray.core.errors import TrainingFailed
from al_ray.core.losses import OF_SIDES
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.scoring import Floats, Labels, Scorer, refit
from al_ray.model.checkpoint import Checkpoint, restored
from al_ray.model.encoders import TextEncoder
from al_ray.model.group import ALONE, Group
from al_ray.model.losses import LogitLoss, SideLoss, texts_of
from al_ray.model.tokens import Tokens, batches

logger = logging.getLogger(__name__)

BETAS = (0.9, 0.999)
Sides = tuple[Tokens, Tokens]
"""Token ids of the left and of the right texts."""
Known = tuple[Pairs, Labels]
"""(n, 2) pairs with their (n,) labels."""
PASS = 8  # Texts in one forward pass on a CPU, of like length: the least padding, measured on WikiQA.


@dataclass(frozen=True)
class Step:
    """Progress of a training: step of steps, and the loss (nats a pair) of that batch."""

    step: int
    steps: int
    loss: float


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


class BatchLoss(torch.nn.Module):
    """The loss of a batch (nats a pair), each rank of the group with its share of the pairs: cosines, then the head.

    The head sees the cosines of the whole batch on every rank, so that the step is that of one process. A module with
    one forward pass a step, as DistributedDataParallel wants it.
    """

    def __init__(
        self, encoder: TextEncoder, tokens: Sides, labelled: Known, head: Head, loss: LogitLoss, group: Group
    ) -> None:
        """Hold the parts; the weights are the encoder's and the head's own."""
        super().__init__()
        self.network, self.head = encoder.network, head
        self.encoder, self.tokens, self.labelled, self.loss, self.group = encoder, tokens, labelled, loss, group

    def forward(self, rows: Rows) -> torch.Tensor:
        """(b,) rows of the labelled pairs, the whole batch, b at least the group's size."""
        pairs, labels = self.labelled[0][rows], self.labelled[1][rows]
        shares = np.array_split(pairs, self.group.size)
        own = batch_cosines(self.encoder, *self.tokens, shares[self.group.rank])
        logits = self.head(self.group.gathered(own, [len(share) for share in shares]))
        return self.loss(logits, wanted_of(labels, self.encoder.device))


class SidesLoss(torch.nn.Module):
    """The loss of a batch whose texts are negatives of each other: each rank encodes its share, and all see all."""

    def __init__(
        self, encoder: TextEncoder, tokens: Sides, labelled: Known, head: Head, loss: SideLoss, group: Group
    ) -> None:
        """As BatchLoss; the loss may have an encoder of its own, which is not trained."""
        super().__init__()
        self.network, self.head = encoder.network, head
        self.encoder, self.tokens, self.labelled, self.loss, self.group = encoder, tokens, labelled, loss, group
        self.texts = texts_of(tokens, *labelled)

    def forward(self, rows: Rows) -> torch.Tensor:
        """As BatchLoss."""
        pairs, labels = self.labelled[0][rows], self.labelled[1][rows]
        shares = np.array_split(pairs, self.group.size)
        own, sizes = shares[self.group.rank], [len(share) for share in shares]
        self.loss.follow()
        ones, others = (
            self.group.gathered(forward(encoder, tokens, own[:, side]), sizes)
            for side, (encoder, tokens) in enumerate(zip((self.encoder, self.loss.keys), self.tokens, strict=True))
        )
        return self.loss(self.head, (ones, others), wanted_of(labels, self.encoder.device), self.texts[rows])


def wanted_of(labels: Labels, device: str) -> torch.Tensor:
    """(b,) labels as a loss takes them."""
    return torch.from_numpy(labels.astype(np.float32)).to(device)


def loss_by_name(
    encoder: TextEncoder, tokens: Sides, labelled: Known, head: Head, config: TrainingConfig, group: Group
) -> BatchLoss | SidesLoss:
    """The config's."""
    if config.loss in OF_SIDES:
        return SidesLoss(encoder, tokens, labelled, head, SideLoss(config.loss, config.losses, encoder), group)
    return BatchLoss(encoder, tokens, labelled, head, LogitLoss(config.loss, config.losses), group)


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


def train(
    encoder: TextEncoder,
    tokens: Sides,
    labelled: Known,
    config: TrainingConfig,
    seed: list[int],
    checkpoint: Checkpoint | None = None,
    group: Group = ALONE,
) -> Iterator[Step]:
    """Train the encoder in place on (n, 2) pairs with (n,) labels; the order of the pairs comes from `seed`.

    A step takes workers * batch pairs, of which each rank of the group encodes its share. These batches are whole: a
    last partial one is dropped, but fewer pairs than a batch make one batch of what there is; TrainingFailed for fewer
    pairs than workers, or than two, of which a batch norm makes nothing. A checkpoint of this very training is gone on
    from: the weights are those of a training that never stopped. Rank 0 alone reads and writes it.
    """
    pairs = len(labelled[0])
    size = min(config.batch * config.workers, pairs)
    refuse_few(pairs, config.workers)
    per_epoch = pairs // size
    head = Head(config).to(encoder.device)
    loss_of = loss_by_name(encoder, tokens, labelled, head, config, group)
    optimiser = Optimiser.of(encoder, head, config, config.epochs * per_epoch)
    if checkpoint is not None:
        optimiser.taken, parts = group.once(checkpoint.read)
        if optimiser.taken:
            encoder.network.load_state_dict(parts["encoder"])
            head.load_state_dict(parts["head"])
            loss_of.loss.put_back(parts.get("loss", {}))
            restored(optimiser.adam, parts["optimiser"])
        # Told again, for a stream that is asked for again must be as long as it was; their losses are not known.
        yield from (Step(number + 1, optimiser.steps, math.nan) for number in range(optimiser.taken))
    head.train()
    if group is ALONE:
        thin_gradients(encoder.network)
    together = group.together(loss_of)
    order = np.empty(0, dtype=np.int64)
    while optimiser.taken < optimiser.steps:
        epoch, number = divmod(optimiser.taken, per_epoch)
        if not number or not len(order):
            order = generator(seed[0], f"training-order-{seed[1]}-{epoch}", seed[2]).permutation(pairs)
        loss = together(order[number * size : (number + 1) * size])
        loss.backward()
        optimiser.step()
        head.keep_rising()
        if checkpoint is not None and group.rank == 0 and checkpoint.due():
            parts = {"encoder": encoder.network.state_dict(), "head": head.state_dict()}
            checkpoint.write({**parts, "loss": loss_of.loss.kept()}, optimiser.adam, optimiser.taken)
        yield Step(optimiser.taken, optimiser.steps, float(loss.detach()))


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


def refuse_few(pairs: int, workers: int) -> None:
    """TrainingFailed for fewer pairs than make a batch of which every worker has one."""
    if pairs < max(2, workers):
        several = f" by {workers} workers", " or fewer --training.workers"
        who, cure = several if workers > 1 else ("", "")
        raise TrainingFailed(f"{pairs} labelled pairs are too few to train on{who}; give a larger --first-batch{cure}")


def batch_cosines(encoder: TextEncoder, left: Tokens, right: Tokens, pairs: Pairs) -> torch.Tensor:
    """(b, 2) pairs -> (b,) cosines with gradients."""
    return torch.cosine_similarity(forward(encoder, left, pairs[:, 0]), forward(encoder, right, pairs[:, 1]))


def forward(encoder: TextEncoder, tokens: Tokens, rows: Rows, size: int = PASS) -> torch.Tensor:
    """(b,) rows -> (b, d) in passes of `size` texts of like length; a GPU takes them in one."""
    if encoder.device != "cpu":
        return encoder.forward(tokens, rows)
    order = np.argsort(tokens.lengths(rows), kind="stable")
    parts = [encoder.forward(tokens, rows[order[start : start + size]]) for start in range(0, len(rows), size)]
    return torch.cat(parts)[torch.from_numpy(np.argsort(order))]


def pair_cosines(encoder: TextEncoder, left: Tokens, right: Tokens, pairs: Pairs) -> Floats:
    """(n, 2) pairs -> (n,) cosines, each distinct text encoded once."""
    cosines = np.empty(len(pairs), dtype=np.float64)
    sides = []
    for side, tokens in enumerate((left, right)):
        rows, where = np.unique(pairs[:, side], return_inverse=True)
        vectors = np.empty((len(rows), encoder.dimension), dtype=np.float32)
        for batch in batches(tokens, rows, encoder.config.batch):
            vectors[np.searchsorted(rows, batch)] = encoder.embed(tokens, batch)
        sides.append((vectors, where))
    (ones, one), (others, other) = sides
    for start in range(0, len(pairs), 4096):
        here = slice(start, start + 4096)
        cosines[here] = dots(ones[one[here]], others[other[here]])
    return cosines


def dots(ones: np.ndarray, others: np.ndarray) -> Floats:
    """(n, d) and (n, d) -> (n,) inner products in float64, each summed in the same order whatever n is."""
    return np.einsum("nd,nd->n", ones.astype(np.float64), others.astype(np.float64))


def fit(cosines: Floats, labels: Labels, config: TrainingConfig) -> tuple[Scorer, bool]:
    """The refitted scorer, and whether the training behind it is good: its loss is at most `worst_loss`.

    With one label alone (`one-class`) nothing can be said against a training, and it passes.
    """
    scorer = refit(cosines, labels)
    good = scorer.loss <= config.worst_loss or scorer.outcome == "one-class"
    logger.info(
        "refitted on %d pairs: %s, loss %.4f, boundary %.4f", len(labels), scorer.outcome, scorer.loss, scorer.boundary
    )
    return scorer, good
