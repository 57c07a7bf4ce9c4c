"""Training by every loss: finite, reproducible, resumable from a checkpoint; and the options of losses."""

import json
import math
from dataclasses import replace
from itertools import islice
from typing import get_args

import numpy as np
import pytest
import torch

from al_ray.active_learning.config import RunConfig
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.losses import LOSSES, LossConfig, LossKind, LossName, losses_help
from al_ray.core.config.sections import LATE, TrainingConfig
from al_ray.core.config.serialization import as_dict, from_dict
from al_ray.core.errors import BadOption
from al_ray.core.rng import generator
from al_ray.encoders.encoder import learn_words, untrained
from al_ray.encoders.transformer import Encoder
from al_ray.training.bi_encoder import batch_cosines, train
from al_ray.training.checkpoint import NAME, Checkpoint
from al_ray.training.head import Head
from al_ray.training.losses import LOGIT_LOSSES, SIDE_LOSSES
from al_ray.training.optimizer import Optimiser, thin_gradients

CONFIG = TrainingConfig(
    epochs=2, batch=8, learning_rate=1e-3, weight_decay=0.01, losses=LossConfig(queue=20, key_momentum=0.5, ghm_bins=5)
)
MOMENTUM = replace(CONFIG, loss="momentum")
NAMES: tuple[LossName, ...] = get_args(LossName)
# The fields of TrainingConfig, in order, before losses could be chosen.
BEFORE = (
    "epochs start batch workers learning_rate epsilon weight_decay warmup head_rate initial_weight initial_bias "
    "bias_correction clip_norm worst_loss tries"
)


@pytest.mark.parametrize("name", NAMES)
def test_a_training_by_every_loss_is_reproducible_and_resumable(letters, parts, tmp_path, name):
    def trained(checkpoint: Checkpoint | None, most: int | None = None) -> tuple[str, list[float]]:
        encoder = Encoder.base(letters)
        steps = train(encoder, parts[0], parts[1], replace(CONFIG, loss=name), [0, 0, 1], checkpoint)
        losses = [step.loss for step in islice(steps, most)]
        return encoder.digest(), losses

    digest, losses = trained(None)
    assert len(losses) == 8
    assert all(math.isfinite(loss) for loss in losses)
    assert digest != Encoder.base(letters).digest()
    assert trained(None) == (digest, losses)
    for taken in (3, 6):
        trained(Checkpoint(tmp_path / NAME, "same", 0.0), taken)
    again, rest = trained(Checkpoint(tmp_path / NAME, "same", 0.0))
    assert again == digest
    assert [math.isnan(loss) for loss in rest] == [True] * 6 + [False] * 2, "six steps are not taken again"
    assert rest[6:] == losses[6:]


def test_every_loss_is_another_training(letters, parts):
    # The keys of the last one are always encoded by the initial encoder.
    still = replace(MOMENTUM, losses=replace(CONFIG.losses, key_momentum=1.0))
    digests = set[str]()
    for config in (*(replace(CONFIG, loss=name) for name in NAMES), still):
        encoder = Encoder.base(letters)
        for _ in train(encoder, parts[0], parts[1], config, [0, 0, 1]):
            pass
        digests.add(encoder.digest())
    assert len(digests) == len(NAMES) + 1 == 8


def test_training_by_cross_entropy_equals_a_twin(letters, parts):
    (left, right), (pairs, labels) = parts
    encoder, twin = Encoder.base(letters), Encoder.base(letters)
    for _ in train(encoder, parts[0], parts[1], CONFIG, [0, 0, 1]):
        pass
    head = Head(CONFIG)
    thin_gradients(twin.network)
    optimiser = Optimiser.of(twin, head, CONFIG, 8)
    for epoch in range(2):
        order = generator(0, f"training-order-0-{epoch}", 1).permutation(32)
        for rows in order.reshape(4, 8):
            logits = head(batch_cosines(twin, left, right, pairs[rows]))
            target = torch.from_numpy(labels[rows].astype(np.float32))
            torch.nn.functional.binary_cross_entropy_with_logits(logits, target).backward()
            optimiser.step()
            head.keep_increasing()
    assert encoder.digest() == twin.digest()


@pytest.mark.parametrize("name", ["in-batch-softmax", "momentum"])
def test_losses_of_matches_do_not_change_an_encoder_without_matches(letters, parts, name):
    tokens, (pairs, labels) = parts
    encoder, config = Encoder.base(letters), replace(CONFIG, loss=name, weight_decay=0.0)
    losses = [step.loss for step in train(encoder, tokens, (pairs, 0 * labels), config, [0, 0, 1])]
    assert losses == [0.0] * 8
    assert encoder.digest() == Encoder.base(letters).digest()


