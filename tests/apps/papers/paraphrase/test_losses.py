"""The losses of metric learning, against values worked by hand and slopes by finite differences."""

from math import exp, log, sqrt

import numpy as np
import pytest
import torch

from al_ray.apps.papers.paraphrase.losses import (
    distances,
    hard_negatives,
    paired,
    random_negatives,
    sdml,
    triplet,
    triplet_against,
)

# On a line: q1 = 0, 2; q2 = 1, 4. Squared: 0-1: 1, 0-4: 16, 2-1: 1, 2-4: 4.
ONES, OTHERS = torch.tensor([[0.0], [2.0]]).double(), torch.tensor([[1.0], [4.0]]).double()
TWO = torch.tensor([[1.0, 16.0], [1.0, 4.0]]).double()
# 3 x 3: distances given at once.
THREE = torch.tensor([[1.0, 2.0, 4.0], [3.0, 2.0, 1.0], [5.0, 2.5, 2.0]]).double()


def divergence(wanted: list[float], apart: list[float]) -> float:
    """KL of one anchor, term by term."""
    total = sum(exp(-each) for each in apart)
    shares = [exp(-each) / total for each in apart]
    return sum(p * log(p / q) for p, q in zip(wanted, shares, strict=True) if p)


def test_distances_are_those_worked_by_hand():
    assert distances(ONES, OTHERS, squared=True).tolist() == [[1, 16], [1, 4]]
    assert distances(ONES, OTHERS, squared=False).tolist() == [[1, 4], [1, 2]]


def test_sdml_without_smoothing_is_the_cross_entropy_worked_by_hand():
    # Anchor 1: -log(e^-1 / (e^-1 + e^-16)) = log(1 + e^-15); anchor 2: log(1 + e^3).
    assert float(sdml(TWO, 0.0)) == pytest.approx((log(1 + exp(-15)) + log(1 + exp(3))) / 2)


def test_sdml_adds_eps_over_n_everywhere_as_in_equation_3():
    # N = 2, eps = 0.3: the pair itself has 0.7 + 0.15, the other 0.15.
    by_hand = (divergence([0.85, 0.15], [1, 16]) + divergence([0.15, 0.85], [1, 4])) / 2
    assert float(sdml(TWO, 0.3)) == pytest.approx(by_hand)
    # N = 3: 0.7 + 0.1, and 0.1 for each other (the paper's Figure 1).
    wanted = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    by_hand = sum(divergence(one, apart) for one, apart in zip(wanted, THREE.tolist(), strict=True)) / 3
    assert float(sdml(THREE, 0.3)) == pytest.approx(by_hand)


def test_sdml_is_least_where_the_shares_are_the_smoothed_labels():
    # p' = (0.85, 0.15) is the softmax of (0, -log(0.85 / 0.15)).
    apart = torch.tensor([[0.0, log(0.85 / 0.15)], [log(0.85 / 0.15), 0.0]]).double()
    assert float(sdml(apart, 0.3)) == pytest.approx(0.0, abs=1e-12)


def test_the_triplet_loss_is_that_worked_by_hand():
    # Anchor 1: 1 - 16 + 0.5 < 0 -> 0; anchor 2: 4 - 1 + 0.5 = 3.5.
    assert float(triplet(TWO, torch.tensor([1, 0]), 0.5)) == pytest.approx(3.5 / 2)
    # [1 - 2 + .5]+ = 0, [2 - 1 + .5]+ = 1.5, [2 - 2.5 + .5]+ = 0, and with other negatives 0, 0, 0.
    assert float(triplet(THREE, torch.tensor([1, 2, 1]), 0.5)) == pytest.approx(1.5 / 3)
    assert float(triplet(THREE, torch.tensor([2, 0, 0]), 0.5)) == 0.0


def test_a_hard_negative_is_the_nearest_other():
    assert hard_negatives(THREE).tolist() == [1, 2, 1]
    assert hard_negatives(TWO).tolist() == [1, 0]


def test_a_random_negative_is_any_other_and_all_are_as_likely():
    rng, drawn = np.random.default_rng(0), np.zeros((4, 4))
    for _ in range(3000):
        drawn[np.arange(4), random_negatives(4, rng)] += 1
    assert (drawn.diagonal() == 0).all()
    # Each of three others about 1000 times; six standard deviations are 155.
    assert (np.abs(drawn[~np.eye(4, dtype=bool)] - 1000) < 155).all()


@pytest.mark.parametrize("squared", [True, False], ids=["squared", "euclidean"])
@pytest.mark.parametrize("loss", ["sdml", "eps 0", "random", "hard"])
def test_slopes_are_those_of_finite_differences(loss, squared):
    draws = torch.Generator().manual_seed(3)
    parts = [torch.randn(3, 2, generator=draws, dtype=torch.float64).requires_grad_() for _ in range(2)]

    def value(ones: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        apart = distances(ones, others, squared)
        if loss in ("sdml", "eps 0"):
            return sdml(apart, 0.3 if loss == "sdml" else 0.0)
        negatives = hard_negatives(apart) if loss == "hard" else torch.tensor([1, 2, 0])
        return triplet(apart, negatives, 0.5)

    assert float(value(*parts).detach()) > 0, "or the slopes are all 0 and say nothing"
    assert torch.autograd.gradcheck(value, parts)


def test_two_equal_vectors_have_a_finite_slope():
    same = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    sdml(distances(same, same.detach(), squared=False), 0.3).backward()
    assert same.grad is not None
    assert torch.isfinite(same.grad).all()
    assert float(distances(same, same, squared=False).detach().max()) < sqrt(2e-12)


def test_distances_of_each_with_its_own_are_the_diagonal():
    for squared in (True, False):
        assert paired(ONES, OTHERS, squared).tolist() == distances(ONES, OTHERS, squared).diagonal().tolist()
    # 1 - 3 + 0.5 < 0 and 4 - 1 + 0.5 = 3.5
    own, against = torch.tensor([1.0, 4.0]), torch.tensor([3.0, 1.0])
    assert float(triplet_against(own, against, 0.5)) == pytest.approx(3.5 / 2)
