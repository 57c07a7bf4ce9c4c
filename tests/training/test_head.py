"""The head over cosines without batch norm, and where heads start."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadOption
from al_ray.core.rng import generator
from al_ray.encoders.transformer import Encoder
from al_ray.training.bi_encoder import Known, Sides, batch_cosines, train
from al_ray.training.head import Head
from al_ray.training.optimizer import Optimiser, thin_gradients

CONFIG = TrainingConfig(epochs=2, batch=8, learning_rate=1e-3, initial_weight=5.0, initial_bias=-3.0, head="cosine")


@pytest.fixture
def parts(letters, task) -> tuple[Sides, Known]:
    """Token ids, and labelled pairs of which half are matches."""
    encoder = Encoder.base(letters)
    left, right = (encoder.tokenise(side.texts) for side in (task.left, task.right))
    split = task.split("train")
    pairs = np.concatenate([split.positives[:16], split.stated_negatives[:16]])
    return (left, right), (pairs, (np.arange(len(pairs)) < 16).astype(np.uint8))


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
    with pytest.raises(BadOption, match=f"--training.loss {loss} uses no head; leave out --training.head cosine"):
        TrainingConfig(loss=loss, head="cosine")
    assert TrainingConfig(loss=loss).head == "batch-norm"
