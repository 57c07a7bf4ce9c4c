"""Losses for labelled pairs, by name (--training.loss); docs/losses.md says when to use which.

bce, focal, ghm and ohem are of the head's logits z and labels y, with p = sigmoid(z). in-batch, in-batch-softmax and
momentum are of the cosines of the left texts q_i of a batch and right texts d_j, its own and others. Their anchors are
the left texts of its labelled matches, and a batch without one contributes nothing: its loss and its gradients are 0. A
labelled non-match gives its right text to all anchors, so also to its own left text where that is one.

What may be no negative of an anchor: every text that is the same to the encoder (the same token ids), or that labelled
matches link to it, directly or by way of others (`texts_of`). Matches that nobody has labelled cannot be known: they
are taken for negatives. Logarithms are natural; every loss is at least 0.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from math import ceil

import numpy as np
import torch

from al_ray.core.config.losses import LossConfig, LossName
from al_ray.core.graph import components
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.scorer import Labels
from al_ray.encoders.encoder import TextEncoder
from al_ray.encoders.tokens import Tokens

State = dict[str, torch.Tensor]
"""What a loss must remember of earlier batches, by name; empty for most."""


def bce(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """(b,) logits and labels -> mean_i -[y log p + (1 - y) log(1 - p)], binary cross-entropy (paper 001, A.1)."""
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, wanted)


def focal(logits: torch.Tensor, wanted: torch.Tensor, alpha: float, gamma: float) -> torch.Tensor:
    """(b,) logits and labels -> mean_i -alpha_t (1 - p_t)^gamma log p_t (Lin et al. 2017, Eq. 5).

    p_t, alpha_t = p, alpha of a match and 1 - p, 1 - alpha of a non-match. alpha in 0..1, gamma >= 0. The source
    divides by the matches of an image; ours is a mean over the batch.
    """
    signed = logits * (2 * wanted - 1)
    weights = alpha * wanted + (1 - alpha) * (1 - wanted)
    # In logarithms: 1 - p_t of a very easy pair is 0 in floats, and the slope of its power may then be infinite.
    eased = torch.exp(gamma * torch.nn.functional.logsigmoid(-signed))
    return (-weights * eased * torch.nn.functional.logsigmoid(signed)).mean()


def ohem(logits: torch.Tensor, wanted: torch.Tensor, share: float) -> torch.Tensor:
    """(b,) logits and labels -> the mean bce of the ceil(share * b) pairs where it is highest; others have no gradient.

    Online hard example mining (Shrivastava et al. 2016, section 4). share in 0..1; of equal losses the first stay.
    """
    losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    order = torch.argsort(losses.detach(), descending=True, stable=True)
    # Rounded before it is raised: 0.07 * 100 is 7.000000000000001 in floats.
    return losses[order[: max(1, ceil(round(share * len(losses), 6)))]].mean()


def gradient_bins(logits: torch.Tensor, wanted: torch.Tensor, bins: int) -> torch.Tensor:
    """(b,) logits and labels -> (b,) which of the M unit regions of 0..1 each g = |p - y| lies in; 1 is in the last."""
    norms = (torch.sigmoid(logits.detach()) - wanted).abs()
    return (norms * bins).long().clamp(max=bins - 1)


def moved(before: torch.Tensor | None, where: torch.Tensor, bins: int, momentum: float) -> torch.Tensor:
    """(b,) bins of a batch -> (M,) moving counts S_j = a S_j' + (1 - a) R_j (Li et al. 2019, EMA); before: (M,) S'.

    R_j counts the batch's pairs in bin j. The first batch's counts stand as they are, where the source starts from 0.
    """
    counts = torch.bincount(where, minlength=bins).to(torch.float32)
    return counts if before is None else momentum * before.to(counts.device) + (1 - momentum) * counts


def ghm(logits: torch.Tensor, wanted: torch.Tensor, where: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """(b,) logits, labels and bins, (M,) counts S -> sum_i bce_i / GD(g_i), GD(g) = S_ind(g) M.

    Gradient harmonising, GHM-C (Li et al. 2019, its unit region approximation): each bin with pairs has the same part
    of the whole, however many they are. counts > 0 where a pair lies.
    """
    losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    return (losses / (counts[where] * len(counts)).to(losses.dtype)).sum()


class LogitLoss:
    """A loss of the head's logits, by name. Its state are the moving counts of ghm."""

    def __init__(self, name: LossName, options: LossConfig) -> None:
        """Begin without a state."""
        self.name, self.options, self.state = name, options, State()

    def __call__(self, logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """(b,) logits and labels -> the loss of the batch, once a step."""
        if self.name == "focal":
            return focal(logits, wanted, self.options.focal_alpha, self.options.focal_gamma)
        if self.name == "ohem":
            return ohem(logits, wanted, self.options.hardest)
        if self.name == "ghm":
            where = gradient_bins(logits, wanted, self.options.ghm_bins)
            counts = moved(self.state.get("bins"), where, self.options.ghm_bins, self.options.ghm_momentum)
            self.state = {"bins": counts}
            return ghm(logits, wanted, where, counts)
        return bce(logits, wanted)

    def state_dict(self) -> State:
        """Return its memory of earlier batches, for a checkpoint."""
        return self.state

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self.state = dict(state)


def texts_of(tokens: tuple[Tokens, Tokens], pairs: Pairs, labels: Labels) -> Pairs:
    """(n, 2) labelled pairs -> (n, 2) numbers of what both texts are: equal where texts may be no negatives.

    That is, where their token ids are the same, or a chain of labelled matches and of such texts leads from one to the
    other.
    """
    numbers, texts = dict[bytes, int](), np.empty_like(pairs)
    for side, own in enumerate(tokens):
        rows, where = np.unique(pairs[:, side], return_inverse=True)
        ids = (own.ids[own.starts[row] : own.starts[row + 1]].tobytes() for row in rows)
        texts[:, side] = np.array([numbers.setdefault(one, len(numbers)) for one in ids])[where]
    return components(len(numbers), texts[labels == 1])[texts]


def cosines_of(ones: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """(b, d) and (c, d) vectors of any length -> (b, c)."""
    return torch.nn.functional.normalize(ones) @ torch.nn.functional.normalize(others).T


def in_batch(
    head: Callable[[torch.Tensor], torch.Tensor], cosines: torch.Tensor, wanted: torch.Tensor, linked: torch.Tensor
) -> torch.Tensor:
    """(b, b) cosines of q_i and d_j, (b,) labels, (b, b) which may be no negatives -> mean bce over a set of (i, j).

    In-batch negatives, binary form (paper 004, 4.1). In the set are the b labelled pairs (i, i) with their labels, and
    for every match i all (i, j) that are not linked, as non-matches. Their cosines together are one batch of the head.
    """
    anchors, own = wanted > 0, torch.eye(len(wanted), dtype=torch.bool, device=wanted.device)
    if not anchors.any():
        return cosines.sum() * 0.0
    used = own | (anchors[:, None] & ~linked)
    return bce(head(cosines[used]), torch.diag(wanted)[used])


def softmax_contrast(
    cosines: torch.Tensor, wanted: torch.Tensor, linked: torch.Tensor, temperature: float
) -> torch.Tensor:
    """(b, c) cosines, (b,) labels, (b, c) which may be no negatives, c >= b -> the mean over the matches i of
    -log(e(i, i) / (e(i, i) + sum over j that are not linked of e(i, j))), e(i, j) = exp(cos(q_i, d_j) / tau).

    The first b columns are the batch's own d_j. With these alone: in-batch negatives, softmax form (paper 004, 4.1);
    with keys and a queue, momentum contrast (He et al. 2020, Eq. 1). tau > 0. An anchor without negatives has loss 0.
    """  # fmt: skip
    anchors, own = wanted > 0, torch.eye(*cosines.shape, dtype=torch.bool, device=cosines.device)
    if not anchors.any():
        return cosines.sum() * 0.0
    logits = (cosines / temperature).masked_fill(linked & ~own, -torch.inf)
    return torch.nn.functional.cross_entropy(logits[anchors], torch.nonzero(anchors)[:, 0])


class SideLoss:
    """A loss of the two sides of a batch, by name.

    momentum has a state: the encoder of keys, which begins as the trained one and follows it slowly, and the queue of
    the last K keys, which begins empty. Keys are the right texts of all pairs of a batch. In the source the queue alone
    gives negatives, and begins with noise; here the batch's own keys do, too, from the first step on.
    """

    def __init__(self, name: LossName, options: LossConfig, encoder: TextEncoder) -> None:
        """encoder: the one that is trained."""
        self.name, self.options, self.encoder, self.keys = name, options, encoder, encoder
        if name == "momentum":
            self.keys = deepcopy(encoder)
            self.keys.network.requires_grad_(False)
        self.queue = torch.empty(0, encoder.dimension)
        self.queued = torch.empty(0, dtype=torch.int64)

    @torch.no_grad()
    def follow(self) -> None:
        """Before a batch: the keys' encoder goes a step after the trained one, f_k = m f_k + (1 - m) f_q (Eq. 2)."""
        if self.keys is not self.encoder:
            ours, theirs = self.keys.network.parameters(), self.encoder.network.parameters()
            for key, query in zip(ours, theirs, strict=True):
                key.lerp_(query, 1 - self.options.key_momentum)

    def __call__(
        self,
        head: Callable[[torch.Tensor], torch.Tensor],
        sides: tuple[torch.Tensor, torch.Tensor],
        wanted: torch.Tensor,
        texts: Rows,
    ) -> torch.Tensor:
        """Two (b, d) sides, the right one by `keys`; (b,) labels; (b, 2) numbers as `texts_of` -> the batch's loss."""
        ones, others = sides
        left, right = torch.from_numpy(texts).to(ones.device).T
        if self.name == "momentum":
            others = torch.cat([others, self.queue.to(others)])
            right = torch.cat([right, self.queued.to(right)])
            most = self.options.queue
            # The youngest first, as they stand.
            self.queue, self.queued = others[:most].detach(), right[:most]
        cosines, linked = cosines_of(ones, others), left[:, None] == right
        if self.name == "in-batch":
            return in_batch(head, cosines, wanted, linked)
        return softmax_contrast(cosines, wanted, linked, self.options.temperature)

    def state_dict(self) -> State:
        """Return its memory of earlier batches, for a checkpoint."""
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
