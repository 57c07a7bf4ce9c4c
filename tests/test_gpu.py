"""The code of a GPU: vectors and losses near those of "cpu", and a training that learns.

They run on "cuda:0" where there is one (make gpu, make gputests), and in every run of the tests on "cpu:0": a CPU, for
which the code takes the branches of devices named otherwise than "cpu", such as losses that are read together. Branches
by the type of a tensor's device (whole gradients of embeddings, and tiles of a GPU) need the GPU.
"""

from dataclasses import replace
from itertools import islice, pairwise
from typing import get_args

import numpy as np
import pytest
import torch

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.losses import LossConfig, LossName
from al_ray.core.config.sections import TrainingConfig
from al_ray.encoders.cross_encoder import CrossEncoder
from al_ray.encoders.tokens import Tokens
from al_ray.encoders.transformer import Encoder
from al_ray.search.kmeans import sum_by_cell
from al_ray.training.bi_encoder import fit_scorer, pair_cosines, train
from al_ray.training.checkpoint import NAME, Checkpoint
from al_ray.training.optimizer import Step

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
CONFIG = EncoderConfig("random-bert", None, 32, 8, 1)
FP32 = replace(CONFIG, arithmetic="fp32")
# Some texts are longer than others, so that a batch has padding.
TEXTS = [f"{word} {number}" for number in range(16) for word in ("how", "why not now")]
ROWS = np.arange(16)
PAIRS, LABELS = np.stack([ROWS, (ROWS + 2) % 16], axis=1), (ROWS % 2).astype(np.uint8)


@pytest.fixture(params=["cpu:0", pytest.param("cuda:0", marks=[pytest.mark.gpu, CUDA])])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def tokens_of(encoder: Encoder) -> Tokens:
    return encoder.tokenise(TEXTS)


@pytest.mark.parametrize("arithmetic", ["auto", "bf16"])
def test_vectors_are_those_of_the_cpu_but_for_bfloat16(device, arithmetic):
    cpu, gpu = Encoder.base(FP32), Encoder.base(replace(CONFIG, arithmetic=arithmetic), device)
    rows = np.arange(8)
    ours, theirs = gpu.embed(tokens_of(gpu), rows), cpu.embed(tokens_of(cpu), rows)
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1.0, atol=1e-5)
    # bfloat16 keeps 8 bits: cosines of the two stay within 1%.
    assert np.einsum("nd,nd->n", ours, theirs).min() > 0.99


def test_vectors_in_fp32_are_those_of_the_cpu(device):
    cpu, gpu = Encoder.base(FP32), Encoder.base(FP32, device)
    ours, theirs = (each.embed(tokens_of(each), np.arange(8)) for each in (gpu, cpu))
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize("name", get_args(LossName))
def test_the_losses_of_a_training_in_fp32_are_those_of_the_cpu(device, name):
    # More pairs in a batch than texts in one forward pass on "cpu".
    config = TrainingConfig(epochs=3, batch=12, learning_rate=1e-3, loss=name, losses=LossConfig(queue=6))
    losses = list[list[float]]()
    for each in (device, "cpu"):
        encoder = Encoder.base(FP32, each)
        tokens = tokens_of(encoder)
        steps = train(encoder, (tokens, tokens), (PAIRS, LABELS), config, [0, 0, 1])
        losses.append([step.loss for step in steps])
    np.testing.assert_allclose(*losses, rtol=1e-2)


@pytest.mark.parametrize("name", get_args(LossName))
def test_a_training_by_every_loss_goes_on_there_from_a_checkpoint(device, tmp_path, name):
    config = TrainingConfig(epochs=2, batch=4, learning_rate=1e-3, loss=name, losses=LossConfig(queue=6))
    for taken in (3, None):
        encoder = Encoder.base(CONFIG, device)
        tokens, kept = tokens_of(encoder), Checkpoint(tmp_path / NAME, "same", 0.0)
        steps = list(islice(train(encoder, (tokens, tokens), (PAIRS, LABELS), config, [0, 0, 1], kept), taken))
        assert np.isfinite([step.loss for step in steps[3 if taken is None else 0 :]]).all()
    # Losses of the steps before the checkpoint are not stored: they were not taken again.
    assert (len(steps), np.isnan([step.loss for step in steps[:3]]).all()) == (8, True)


def test_a_training_learns_there_and_its_refit_separates(device):
    encoder = Encoder.base(CONFIG, device)
    tokens = tokens_of(encoder)
    # Match: the same word with the next number. No match: the other word.
    same = [(row, row + 2) for row in range(30)]
    other = [(row, row + 1) for row in range(0, 30, 2)]
    pairs = np.array(same + other, dtype=np.int64)
    labels = np.array([1] * len(same) + [0] * len(other), dtype=np.uint8)
    config = TrainingConfig(epochs=20, learning_rate=1e-3, initial_weight=1.0, initial_bias=0.0)
    steps: list[Step] = list(train(encoder, (tokens, tokens), (pairs, labels), config, [0, 0, 1]))
    assert np.mean([step.loss for step in steps[-4:]]) < np.mean([step.loss for step in steps[:4]])
    scorer, good = fit_scorer(pair_cosines(encoder, tokens, tokens, pairs), labels, config)
    assert good, scorer


def test_cells_learned_there_are_those_of_the_cpu(device):
    # Many of these vectors are as near to one centroid as to another.
    whole = np.random.default_rng(0).integers(-1, 2, (3000, 6)) + np.eye(1, 6)
    vectors = (whole / np.maximum(np.linalg.norm(whole, axis=1, keepdims=True), 1e-9)).astype(np.float32)
    ours, theirs = (sum_by_cell(vectors, np.arange(3000), vectors[:50], device) for device in (device, "cpu"))
    assert (ours.counts.tolist(), ours.sums.tolist()) == (theirs.counts.tolist(), theirs.sums.tolist())


def test_scores_and_gradients_of_a_cross_encoder_are_those_of_the_cpu(device):
    pairs, found = list(pairwise(TEXTS[:13])), []
    for each in (device, "cpu"):
        model = CrossEncoder.base(FP32, 0, each)
        loss = model.gradients(pairs, LABELS[:12])
        gradients = [p.grad.cpu().numpy() for p in model.transformer.parameters() if p.grad is not None]
        found.append((float(loss), model.scores(pairs, 5), *gradients))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
