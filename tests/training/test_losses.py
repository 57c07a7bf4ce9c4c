"""The losses for labelled pairs: values worked by hand, gradients by finite differences, and properties."""

from collections.abc import Callable
from math import exp, log

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.config.losses import LossConfig
from al_ray.core.config.sections import TrainingConfig
from al_ray.encoders.tokens import Tokens
from al_ray.encoders.transformer import Encoder
from al_ray.training.head import Head
from al_ray.training.losses import (
    LogitLoss,
    SideLoss,
    bce,
    cosines_of,
    focal,
    ghm,
    gradient_bins,
    in_batch,
    moved,
    ohem,
    softmax_contrast,
    texts_of,
)

LOG3 = log(3)  # sigmoid(log 3) = 3/4.
NOTHING = torch.zeros(2, 2, dtype=torch.bool)


def double(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def slopes(loss: Callable[[torch.Tensor], torch.Tensor], at: torch.Tensor) -> torch.Tensor:
    """Return the gradient of a loss."""
    point = at.clone().requires_grad_()
    return torch.autograd.grad(loss(point), point)[0]


batches = st.lists(st.tuples(st.floats(-30, 30), st.booleans()), min_size=1, max_size=20).map(
    lambda pairs: (double(*(z for z, _ in pairs)), double(*(float(y) for _, y in pairs)))
)


# Losses of logits.


def test_cross_entropy_is_that_worked_by_hand():
    # p = 3/4 of a match, p = 3/4 of a non-match.
    assert float(bce(double(LOG3, LOG3), double(1, 0))) == pytest.approx((-log(3 / 4) - log(1 / 4)) / 2)


def test_focal_is_that_worked_by_hand():
    # alpha (1 - p)^2 log p = 1/4 (1/4)^2 log(3/4), and (1 - alpha) p^2 log(1 - p) = 3/4 (3/4)^2 log(1/4).
    target = (-(1 / 64) * log(3 / 4) - (27 / 64) * log(1 / 4)) / 2
    assert float(focal(double(LOG3, LOG3), double(1, 0), 0.25, 2.0)) == pytest.approx(target)


@given(batches)
def test_focal_without_focus_is_half_of_cross_entropy(batch):
    assert float(focal(*batch, alpha=0.5, gamma=0.0)) == pytest.approx(float(bce(*batch)) / 2)


def test_focal_lowers_the_easy_examples_share_of_the_gradient():
    logits, target = double(3.0, -1.0), torch.ones(2).double()
    easy, hard = slopes(lambda z: bce(z, target), logits).abs()
    for gamma in (0.5, 2.0, 5.0):
        eased, focused = slopes(lambda z, by=gamma: focal(z, target, 0.25, by), logits).abs()
        assert eased / focused < 0.5 * easy / hard
        easy, hard = eased, focused


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_has_a_finite_gradient_for_the_easiest_and_the_hardest_pairs(gamma):
    logits, target = torch.tensor([200.0, -200.0, 200.0, -200.0]), torch.tensor([1.0, 0.0, 0.0, 1.0])
    assert torch.isfinite(slopes(lambda z: focal(z, target, 0.25, gamma), logits)).all()


def test_ohem_is_the_mean_of_the_hardest_worked_by_hand():
    # Losses log(1 + e^-z): of z = 3, 0, 1, -1 the highest two are those of -1 and 0.
    logits, target = double(3, 0, 1, -1), torch.ones(4).double()
    assert float(ohem(logits, target, 0.5)) == pytest.approx((log(1 + exp(1)) + log(2)) / 2)


def test_ohem_drops_easy_pairs_and_breaks_ties_by_place():
    target = torch.ones(4).double()
    assert (slopes(lambda z: ohem(z, target, 0.5), double(3, 0, 1, -1)) != 0).tolist() == [False, True, False, True]
    assert (slopes(lambda z: ohem(z, target, 0.5), double(1, 1, 1, 1)) != 0).tolist() == [True, True, False, False]


# ceil(0.07 * 100) is 7, though 0.07 * 100 is a little more in floats; one pair at least.
@pytest.mark.parametrize(("share", "count", "used"), [(0.07, 100, 7), (0.25, 16, 4), (0.3, 5, 2), (0.001, 7, 1)])
def test_ohem_rounds_its_share_up(share, count, used):
    logits = torch.arange(count, dtype=torch.float64)
    assert int((slopes(lambda z: ohem(z, torch.zeros(count).double(), share), logits) != 0).sum()) == used


@given(batches, st.floats(0.01, 1))
def test_ohem_of_all_is_cross_entropy_and_of_some_no_less(batch, share):
    assert float(ohem(*batch, share=1.0)) == pytest.approx(float(bce(*batch)))
    assert float(ohem(*batch, share=share)) >= float(bce(*batch)) * (1 - 1e-12)


def test_ghm_is_that_worked_by_hand():
    # g = |p - y|: 1/4, 1/4 and 3/4; in 2 bins two pairs and one. sum bce / (R M).
    logits, target = double(LOG3, -LOG3, LOG3), double(1, 0, 0)
    where = gradient_bins(logits, target, 2)
    assert where.tolist() == [0, 0, 1]
    counts = moved(None, where, 2, 0.75)
    assert counts.tolist() == [2, 1]
    by_hand = 2 * -log(3 / 4) / (2 * 2) + -log(1 / 4) / (1 * 2)
    assert float(ghm(logits, target, where, counts)) == pytest.approx(by_hand)


def test_a_norm_of_one_lies_in_the_last_bin():
    assert gradient_bins(torch.tensor([200.0, -200.0, 200.0]), torch.tensor([0.0, 0.0, 1.0]), 10).tolist() == [9, 0, 0]


def test_a_norm_that_is_no_number_makes_the_loss_no_number_too():
    loss = LogitLoss("ghm", LossConfig(ghm_bins=2))
    assert loss(torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 0.0])).isnan()


