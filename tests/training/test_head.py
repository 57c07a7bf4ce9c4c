"""The head over cosines without batch norm, and where heads start."""

import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadOption
from al_ray.core.rng import generator
from al_ray.encoders.transformer import Encoder
from al_ray.training import bi_encoder
from al_ray.training.bi_encoder import batch_cosines, initial_head, pair_cosines, train
from al_ray.training.checkpoint import NAME, Checkpoint
from al_ray.training.head import Head, refitted_start
from al_ray.training.optimizer import Optimiser, thin_gradients

CONFIG = TrainingConfig(epochs=2, batch=8, learning_rate=1e-3, initial_weight=5.0, initial_bias=-3.0, head="cosine")
REFIT = replace(CONFIG, initial_weight=10.0, initial_bias=-50.0, head_start="refit")


def test_the_cosine_head_is_w_times_the_cosine_plus_b_whatever_the_batch():
    head = Head(TrainingConfig(initial_weight=10.0, initial_bias=-5.0, head="cosine"))
    assert head(torch.tensor([0.2, 0.5, 0.9])).tolist() == pytest.approx([-3.0, 0.0, 4.0], abs=1e-5)
    assert head(torch.tensor([0.9])).tolist() == pytest.approx([4.0], abs=1e-5)
    with torch.no_grad():
        head.weight.fill_(-1.0)
    head.keep_increasing()
    assert head(torch.tensor([0.2, 0.9])).tolist() == [-5.0, -5.0]


def test_training_with_the_cosine_head_equals_a_twin(letters, parts):
    (left, right), (pairs, labels) = parts
    encoder, twin = Encoder.base(letters), Encoder.base(letters)
    losses = [step.loss for step in train(encoder, parts[0], parts[1], CONFIG, [0, 0, 1])]
    head, seen = Head(CONFIG), list[float]()
    thin_gradients(twin.network)
    optimiser = Optimiser.of(twin, head, CONFIG, 8)
    for epoch in range(2):
        for rows in generator(0, f"training-order-0-{epoch}", 1).permutation(32).reshape(4, 8):
            logits = head.weight * batch_cosines(twin, left, right, pairs[rows]) + head.bias
            target = torch.from_numpy(labels[rows].astype(np.float32))
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, target)
            loss.backward()
            optimiser.step()
            head.keep_increasing()
            seen.append(loss.item())
    assert losses == seen
    assert encoder.digest() == twin.digest()


@pytest.mark.parametrize("loss", ["focal", "ghm", "ohem", "in-batch"])
def test_losses_of_logits_train_with_the_cosine_head(letters, parts, loss):
    encoder = Encoder.base(letters)
    losses = [step.loss for step in train(encoder, parts[0], parts[1], replace(CONFIG, loss=loss), [0, 0, 1])]
    assert all(math.isfinite(one) for one in losses)
    assert encoder.digest() != Encoder.base(letters).digest()


@pytest.mark.parametrize("loss", ["in-batch-softmax", "momentum"])
def test_losses_without_a_head_refuse_its_options(loss):
    with pytest.raises(BadOption, match=f"`training.loss='{loss}'` uses no head; leave out `training.head='cosine'`"):
        TrainingConfig(loss=loss, head="cosine")
    with pytest.raises(
        BadOption, match=f"`training.loss='{loss}'` uses no head; leave out `training.head_start='refit'`"
    ):
        TrainingConfig(loss=loss, head_start="refit")
    with pytest.raises(BadOption, match=f"`training.loss='{loss}'` uses no head; leave out `training.initial_weight`"):
        TrainingConfig(loss=loss, initial_bias=-3.0)
    assert TrainingConfig(loss=loss).head == "batch-norm"


EVEN, SPREAD = [0.2, 0.4, 0.6, 0.8], math.sqrt(0.05)  # Mean 0.5; mean square of the rest (0.09 + 0.01) / 2.
STARTS = {
    # 1 of 4 positive at 0, log-odds -log 3; 1 of 2 at 1, log-odds 0. Mean 1/3, variance 1/3 * 2/3.
    "fitted": ([0, 0, 0, 0, 1, 1], [1, 0, 0, 0, 1, 0], math.log(3), -math.log(3), math.sqrt(2) / 3, 1 / 3),
    # Boundary 0.5, half a gap of 0.1; p = 1 - 1/6 there, and the highest logit is 3 log 5 = 4.83.
    "separable": (EVEN, [0, 0, 1, 1], 10 * math.log(5), -5 * math.log(5), SPREAD, 0.5),
    # The refit has 100 log 5 = 161, and a highest logit of 64: 6 / 0.4.
    "steep": ([0.1, 0.49, 0.51, 0.9], [0, 0, 1, 1], 15.0, -7.5, math.sqrt((0.16 + 0.0001) / 2), 0.5),
    # The furthest cosine decides: 0.9 from the boundary 0.85.
    "one-sided": ([-0.05, 0.84, 0.86, 0.9], [0, 0, 1, 1], 6 / 0.9, -5.1 / 0.9, None, None),
    # Share (1 + 1) / (4 + 2) at the mean: log-odds log(2 / 4).
    "falling": (EVEN, [1, 0, 0, 0], 1 / SPREAD, math.log(1 / 2) - 0.5 / SPREAD, SPREAD, 0.5),
    "one-class": (EVEN, [0, 0, 0, 0], 1 / SPREAD, math.log(1 / 5) - 0.5 / SPREAD, SPREAD, 0.5),
}


