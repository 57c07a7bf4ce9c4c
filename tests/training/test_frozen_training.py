"""Training with frozen layers: what changes, what does not, and what is refused."""

from collections import deque
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadOption
from al_ray.encoders.transformer import Encoder
from al_ray.training.bi_encoder import batch_cosines, train
from al_ray.training.checkpoint import NAME, Checkpoint
from al_ray.training.head import Head
from al_ray.training.losses import SIDE_LOSSES
from al_ray.training.optimizer import Optimiser

# Weight decay changes each weight that the optimizer holds.
CONFIG = TrainingConfig(epochs=2, batch=8, learning_rate=1e-3, weight_decay=0.01, frozen_layers=1)
UPPER = "encoder.layer.1."


@pytest.fixture
def two_layers(letters):
    return replace(letters, encoder_layers=2)


@pytest.mark.parametrize("loss", ["bce", "in-batch", "momentum"])
def test_a_training_changes_the_upper_layer_alone(two_layers, parts, loss):
    encoder, before = Encoder.base(two_layers), Encoder.base(two_layers).network.state_dict()
    losses = [step.loss for step in train(encoder, parts[0], parts[1], replace(CONFIG, loss=loss), [0, 0, 1])]
    assert len(losses) == 8
    assert np.isfinite(losses).all()
    same = {name for name, value in encoder.network.state_dict().items() if torch.equal(value, before[name])}
    # No text's vector depends on the pooler.
    others = {name for name in before if not name.startswith(UPPER)}
    assert same == others
    assert {name for name in others if not name.startswith("pooler.")} >= {
        "embeddings.word_embeddings.weight", "embeddings.LayerNorm.bias", "encoder.layer.0.output.dense.weight"
    }  # fmt: skip


def test_the_upper_layer_has_the_gradients_of_a_training_of_all(two_layers, parts):
    (left, right), (pairs, _) = parts
    found = []
    for frozen in (0, 1):
        encoder = Encoder.base(two_layers)
        if frozen:
            encoder.freeze(frozen)
        batch_cosines(encoder, left, right, pairs[::3]).square().sum().backward()
        found.append({name: one.grad for name, one in encoder.network.named_parameters() if one.grad is not None})
    every, upper = found
    assert set(upper) == {name for name in every if name.startswith(UPPER)} < set(every)
    for name, value in upper.items():
        assert torch.equal(value, every[name]), name


def test_the_optimizer_holds_no_frozen_weight(two_layers):
    encoder, head = Encoder.base(two_layers), Head(CONFIG)
    encoder.freeze(1)
    held = {id(one) for group in Optimiser.of(encoder, head, CONFIG, 4).adam.param_groups for one in group["params"]}
    wanted = {id(one) for name, one in encoder.network.named_parameters() if name.startswith((UPPER, "pooler."))}
    assert held == wanted | {id(one) for one in head.parameters()}


def test_a_resumed_training_of_some_layers_equals_an_uninterrupted_one(two_layers, parts, tmp_path):
    encoder, again = Encoder.base(two_layers), Encoder.base(two_layers)
    losses = [step.loss for step in train(encoder, parts[0], parts[1], CONFIG, [0, 0, 1])]
    stopped = train(
        Encoder.base(two_layers), parts[0], parts[1], CONFIG, [0, 0, 1], Checkpoint(tmp_path / NAME, "same", 0.0)
    )
    assert len(list(islice(stopped, 5))) == 5
    rest = list(train(again, parts[0], parts[1], CONFIG, [0, 0, 1], Checkpoint(tmp_path / NAME, "same", 0.0)))
    assert [step.loss for step in rest[5:]] == losses[5:]
    assert again.digest() == encoder.digest() != Encoder.base(two_layers).digest()


def test_with_all_layers_frozen_cross_entropy_trains_the_head_alone(two_layers, parts):
    encoder = Encoder.base(two_layers)
    losses = [
        step.loss for step in train(encoder, parts[0], parts[1], replace(CONFIG, frozen_layers=2, epochs=6), [0, 0, 1])
    ]
    assert losses[-1] < losses[0]
    before = Encoder.base(two_layers).network.state_dict()
    assert all(torch.equal(value, before[name]) for name, value in encoder.network.state_dict().items())


@pytest.mark.parametrize("loss", SIDE_LOSSES)
def test_losses_of_sides_refuse_an_encoder_that_is_frozen_as_a_whole(two_layers, parts, loss):
    config = replace(CONFIG, frozen_layers=2, loss=loss)
    with pytest.raises(
        BadOption, match=f"frozen_layers=2` freezes all of random-bert, and `training.loss='{loss}'` tr"
    ):
        next(train(Encoder.base(two_layers), parts[0], parts[1], config, [0, 0, 1]))


def test_more_layers_than_there_are_are_refused_before_the_first_step(two_layers, parts):
    with pytest.raises(BadOption, match="3` is more than the layers of random-bert; give at most 2"):
        next(train(Encoder.base(two_layers), parts[0], parts[1], replace(CONFIG, frozen_layers=3), [0, 0, 1]))


def test_half_trains_as_the_number_does(letters, make_task):
    config = replace(letters, encoder_layers=3)
    task = make_task(True)
    trained = []
    for layers in ("half", 1):
        encoder = Encoder.base(config)
        tokens = encoder.tokenise(list(task.left.texts))
        pairs = task.split("train").positives
        labelled = pairs, (np.arange(len(pairs)) % 2).astype(np.uint8)
        deque(train(encoder, (tokens, tokens), labelled, replace(CONFIG, frozen_layers=layers), [0, 0, 1]), maxlen=0)
        trained.append(encoder.digest())
    assert trained[0] == trained[1] != Encoder.base(config).digest()