def test_ghms_counts_are_moving_averages():
    # Batches with counts (3, 0) and (1, 2): 3, 0; then 3/4 * 3 + 1/4 * 1, 1/4 * 2.
    first = moved(None, torch.tensor([0, 0, 0]), 2, 0.75)
    assert first.tolist() == [3, 0]
    assert moved(first, torch.tensor([0, 1, 1]), 2, 0.75).tolist() == [2.5, 0.5]
    loss = LogitLoss("ghm", LossConfig(ghm_bins=2))
    loss(double(LOG3, LOG3, LOG3), double(1, 1, 1))
    value = loss(double(LOG3, LOG3, LOG3), double(1, 0, 0))
    assert loss.state_dict()["bins"].tolist() == [2.5, 0.5]
    assert float(value) == pytest.approx(-log(3 / 4) / (2.5 * 2) + 2 * -log(1 / 4) / (0.5 * 2))


@given(batches)
def test_ghm_of_one_bin_is_cross_entropy(batch):
    loss = LogitLoss("ghm", LossConfig(ghm_bins=1))
    assert float(loss(*batch)) == pytest.approx(float(bce(*batch)), rel=1e-6)


@given(batches, st.integers(2, 30))
def test_ghm_flattens_the_density_of_gradients(batch, bins):
    # A pair's gradient is its weight times g: in each bin with pairs the weights sum to 1 / M.
    logits, target = batch
    where = gradient_bins(logits, target, bins)
    counts = moved(None, where, bins, 0.0)
    by_bce = slopes(lambda z: bce(z, target), logits) * len(logits)
    weights = slopes(lambda z: ghm(z, target, where, counts), logits) / by_bce
    for number in where.unique():
        assert float(weights[where == number].sum()) == pytest.approx(1 / bins, rel=1e-6)


@pytest.mark.parametrize("name", ["bce", "focal", "ghm", "ohem"])
def test_gradients_are_those_of_finite_differences(name):
    logits, target = double(2.0, -1.0, 0.3, -3.0).requires_grad_(), double(1, 1, 0, 0)
    assert torch.autograd.gradcheck(lambda z: LogitLoss(name, LossConfig(hardest=0.5))(z, target), [logits])


# Losses of two sides.


def softplus(value: float) -> float:
    return log(1 + exp(value))


def same(cosines: torch.Tensor) -> torch.Tensor:
    """A head that returns cosines unchanged."""
    return cosines


def test_in_batch_negatives_are_those_worked_by_hand():
    cosines = torch.tensor([[0.5, 0.1], [0.2, 0.4]]).double()
    both = (softplus(-0.5) + softplus(0.1) + softplus(0.2) + softplus(-0.4)) / 4
    assert float(in_batch(same, cosines, double(1, 1), NOTHING)) == pytest.approx(both)
    # The second pair is a non-match: its right text is a negative of both left ones, the first's is none of its.
    one = (softplus(-0.5) + softplus(0.1) + softplus(0.4)) / 3
    assert float(in_batch(same, cosines, double(1, 0), NOTHING)) == pytest.approx(one)


