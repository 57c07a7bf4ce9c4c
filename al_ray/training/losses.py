"""Losses for labelled pairs, by name (--training.loss); docs/losses.md says when to use which.

LOGIT_LOSSES and SIDE_LOSSES have them by name. The former take the head's logits z and labels y, with p = sigmoid(z).
The latter take the cosines of the left texts q_i of a batch with right texts d_j, of the same batch and others. Anchors
are the left texts of labelled matches; the loss and the gradients of a batch without matches are 0. The right text of a
labelled non-match is a negative of all anchors, also of its own left text if that is an anchor.

A text is no negative of an anchor if both have the same token ids, or if labelled matches link them, directly or
through other texts (`texts_of`). Matches without a label are unknown and are used as negatives. Logarithms are natural;
every loss is at least 0.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from math import ceil

import numpy as np
import torch

from al_ray.core.config.losses import LOSSES, LossConfig, LossName
from al_ray.core.graph import components
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.scorer import Labels
from al_ray.encoders.encoder import TextEncoder
from al_ray.encoders.tokens import Tokens

State = dict[str, torch.Tensor]
"""What a loss stores of earlier batches, by name; empty for most losses."""


def bce(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """(b,) logits and labels -> mean_i -[y log p + (1 - y) log(1 - p)], binary cross-entropy (paper 001, A.1)."""
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, target)


def focal(logits: torch.Tensor, target: torch.Tensor, alpha: float, gamma: float) -> torch.Tensor:
    """(b,) logits and labels -> mean_i -alpha_t (1 - p_t)^gamma log p_t (Lin et al. 2017, Eq. 5).

    p_t, alpha_t = p, alpha for a match and 1 - p, 1 - alpha for a non-match. alpha in 0..1, gamma >= 0. The source
    divides by the number of matches in an image; ours is a mean over the batch.
    """
    signed = logits * (2 * target - 1)
    weights = alpha * target + (1 - alpha) * (1 - target)
    # In logarithms, because 1 - p_t of a very easy pair is 0 in floats, and the gradient of its power may be infinite.
    eased = torch.exp(gamma * torch.nn.functional.logsigmoid(-signed))
    return (-weights * eased * torch.nn.functional.logsigmoid(signed)).mean()


def ohem(logits: torch.Tensor, target: torch.Tensor, share: float) -> torch.Tensor:
    """(b,) logits and labels -> the mean bce of the ceil(share * b) pairs of the highest bce; others have no gradient.

    Online hard example mining (Shrivastava et al. 2016, section 4). share in 0..1; ties by place in the batch.
    """
    losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    order = torch.argsort(losses.detach(), descending=True, stable=True)
    # Rounded before ceil: 0.07 * 100 is 7.000000000000001 in floats.
    return losses[order[: max(1, ceil(round(share * len(losses), 6)))]].mean()


def gradient_bins(logits: torch.Tensor, target: torch.Tensor, bins: int) -> torch.Tensor:
    """(b,) logits and labels -> (b,) number of the unit region of 0..1, of M, with g = |p - y|; 1 is in the last.

    So is NaN: the loss is NaN then, too, which a training reports by name.
    """
    norms = (torch.sigmoid(logits.detach()) - target).abs().nan_to_num(1.0)
    return (norms * bins).long().clamp(max=bins - 1)


def moved(before: torch.Tensor | None, where: torch.Tensor, bins: int, momentum: float) -> torch.Tensor:
    """(b,) bins of a batch -> (M,) moving counts S_j = a S_j' + (1 - a) R_j (Li et al. 2019, EMA); before: (M,) S'.

    R_j counts the batch's pairs in bin j. The moving counts start with those of the first batch; in the source with 0.
    """
    counts = torch.bincount(where, minlength=bins).to(torch.float32)
    return counts if before is None else momentum * before.to(counts.device) + (1 - momentum) * counts


def ghm(logits: torch.Tensor, target: torch.Tensor, where: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """(b,) logits, labels and bins, (M,) counts S -> sum_i bce_i / GD(g_i), GD(g) = S_ind(g) M.

    Gradient harmonising, GHM-C (Li et al. 2019, unit region approximation): each bin with pairs has the same weight,
    whatever their number. counts must be positive in each bin with a pair.
    """
    losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    return (losses / (counts[where] * len(counts)).to(losses.dtype)).sum()


def _ghm(logits: torch.Tensor, target: torch.Tensor, options: LossConfig, state: State) -> torch.Tensor:
    """Take the counts of earlier batches from the state, and store those of this one there."""
    where = gradient_bins(logits, target, options.ghm_bins)
    state["bins"] = moved(state.get("bins"), where, options.ghm_bins, options.ghm_momentum)
    return ghm(logits, target, where, state["bins"])


LOGIT_LOSSES: Mapping[str, Callable[[torch.Tensor, torch.Tensor, LossConfig, State], torch.Tensor]] = {
    "bce": lambda logits, target, options, state: bce(logits, target),
    "focal": lambda logits, target, options, state: focal(logits, target, options.focal_alpha, options.focal_gamma),
    "ghm": _ghm,
    "ohem": lambda logits, target, options, state: ohem(logits, target, options.hardest),
}
"""Losses of (b,) logits and labels. A loss may replace entries of the state, which it finds again at the next batch."""


class LogitLoss:
    """A loss of the head's logits, by name."""

    def __init__(self, name: LossName, options: LossConfig) -> None:
        """Start with an empty state."""
        self.name, self.options, self.state = name, options, State()

    def __call__(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """(b,) logits and labels -> the loss of the batch; called once per step."""
        return LOGIT_LOSSES[self.name](logits, target, self.options, self.state)

    def state_dict(self) -> State:
        """Return the state, for a checkpoint."""
        return dict(self.state)

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self.state = dict(state)


def texts_of(tokens: tuple[Tokens, Tokens], pairs: Pairs, labels: Labels) -> Pairs:
    """(n, 2) labelled pairs -> (n, 2) numbers of their texts, equal for texts that are no negatives of each other.

    These are texts with the same token ids, and texts linked by a chain of labelled matches and of such texts.
    """
    numbers, texts = dict[bytes, int](), np.empty_like(pairs)
    for side, own in enumerate(tokens):
        rows, where = np.unique(pairs[:, side], return_inverse=True)
        contents = (own.ids[own.starts[row] : own.starts[row + 1]].tobytes() for row in rows)
        texts[:, side] = np.array([numbers.setdefault(content, len(numbers)) for content in contents])[where]
    return components(len(numbers), texts[labels == 1])[texts]


def cosines_of(ones: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """(b, d) and (c, d) vectors of any length -> (b, c) cosines."""
    return torch.nn.functional.normalize(ones) @ torch.nn.functional.normalize(others).T


def in_batch(
    head: Callable[[torch.Tensor], torch.Tensor], cosines: torch.Tensor, target: torch.Tensor, linked: torch.Tensor
) -> torch.Tensor:
    """(b, b) cosines of q_i and d_j, (b,) labels, (b, b) whether linked -> mean bce over a set of pairs (i, j).

    In-batch negatives, binary form (paper 004, 4.1). The set has the b labelled pairs (i, i) with their labels, and for
    every match i all (i, j) that are not linked, as non-matches. The head sees all their cosines as one batch.
    """
    anchors, own = target > 0, torch.eye(len(target), dtype=torch.bool, device=target.device)
    used = own | (anchors[:, None] & ~linked)
    return bce(head(cosines[used]), torch.diag(target)[used])


def softmax_contrast(
    cosines: torch.Tensor, target: torch.Tensor, linked: torch.Tensor, temperature: float
) -> torch.Tensor:
    """(b, c) cosines, (b,) labels, (b, c) whether linked, c >= b -> the mean over the matches i of
    -log(e(i, i) / (e(i, i) + sum over j not linked of e(i, j))), e(i, j) = exp(cos(q_i, d_j) / tau).

    The first b columns are the batch's own d_j. With only these: in-batch negatives, softmax form (paper 004, 4.1);
    with keys and a queue: momentum contrast (He et al. 2020, Eq. 1). tau > 0. An anchor without negatives has loss 0.
    """  # fmt: skip
    anchors, own = target > 0, torch.eye(*cosines.shape, dtype=torch.bool, device=cosines.device)
    if not anchors.any():
        return cosines.sum() * 0.0
    logits = (cosines / temperature).masked_fill(linked & ~own, -torch.inf)
    return torch.nn.functional.cross_entropy(logits[anchors], torch.nonzero(anchors)[:, 0])


Logits = Callable[[torch.Tensor], torch.Tensor]
"""Of a head: cosines -> logits."""
SIDE_LOSSES: Mapping[str, Callable[[Logits, torch.Tensor, torch.Tensor, torch.Tensor, LossConfig], torch.Tensor]] = {
    "in-batch": lambda head, cosines, target, linked, options: in_batch(head, cosines, target, linked),
    **dict.fromkeys(
        ("in-batch-softmax", "momentum"),
        lambda head, cosines, target, linked, options: softmax_contrast(cosines, target, linked, options.temperature),
    ),
}
"""Losses of (b, c) cosines of left and right texts, (b,) labels and (b, c) whether the texts are linked.

c is b, and with slow keys more: the columns of a batch's own right texts are the first.
"""


class SideLoss:
    """A loss of the vectors of both sides of a batch, by name.

    One with slow keys has a state: the key encoder, which starts as a copy of the trained one and follows it slowly,
    and the queue of the last K keys, which starts empty. Keys are the right texts of all pairs of a batch. In the
    source only the queue gives negatives, and it starts with noise; here the keys of the batch are negatives too, from
    the first step.
    """

    def __init__(self, name: LossName, options: LossConfig, encoder: TextEncoder) -> None:
        """encoder: the trained one."""
        self.name, self.options, self.encoder, self.keys = name, options, encoder, encoder
        if LOSSES[name].slow_keys:
            self.keys = deepcopy(encoder)
            self.keys.network.requires_grad_(False)
        self.queue = torch.empty(0, encoder.dimension)
        self.queued = torch.empty(0, dtype=torch.int64)

    @torch.no_grad()
    def follow(self) -> None:
        """Update the key encoder before a batch: f_k = m f_k + (1 - m) f_q (Eq. 2)."""
        if self.keys is not self.encoder:
            ours, theirs = self.keys.network.parameters(), self.encoder.network.parameters()
            for key, query in zip(ours, theirs, strict=True):
                key.lerp_(query, 1 - self.options.key_momentum)

    def __call__(
        self,
        head: Logits,
        sides: tuple[torch.Tensor, torch.Tensor],
        target: torch.Tensor,
        texts: Rows,
    ) -> torch.Tensor:
        """Two (b, d) sides, the right one by `keys`; (b,) labels; (b, 2) numbers of `texts_of` -> the batch's loss."""
        queries, keys = sides
        left, right = torch.from_numpy(texts).to(queries.device).T
        if self.keys is not self.encoder:
            keys, right = torch.cat([keys, self.queue.to(keys)]), torch.cat([right, self.queued.to(right)])
            # The newest keys come first.
            self.queue, self.queued = keys[: self.options.queue].detach(), right[: self.options.queue]
        cosines, linked = cosines_of(queries, keys), left[:, None] == right
        return SIDE_LOSSES[self.name](head, cosines, target, linked, self.options)

    def state_dict(self) -> State:
        """Return the state, for a checkpoint."""
        if self.keys is self.encoder:
            return {}
        weights = {f"keys.{name}": value for name, value in self.keys.network.state_dict().items()}
        return {"queue": self.queue, "queued": self.queued, **weights}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore what `state_dict` returned."""
        if self.keys is not self.encoder:
            self.queue, self.queued = state["queue"], state["queued"]
            weights = {name.removeprefix("keys."): value for name, value in state.items() if name.startswith("keys.")}
            self.keys.network.load_state_dict(weights)
