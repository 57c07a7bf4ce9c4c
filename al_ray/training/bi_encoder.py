"""Train a bi-encoder on labelled pairs (paper, 4.2.1 and A.1), and then refit (w, b) to convergence."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from math import ceil

import numpy as np
import torch

from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadOption, TrainingFailed
from al_ray.core.naming import option
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, Labels, Scorer, refit
from al_ray.core.vectors import paired_scores
from al_ray.encoders.encoder import TextEncoder, embed_rows
from al_ray.encoders.tokens import Tokens
from al_ray.encoders.transformer import mixed
from al_ray.training.checkpoint import Checkpoint
from al_ray.training.fit import Batches, fit
from al_ray.training.frozen_states import FrozenStates, Sides, store_states
from al_ray.training.head import Head, Start, refitted_start
from al_ray.training.losses import SIDE_LOSSES, LogitLoss, SideLoss, texts_of
from al_ray.training.optimizer import Optimiser, Step, thin_gradients
from al_ray.training.process_group import ALONE, Group

logger = logging.getLogger(__name__)

Known = tuple[Pairs, Labels]
"""(n, 2) pairs with their (n,) labels."""
STARTING = 1024  # Labelled pairs to which the initial w and b of a head are fitted.
PASS = 8  # Texts in one forward pass on a CPU; texts of similar length need little padding (measured on WikiQA).


class BatchLoss(torch.nn.Module):
    """The loss of a batch (nats per pair), of which each rank of the group encodes its share of the pairs.

    The loss sees the cosines or vectors of the whole batch on every rank, so that a step equals that of one process. A
    module with one forward pass per step, as DistributedDataParallel requires.
    """

    def __init__(
        self, encoder: TextEncoder, tokens: Sides, labelled: Known, head: Head, config: TrainingConfig, group: Group
    ) -> None:
        """Make the loss that the config names, over the encoder's and the head's own weights."""
        super().__init__()
        assert config.frozen_layers != "half", "train knows how many are frozen"
        self.network, self.head = encoder.network, head
        self.encoder, self.labelled, self.group = encoder, labelled, group
        of_sides = config.loss in SIDE_LOSSES
        self.texts = texts_of(tokens, *labelled) if of_sides else None
        self.loss = SideLoss(config.loss, config.losses, encoder) if of_sides else LogitLoss(config.loss, config.losses)
        left, self.tokens = store_states(encoder, tokens, labelled[0], config.frozen_layers)
        right = left
        if isinstance(self.loss, SideLoss) and self.loss.keys is not encoder:
            right = left.of(self.loss.keys) if isinstance(left, FrozenStates) else self.loss.keys
        self.encoders = left, right

    def forward(self, rows: Rows) -> torch.Tensor:
        """(b,) rows of the labelled pairs, the whole batch, b at least the group's size -> its loss."""
        pairs, labels = self.labelled[0][rows], self.labelled[1][rows]
        shares = np.array_split(pairs, self.group.size)
        own, sizes = shares[self.group.rank], [len(share) for share in shares]
        target = torch.from_numpy(labels.astype(np.float32)).to(self.encoder.device)
        if isinstance(self.loss, LogitLoss):
            cosines = batch_cosines(self.encoders[0], *self.tokens, own)
            return self.loss(self.head(self.group.gathered(cosines, sizes)), target)
        assert self.texts is not None
        self.loss.follow()
        if self.encoders[0] is self.encoders[1]:
            both = both_sides(self.encoders[0], *self.tokens, own)
        else:
            both = tuple(forward(self.encoders[side], self.tokens[side], own[:, side]) for side in (0, 1))
        left, right = (self.group.gathered(vectors, sizes) for vectors in both)
        return self.loss(self.head, (left, right), target, self.texts[rows])


def train(
    encoder: TextEncoder,
    tokens: Sides,
    labelled: Known,
    config: TrainingConfig,
    seed: list[int],
    checkpoint: Checkpoint | None = None,
    group: Group = ALONE,
) -> Iterator[Step]:
    """Train the encoder in place on (n, 2) pairs with (n,) labels, yield each step, and resume from a checkpoint.

    A step takes workers * batch pairs, of which each rank of the group encodes its share; see `Batches` for the last
    batch and `fit` for the checkpoint. TrainingFailed for fewer pairs than workers, or than the two that a batch norm
    needs; BadOption for layers that cannot be frozen. seed: run seed, attempt and round, which decide the order of the
    pairs.
    """
    pairs = len(labelled[0])
    require_enough_pairs(pairs, config.workers)
    if config.frozen_layers:
        config = replace(config, frozen_layers=freeze(encoder, tokens[0], config))
    batches = Batches(
        pairs,
        config.batch * config.workers,
        lambda epoch: generator(seed[0], f"training-order-{seed[1]}-{epoch}", seed[2]).permutation(pairs),
    )
    head = initial_head(encoder, tokens, labelled, config, group)
    loss_of = BatchLoss(encoder, tokens, labelled, head, config, group)
    optimiser = Optimiser.of(encoder, head, config, config.epochs * batches.per_epoch)
    optimiser.adam.register_step_post_hook(lambda *_: head.keep_increasing())
    head.train()
    if group is ALONE:
        thin_gradients(encoder.network)
    together = group.together(loss_of)

    def backward(rows: Rows) -> torch.Tensor:
        loss = together(rows)
        loss.backward()
        return loss.detach()

    states = {"encoder": encoder.network, "head": head, "loss": loss_of.loss}
    yield from fit(optimiser, states, batches, backward, checkpoint, group)