def test_the_softmax_over_the_batch_is_that_worked_by_hand():
    # tau = 1/2: 1 against 0.2, and 0.8 against 0.4.
    cosines = torch.tensor([[0.5, 0.1], [0.2, 0.4]]).double()
    both = (softplus(-0.8) + softplus(-0.4)) / 2
    assert float(softmax_contrast(cosines, double(1, 1), NOTHING, 0.5)) == pytest.approx(both)
    assert float(softmax_contrast(cosines, double(1, 0), NOTHING, 0.5)) == pytest.approx(softplus(-0.8))
    # A third column, that of a key of the queue, with 0.3: 0.6 / ... against 1.
    more = torch.cat([cosines, double(0.3, 0.3)[:, None]], dim=1)
    beside = torch.zeros(2, 3, dtype=torch.bool)
    assert float(softmax_contrast(more, double(1, 0), beside, 0.5)) == pytest.approx(log(1 + exp(-0.8) + exp(-0.4)))


def test_linked_texts_are_no_negatives():
    cosines = torch.tensor([[0.5, 0.1], [0.2, 0.4]]).double()
    linked = torch.tensor([[True, True], [False, True]])
    three = (softplus(-0.5) + softplus(0.2) + softplus(-0.4)) / 3
    assert float(in_batch(same, cosines, double(1, 1), linked)) == pytest.approx(three)
    assert float(softmax_contrast(cosines, double(1, 1), linked, 0.5)) == pytest.approx(softplus(-0.4) / 2)
    # A pair's own label counts, even if a chain of other labels contradicts it.
    everything = torch.ones(2, 2, dtype=torch.bool)
    target = (softplus(-0.5) + softplus(0.4)) / 2
    assert float(in_batch(same, cosines, double(1, 0), everything)) == pytest.approx(target)
    assert float(softmax_contrast(cosines, double(1, 1), everything, 0.5)) == 0


def test_a_batch_without_a_match_contributes_nothing_but_its_labelled_pairs():
    cosines = torch.tensor([[0.5, 0.1], [0.2, 0.4]]).double()
    assert float(softmax_contrast(cosines, double(0, 0), NOTHING, 0.07)) == 0
    slope = slopes(lambda c: softmax_contrast(c, double(0, 0), NOTHING, 0.07), cosines)
    assert slope.tolist() == [[0, 0], [0, 0]]
    wanted = (softplus(0.5) + softplus(0.4)) / 2
    assert float(in_batch(same, cosines, double(0, 0), NOTHING)) == pytest.approx(wanted)


def test_a_lower_temperature_gives_the_nearest_negative_a_larger_share_of_the_gradient():
    cosines, linked = torch.tensor([[0.5, 0.4, 0.1]]).double(), torch.zeros(1, 3, dtype=torch.bool)
    shares = []
    for temperature in (1.0, 0.2, 0.05):
        _, near, far = slopes(lambda c, by=temperature: softmax_contrast(c, double(1), linked, by), cosines)[0]
        shares.append(float(near / (near + far)))
    # exp(0.4 / tau) / (exp(0.4 / tau) + exp(0.1 / tau)).
    assert shares == pytest.approx([1 / (1 + exp(-0.3 / tau)) for tau in (1.0, 0.2, 0.05)])


@given(st.integers(2, 8), st.integers(0, 2**32 - 1))
def test_the_order_of_a_batch_does_not_matter(size, seed):
    rng = np.random.default_rng(seed)
    cosines, target = (
        torch.from_numpy(rng.uniform(-1, 1, (size, size))),
        torch.from_numpy(rng.integers(0, 2, size) * 1.0),
    )
    linked, order = torch.from_numpy(rng.random((size, size)) < 0.3), torch.from_numpy(rng.permutation(size))
    mixed = cosines[order][:, order], target[order], linked[order][:, order]
    for loss in (
        lambda *batch: in_batch(same, *batch),
        lambda *batch: softmax_contrast(*batch, temperature=0.1),
    ):
        assert float(loss(*mixed)) == pytest.approx(float(loss(cosines, target, linked)))


