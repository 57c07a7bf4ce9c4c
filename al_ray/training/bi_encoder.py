"""Training CosineBERT on labelled pairs (paper, 4.2.1 and A.1): the encoder, then (w, b) refitted to convergence."""

import logging
from collections.abc import Iterator

import numpy as np
import torch

from al_ray.core.config.losses import OF_SIDES
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import TrainingFailed
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, Labels, Scorer, refit
from al_ray.core.vectors import paired_scores
from al_ray.encoders.encoder import TextEncoder, embed_rows
from al_ray.encoders.tokens import Tokens
from al_ray.training.checkpoint import Checkpoint
from al_ray.training.fit import Batches, fit
from al_ray.training.head import Head
from al_ray.training.losses import LogitLoss, SideLoss, texts_of
from al_ray.training.optimizer import Optimiser, Step, thin_gradients
from al_ray.training.process_group import ALONE, Group

logger = logging.getLogger(__name__)

Sides = tuple[Tokens, Tokens]
"""Token ids of the left and of the right texts."""
Known = tuple[Pairs, Labels]
"""(n, 2) pairs with their (n,) labels."""
PASS = 8  # Texts in one forward pass on a CPU, of like length: the least padding, measured on WikiQA.


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
    refuse_few(pairs, config.workers)
    batches = Batches(
        pairs,
        config.batch * config.workers,
        lambda epoch: generator(seed[0], f"training-order-{seed[1]}-{epoch}", seed[2]).permutation(pairs),
    )
    head = Head(config).to(encoder.device)
    loss_of = loss_by_name(encoder, tokens, labelled, head, config, group)
    optimiser = Optimiser.of(encoder, head, config, config.epochs * batches.per_epoch)
    optimiser.adam.register_step_post_hook(lambda *_: head.keep_rising())
    head.train()
    if group is ALONE:
        thin_gradients(encoder.network)
    together = group.together(loss_of)

    def backward(rows: Rows) -> float:
        loss = together(rows)
        loss.backward()
        return float(loss.detach())

    states = {"encoder": encoder.network, "head": head, "loss": loss_of.loss}
    yield from fit(optimiser, states, batches, backward, checkpoint, group)


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
    sides = [np.unique(side, return_inverse=True) for side in pairs.T]
    left_vectors, right_vectors = (
        embed_rows(encoder, tokens, rows) for tokens, (rows, _) in zip((left, right), sides, strict=True)
    )
    return paired_scores(left_vectors, sides[0][1], right_vectors, sides[1][1])


def fit_scorer(cosines: Floats, labels: Labels, config: TrainingConfig) -> tuple[Scorer, bool]:
    """The refitted scorer, and whether the training behind it is good: its loss is at most `worst_loss`.

    With one label alone (`one-class`) nothing can be said against a training, and it passes.
    """
    scorer = refit(cosines, labels)
    good = scorer.loss <= config.worst_loss or scorer.outcome == "one-class"
    logger.info(
        "refitted on %d pairs: %s, loss %.4f, boundary %.4f", len(labels), scorer.outcome, scorer.loss, scorer.boundary
    )
    return scorer, good