@pytest.mark.parametrize("case", STARTS)
def test_a_refitted_start_is_that_worked_out_by_hand(case):
    cosines, labels, weight, bias, spread, mean = STARTS[case]
    given = np.array(cosines, dtype=np.float64), np.array(labels, dtype=np.uint8)
    assert refitted_start(*given, normalises=False) == pytest.approx((weight, bias), rel=1e-6)
    normed = refitted_start(*given, normalises=True)
    if spread is not None:
        assert normed == pytest.approx((weight * spread, weight * mean + bias), rel=1e-6, abs=1e-6)
    # Of these pairs as one batch both heads have the same logits.
    logits = [
        Head(config, start)(torch.tensor(given[0])).tolist()
        for config, start in ((CONFIG, (weight, bias)), (TrainingConfig(), normed))
    ]
    assert logits[1] == pytest.approx(logits[0], abs=1e-4)
    if case != "fitted":
        assert max(map(abs, logits[0])) < 6.0001


@pytest.mark.parametrize(
    ("cosines", "weight_and_bias"),
    [([0.7] * 4, (1.0, math.log(1 / 2) - 0.7)), ([0.7, 0.1, math.nan, 0.2], (1.0, math.log(1 / 2)))],
)
def test_without_variance_and_with_cosines_that_are_not_finite_w_starts_at_1(cosines, weight_and_bias):
    given = np.array(cosines), np.array([1, 0, 0, 0], dtype=np.uint8)
    assert refitted_start(*given, normalises=False) == pytest.approx(weight_and_bias)
    assert refitted_start(*given, normalises=True) == pytest.approx((1.0, math.log(1 / 2)))


@pytest.mark.parametrize("name", ["cosine", "batch-norm"])
def test_a_training_starts_at_the_refit_on_evenly_spaced_pairs(letters, parts, monkeypatch, name):
    tokens, (pairs, labels) = parts
    monkeypatch.setattr(bi_encoder, "STARTING", 10)
    encoder, config = Encoder.base(letters), replace(REFIT, head=name)
    rows = [0, 3, 6, 9, 12, 16, 19, 22, 25, 28]
    wanted = refitted_start(
        pair_cosines(encoder, tokens[0], tokens[1], pairs[rows]), labels[rows], name == "batch-norm"
    )
    head = initial_head(encoder, tokens, (pairs, labels), config)
    assert (head.weight.item(), head.bias.item()) == pytest.approx(wanted, rel=1e-6)
    first = generator(0, "training-order-0-0", 1).permutation(32)[:8]
    logits = Head(config, wanted)(batch_cosines(encoder, tokens[0], tokens[1], pairs[first]))
    target = torch.from_numpy(labels[first].astype(np.float32))
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, target).item()
    # Gradients flow also after vectors were computed without.
    steps = list(train(encoder, tokens, (pairs, labels), config, [0, 0, 1]))
    assert steps[0].loss == pytest.approx(loss, rel=1e-5)
    assert encoder.digest() != Encoder.base(letters).digest()
    fixed = initial_head(encoder, tokens, (pairs, labels), replace(CONFIG, head=name))
    assert (fixed.weight.item(), fixed.bias.item()) == (5.0, -3.0)


def test_a_start_by_refit_takes_no_numbers():
    with pytest.raises(BadOption, match=r"`training\.head_start='refit'` fits w and b; leave out"):
        TrainingConfig(head_start="refit", initial_weight=5.0)


def test_fewer_pairs_than_a_start_takes_are_all_taken(letters, parts):
    tokens, (pairs, labels) = parts
    encoder, config = Encoder.base(letters), REFIT
    # Of labels of one kind the start depends on their number.
    wanted = refitted_start(pair_cosines(encoder, tokens[0], tokens[1], pairs), 0 * labels, False)
    head = initial_head(encoder, tokens, (pairs, 0 * labels), config)
    assert (head.weight.item(), head.bias.item()) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("name", ["cosine", "batch-norm"])
def test_a_training_that_began_at_a_refit_is_resumed_with_the_head_of_its_checkpoint(
    letters, parts, tmp_path, monkeypatch, name
):
    config, (tokens, known) = replace(REFIT, head=name), parts
    encoder, again = Encoder.base(letters), Encoder.base(letters)
    losses = [step.loss for step in train(encoder, tokens, known, config, [0, 0, 1])]
    stopped = train(Encoder.base(letters), tokens, known, config, [0, 0, 1], Checkpoint(tmp_path / NAME, "a", 0.0))
    assert len(list(islice(stopped, 5))) == 5
    # Whatever the resumed training starts from, the checkpoint replaces it.
    monkeypatch.setattr(bi_encoder, "refitted_start", lambda *given, normalises: (77.0, 7.0))
    rest = list(train(again, tokens, known, config, [0, 0, 1], Checkpoint(tmp_path / NAME, "a", 0.0)))
    assert [step.loss for step in rest[5:]] == losses[5:]
    assert again.digest() == encoder.digest()
    other = train(Encoder.base(letters), tokens, known, config, [0, 0, 1])
    assert next(other).loss != losses[0], "or the test says nothing"