@pytest.mark.parametrize("name", ["in-batch", "in-batch-softmax"])
def test_gradients_of_the_sides_are_those_of_finite_differences(name):
    draws = torch.Generator().manual_seed(3)
    parts = [torch.randn(3, 2, generator=draws, dtype=torch.float64).requires_grad_() for _ in range(2)]
    linked, target = torch.tensor([[1, 0, 0], [0, 1, 1], [0, 0, 0]]).bool(), double(1, 1, 0)
    head = Head(TrainingConfig(initial_weight=1.0, initial_bias=-0.5)).double()

    def value(ones: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        if name == "in-batch":
            return in_batch(head, cosines_of(ones, others), target, linked)
        return softmax_contrast(cosines_of(ones, others), target, linked, 0.5)

    assert torch.autograd.gradcheck(value, parts)


def test_texts_are_equal_by_token_ids_or_labelled_matches():
    # Left: a, b, a again, c; right: d, a, e, f. The matches (a, d) and (b, d) make a, b and d one; (c, f) is none.
    left = Tokens.of([[1], [2, 2], [1], [3]])
    right = Tokens.of([[4], [1], [5], [6]])
    pairs = np.array([[0, 0], [1, 0], [2, 2], [3, 1], [3, 3]])
    numbers = texts_of((left, right), pairs, np.array([1, 1, 0, 0, 0], dtype=np.uint8))
    a, b, again, c, other = numbers[:, 0].tolist()
    d, d_again, e, right_a, f = numbers[:, 1].tolist()
    assert a == b == again == d == d_again == right_a
    assert len({a, c, e, f}) == 4
    assert c == other


def vectors(encoder: Encoder, *axes: int) -> torch.Tensor:
    """A unit vector along each axis."""
    return torch.eye(encoder.dimension)[list(axes)]


@pytest.fixture
def encoder(letters) -> Encoder:
    return Encoder.base(letters)


def test_momentum_contrast_is_that_worked_by_hand(encoder):
    loss = SideLoss("momentum", LossConfig(temperature=1.0), encoder)
    # A match of equal vectors, and a non-match whose right text is orthogonal: 1 against 0.
    first = loss(same, (vectors(encoder, 0, 1), vectors(encoder, 0, 2)), double(1, 0), np.array([[0, 0], [1, 2]]))
    assert float(first) == pytest.approx(softplus(-1))
    # Against the batch's other key and the two of the queue.
    sides = vectors(encoder, 1, 3), vectors(encoder, 1, 0)
    second = loss(same, sides, double(1, 0), np.array([[1, 1], [3, 4]]))
    assert float(second) == pytest.approx(log(1 + 3 * exp(-1)))
    assert loss.state_dict()["queued"].tolist() == [1, 4, 0, 2], "the youngest first"
    # Of these four one is the same text as the anchor's: 5 keys, less its own.
    third = loss(same, (vectors(encoder, 5), vectors(encoder, 5)), double(1), np.array([[2, 2]]))
    assert float(third) == pytest.approx(log(1 + 3 * exp(-1)))


def test_the_queue_has_only_the_last_keys(encoder):
    loss = SideLoss("momentum", LossConfig(queue=3), encoder)
    for number in range(4):
        texts = np.array([[9, 2 * number], [9, 2 * number + 1]])
        loss(same, (vectors(encoder, 0, 0), vectors(encoder, 1, number + 2)), double(1, 1), texts)
    assert loss.state_dict()["queued"].tolist() == [6, 7, 4]
    assert torch.equal(loss.state_dict()["queue"], vectors(encoder, 1, 5, 1))


def test_momentum_with_an_empty_queue_is_the_softmax_over_the_batch(encoder):
    draws = torch.Generator().manual_seed(0)
    sides = torch.randn(4, encoder.dimension, generator=draws), torch.randn(4, encoder.dimension, generator=draws)
    texts, target = np.array([[0, 0], [1, 1], [0, 0], [2, 3]]), torch.tensor([1.0, 1.0, 1.0, 0.0])
    bare = LossConfig(queue=0)
    momentum, softmax = SideLoss("momentum", bare, encoder), SideLoss("in-batch-softmax", bare, encoder)
    for _ in range(2):
        assert torch.equal(momentum(same, sides, target, texts), softmax(same, sides, target, texts))


def test_the_encoder_of_keys_follows_slowly_and_is_not_trained(encoder):
    loss = SideLoss("momentum", LossConfig(key_momentum=0.75), encoder)
    trained, keys = encoder.network.get_parameter("embeddings.LayerNorm.bias"), loss.keys.network
    followed = keys.get_parameter("embeddings.LayerNorm.bias")
    start = trained.detach().clone()
    with torch.no_grad():
        trained += 1
    assert torch.equal(followed, start)
    for share in (1 / 4, 1 / 4 + 3 / 4 * 1 / 4):
        loss.follow()
        torch.testing.assert_close(followed, start + share)
    assert not any(weight.requires_grad for weight in keys.parameters())
    assert all(weight.requires_grad for weight in encoder.network.parameters())