def require_enough_pairs(pairs: int, workers: int) -> None:
    """Raise TrainingFailed for fewer than two pairs, or fewer than one per worker."""
    if pairs < max(2, workers):
        several = f" by {workers} workers", ", or fewer `training.workers`"
        who, fix = several if workers > 1 else ("", "")
        raise TrainingFailed(f"{pairs} labelled pairs are too few to train on{who}; give more labels{fix}")


def freeze(encoder: TextEncoder, tokens: Tokens, config: TrainingConfig) -> int:
    """Freeze the layers that the config says, and return how many.

    BadOption if there are fewer, or if nothing is left that the loss trains. tokens: of any texts, of which one is
    encoded.
    """
    count = encoder.freeze(config.frozen_layers)
    found = "none: the encoder has fewer than two layers, or al_ray does not find them"
    logger.info("frozen layers: %s", f"{count}, and the embeddings" if count else found)
    # A batch without a match gives such a loss no gradient of the head either.
    if config.loss in SIDE_LOSSES and not encoder.forward(tokens, np.arange(1)).requires_grad:
        raise BadOption(
            f"{option('training.frozen_layers', config.frozen_layers)} freezes all of {encoder.config.encoder}, and "
            f"{option('training.loss', config.loss)} trains vectors; freeze fewer layers"
        )
    return count


def initial_head(
    encoder: TextEncoder, tokens: Sides, labelled: Known, config: TrainingConfig, group: Group = ALONE
) -> Head:
    """Make the head with its initial w and b, on the encoder's device.

    For a refit rank 0 encodes up to STARTING of the labelled pairs, evenly spaced over them, and sends w and b to all.
    """
    if config.head_start == "fixed":
        return Head(config).to(encoder.device)
    pairs, labels = labelled
    most = min(len(pairs), STARTING)
    rows = np.arange(most) * len(pairs) // most

    def start() -> Start:
        cosines = pair_cosines(encoder, *tokens, pairs[rows])
        return refitted_start(cosines, labels[rows], normalises=config.head == "batch-norm")

    weight, bias = group.once(start)
    logger.info("the head starts at weight %.4f and bias %.4f, refitted on %d pairs", weight, bias, most)
    return Head(config, (weight, bias)).to(encoder.device)


def batch_cosines(encoder: TextEncoder | FrozenStates, left: Tokens, right: Tokens, pairs: Pairs) -> torch.Tensor:
    """(b, 2) pairs -> (b,) cosines with gradients."""
    return torch.cosine_similarity(*both_sides(encoder, left, right, pairs))


def both_sides(
    encoder: TextEncoder | FrozenStates, left: Tokens, right: Tokens, pairs: Pairs
) -> tuple[torch.Tensor, torch.Tensor]:
    """(b, 2) pairs -> the vectors of their left and right texts, (b, d) each, together if their prompts allow it."""
    if left.prompt != right.prompt:
        return forward(encoder, left, pairs[:, 0]), forward(encoder, right, pairs[:, 1])
    texts = left.beside(pairs[:, 0], right, pairs[:, 1])
    ones, others = forward(encoder, texts, np.arange(len(texts))).split(len(pairs))
    return ones, others


def passes_of_step(pairs: int, on_gpu: bool) -> int:
    """Return the forward passes of a step with this number of pairs, whose prompts allow both sides together."""
    return 1 if on_gpu else ceil(2 * pairs / PASS)


def forward(encoder: TextEncoder | FrozenStates, tokens: Tokens, rows: Rows, size: int = PASS) -> torch.Tensor:
    """(b,) rows -> (b, d), on a CPU in passes of `size` texts of similar length, on a GPU in one pass."""
    if encoder.device != "cpu":
        return encoder.forward(tokens, rows)
    order = np.argsort(tokens.lengths(rows), kind="stable")
    # Around all passes, so that bf16 copies of the weights are made once.
    with mixed(encoder.config.arithmetic, encoder.device):
        parts = [encoder.forward(tokens, rows[order[start : start + size]]) for start in range(0, len(rows), size)]
    return torch.cat(parts)[torch.from_numpy(np.argsort(order))]


def pair_cosines(encoder: TextEncoder, left: Tokens, right: Tokens, pairs: Pairs) -> Floats:
    """(n, 2) pairs -> (n,) cosines; each distinct text is encoded once."""
    sides = [np.unique(side, return_inverse=True) for side in pairs.T]
    left_vectors, right_vectors = (
        embed_rows(encoder, tokens, rows) for tokens, (rows, _) in zip((left, right), sides, strict=True)
    )
    return paired_scores(left_vectors, sides[0][1], right_vectors, sides[1][1])


def fit_scorer(cosines: Floats, labels: Labels, config: TrainingConfig) -> tuple[Scorer, bool]:
    """Refit the scorer, and return it with whether the training is good: its loss is at most `worst_loss`.

    If all labels are equal (`one-class`), the training counts as good.
    """
    scorer = refit(cosines, labels)
    good = scorer.loss <= config.worst_loss or scorer.outcome == "one-class"
    logger.info(
        "refitted on %d pairs: %s, loss %.4f, boundary %.4f", len(labels), scorer.outcome, scorer.loss, scorer.boundary
    )
    return scorer, good