@pytest.mark.parametrize("name", SIDE_LOSSES)
def test_losses_of_sides_rank_matches_above_other_pairs_of_the_batch(letters, parts, name):
    (left, right), (pairs, labels) = parts
    matches = pairs[labels == 1]
    everything = np.stack(np.meshgrid(matches[:, 0], matches[:, 1], indexing="ij"), axis=-1).reshape(-1, 2)
    gaps, encoder = [], Encoder.base(letters)
    for config in (None, replace(CONFIG, loss=name, epochs=6)):
        if config is not None:
            for _ in train(encoder, parts[0], parts[1], config, [0, 0, 1]):
                pass
        cosines = batch_cosines(encoder, left, right, everything).detach().numpy().reshape(16, 16)
        gaps.append((cosines.diagonal().mean() - cosines.mean()) / cosines.std())
    assert gaps[1] > gaps[0] + 0.1


def test_momentum_trains_the_encoder_cnn(letters, make_task, tmp_path):
    task, config = make_task(True), replace(letters, encoder="cnn-4", encoder_layers=None)
    learn_words(task.left.texts, config, tmp_path)
    encoder = untrained(config, tmp_path)
    tokens = encoder.tokenise(task.left.texts)
    pairs = task.split("train").positives[:16]
    steps = list(train(encoder, (tokens, tokens), (pairs, np.ones(16, dtype=np.uint8)), MOMENTUM, [0, 0, 1]))
    assert all(step.loss > 0 for step in steps)
    assert encoder.digest() != untrained(config, tmp_path).digest()


def test_a_loss_is_added_by_its_function_and_its_kind(letters, parts, monkeypatch):
    def squared(logits, target, options, state):
        return (options.hardest * (logits.sigmoid() - target) ** 2).mean()

    monkeypatch.setitem(LOSSES, "squared", LossKind("the squared error of p", ("hardest",), trains_head=False))
    monkeypatch.setitem(LOGIT_LOSSES, "squared", squared)
    options = LossConfig(hardest=0.5)
    options.check_unused_options("squared")
    assert losses_help().endswith("; squared: the squared error of p.")
    with pytest.raises(BadOption, match=r"hardest=0\.5` is of `training\.loss` ohem and squared, and that is bce"):
        options.check_unused_options("bce")
    with pytest.raises(BadOption, match="loss='squared'` uses no head; leave out"):
        replace(CONFIG, loss="squared", head="cosine")
    config = replace(CONFIG, loss="squared", losses=options)
    steps = list(train(Encoder.base(letters), parts[0], parts[1], config, [0, 0, 1]))
    # A mean of squares of numbers below 1, times the option.
    assert steps
    assert all(0 < step.loss < 0.5 for step in steps)


def test_a_loss_without_an_implementation_is_refused():
    assert set(LOSSES) == {*LOGIT_LOSSES, *SIDE_LOSSES}
    with pytest.raises(BadOption, match=f"`training.loss` is 'squared'; give one of {', '.join(LOSSES)}"):
        TrainingConfig(loss="squared")


def test_a_config_without_later_options_means_their_defaults():
    content = json.loads(json.dumps(as_dict(RunConfig(task="t"))))
    for late in ("loss", "losses", *LATE):
        del content["training"][late]
    assert from_dict(RunConfig, content) == RunConfig(task="t", training=TrainingConfig(loss="bce"))


def test_a_config_with_a_loss_is_read_back_from_json():
    config = RunConfig(task="t", training=TrainingConfig(loss="focal", losses=LossConfig(focal_gamma=3)))
    assert from_dict(RunConfig, json.loads(json.dumps(as_dict(config)))) == config


def test_digests_of_models_older_than_bf16_are_unchanged():
    config = EncoderConfig("random-bert", 1, 24, 8, 1)
    assert " ".join(config.digested()) == "name layers max_length batch threads vectors"
    assert config.digest_text == "EncoderConfig(name='random-bert', layers=1, max_length=24, batch=8, threads=1)"
    half = replace(config, arithmetic="bf16")
    assert half.digested()["arithmetic"] == "bf16"
    assert half.digest_text == f"{config.digest_text} bf16"


def test_digests_of_models_older_than_losses_are_unchanged_and_others_depend_on_options():
    assert " ".join(TrainingConfig(losses=LossConfig(focal_gamma=3)).digested()) == BEFORE
    focal = TrainingConfig(loss="focal")
    assert focal.digested() != replace(focal, losses=LossConfig(focal_gamma=3)).digested()
    assert focal.digested()["loss"] == "focal"


@pytest.mark.parametrize(
    "changes", [{"frozen_layers": 1}, {"head": "cosine"}, {"head_start": "refit"}, {"l2_sp": 1.0}, {"presumed": 1.0}]
)
def test_later_options_are_in_digests_only_where_they_are_not_the_default(changes):
    config, content = TrainingConfig(), TrainingConfig().content
    assert " ".join(content) == f"{BEFORE} loss losses"
    other = replace(config, **changes)
    assert other.content == {**content, **changes}
    assert other.digested() == {**config.digested(), **changes}
