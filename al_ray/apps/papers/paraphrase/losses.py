"""Losses of N positive pairs <q1_i, q2_i>, in which every other q2_j is a negative of q1_i (paper 002, 3 and 3.1).

All are functions of the (N, N) distances d_ij of q1_i and q2_j: d_ii is that of a pair. Each is a mean over the N
anchors, where Eq. 1 has a sum: so the batch size does not enter the rate.
"""

import numpy as np
import torch

from al_ray.core.pairs import Rows

LEAST = 1e-12  # Of a squared distance before its root, whose slope at 0 is infinite.


def distances(ones: torch.Tensor, others: torch.Tensor, squared: bool) -> torch.Tensor:
    """(N, d) and (N, d) vectors -> (N, N): d_ij = |q1_i - q2_j|^2, or its root."""
    result = (ones.square().sum(dim=1)[:, None] + others.square().sum(dim=1) - 2 * ones @ others.T).clamp(min=0.0)
    return result if squared else result.clamp(min=LEAST).sqrt()


def paired(ones: torch.Tensor, others: torch.Tensor, squared: bool) -> torch.Tensor:
    """(N, d) and (N, d) vectors -> (N,) d_ii, the diagonal of `distances`."""
    result = (ones - others).square().sum(dim=1)
    return result if squared else result.clamp(min=LEAST).sqrt()


def sdml(apart: torch.Tensor, smoothing: float) -> torch.Tensor:
    """Smoothed deep metric learning: (N, N) distances -> mean_i KL(p'(.|i) || p^(i, .)).

    p^(i, j) = exp(-d_ij) / sum_k exp(-d_ik) (Eq. 2); p'(j|i) = (1 - eps) [i = j] + eps / N (Eq. 3), so that the pair
    itself has 1 - eps + eps / N. With eps = 0 it is the cross-entropy -log p^(i, i).
    """
    size = len(apart)
    target = (1 - smoothing) * torch.eye(size, dtype=apart.dtype, device=apart.device) + smoothing / size
    return torch.nn.functional.kl_div(torch.log_softmax(-apart, dim=1), target, reduction="batchmean")


def triplet(apart: torch.Tensor, negatives: torch.Tensor, margin: float) -> torch.Tensor:
    """(N, N) distances and (N,) which q2_j is the negative of each q1_i -> mean_i [d_ii - d_ij + margin]_+ (Eq. 1)."""
    return triplet_against(apart.diagonal(), apart.gather(1, negatives[:, None])[:, 0], margin)


def triplet_against(own: torch.Tensor, against: torch.Tensor, margin: float) -> torch.Tensor:
    """(N,) distances to the paraphrase and (N,) to the negative, wherever it comes from -> the loss of `triplet`."""
    return torch.relu(own - against + margin).mean()


def random_negatives(size: int, rng: np.random.Generator) -> Rows:
    """Draw (N,) a uniform j other than i for each i: TL(Rand)."""
    return (np.arange(size) + rng.integers(1, size, size=size)) % size


def hard_negatives(apart: torch.Tensor) -> torch.Tensor:
    """(N, N) distances -> (N,) the j other than i that is nearest to q1_i: TL(Hard)."""
    own = torch.eye(len(apart), dtype=torch.bool, device=apart.device)
    return apart.detach().masked_fill(own, torch.inf).argmin(dim=1)
