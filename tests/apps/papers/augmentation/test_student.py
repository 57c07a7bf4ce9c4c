"""A student: its loss by hand, resumed training, and layers with random weights."""

from collections.abc import Generator
from dataclasses import replace

import numpy as np
import pytest
import torch

from al_ray.apps.papers.augmentation.student import StudentSpec, StudentTrainer, redraw, tokenised, train
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadFile, BadOption, TrainingFailed
from al_ray.core.labels import Model
from al_ray.encoders.encoder import saved
from al_ray.encoders.transformer import Encoder
from al_ray.training.bi_encoder import pair_cosines
from al_ray.training.checkpoint import Checkpoint
from al_ray.training.optimizer import Step

PAIRS = [("ant bee", "ant bee"), ("ant", "cat dog"), ("bee", "bee cat"), ("dog", "ant"), ("cat", "cat"), ("eel", "bee")]
SCORES = np.array([1.0, 0.1, 0.6, 0.0, 0.9, 0.25])
FAST = TrainingConfig(epochs=2, batch=2, learning_rate=1e-2, warmup=0.15, bias_correction=True)
CNN = EncoderConfig(encoder="cnn-8", encoder_layers=None, max_length=20, encoder_batch=4, threads=1)
KNOWN = ["ant bee cat dog eel"]


def drain(stream) -> tuple[Model, list[Step]]:
    *steps, model = stream
    return model, steps


def trained(config: EncoderConfig, folder, steps: int = 6, training: TrainingConfig = FAST, **options):
    trainer = StudentTrainer(StudentSpec(config, training, seed=0, **options))
    return trainer, *drain(trainer.train(KNOWN, PAIRS, SCORES, str(folder), steps))


def test_the_loss_of_a_batch_is_the_mean_square_of_cosine_less_score(letters, tmp_path):
    for config in (CNN, letters):
        trainer = StudentTrainer(StudentSpec(config, replace(FAST, batch=6), seed=0))
        encoder = trainer.untrained(KNOWN)
        tokens, rows = tokenised(encoder, PAIRS)
        cosines = pair_cosines(encoder, tokens, tokens, rows)
        checkpoint = Checkpoint(tmp_path / "none", "x", 1e9)
        first = next(train(encoder, (PAIRS, SCORES), replace(FAST, batch=6), (0, 1), checkpoint))
        assert first.loss == pytest.approx(np.mean((cosines - SCORES) ** 2), abs=1e-5)
        assert (cosines[0], cosines[4]) == pytest.approx((1, 1), abs=1e-5), "the same text twice"


def test_a_student_learns_its_scores_and_is_saved(tmp_path):
    trainer, model, steps = trained(CNN, tmp_path / "model", 120, replace(FAST, epochs=40))
    assert [step.step for step in steps] == list(range(1, 121))
    assert np.mean([step.loss for step in steps[-6:]]) < 0.1 * np.mean([step.loss for step in steps[:6]])
    cosines = trainer.cosines(model, PAIRS)
    assert np.corrcoef(cosines, SCORES)[0, 1] > 0.9
    encoder = saved(model.path, CNN)
    tokens, rows = tokenised(encoder, PAIRS)
    assert pair_cosines(encoder, tokens, tokens, rows).tolist() == cosines.tolist()
    assert model.scorer is not None
    assert model.scorer.loss == pytest.approx(np.mean([step.loss for step in steps[-3:]]))


def test_a_student_is_trained_once_and_again_for_other_options(tmp_path):
    _, model, _ = trained(CNN, tmp_path / "model")
    _, again, steps = trained(CNN, tmp_path / "model")
    assert (again, steps) == (model, [])
    _, other, steps = trained(CNN, tmp_path / "model", steps=7)
    assert len(steps) == 7
    assert other.digest != model.digest
    with pytest.raises(BadFile, match="not those the run made"):
        StudentTrainer(StudentSpec(CNN, FAST, 0)).cosines(model, PAIRS)


@pytest.mark.parametrize("stop", [2, 3, 5])
def test_a_resumed_training_ends_with_the_same_weights(tmp_path, stop):
    _, expected, whole = trained(CNN, tmp_path / "whole" / "model")
    trainer = StudentTrainer(StudentSpec(CNN, FAST, 0, checkpoint_seconds=0.0))
    stream = trainer.train(KNOWN, PAIRS, SCORES, str(tmp_path / "part" / "model"), 6)
    assert isinstance(stream, Generator)
    for _ in range(stop):
        next(stream)
    stream.close()
    model, steps = drain(trainer.train(KNOWN, PAIRS, SCORES, str(tmp_path / "part" / "model"), 6))
    assert model.digest == expected.digest
    assert [step.step for step in steps] == [step.step for step in whole]
    assert steps[-1].loss == whole[-1].loss
    assert not (tmp_path / "part" / "training.safetensors").exists()


def test_both_students_start_from_the_same_weights_of_their_seed():
    one, same, other = (StudentTrainer(StudentSpec(CNN, FAST, seed)).untrained(KNOWN).digest() for seed in (0, 0, 1))
    assert one == same != other


def test_only_the_last_layers_get_random_weights(letters):
    config = replace(letters, encoder_layers=3)
    old, new, other = (Encoder.base(config) for _ in range(3))
    redraw(new, 2, 5)
    redraw(other, 2, 6)
    layers = [name for name in old.transformer.state_dict() if name.startswith("encoder.layer.")]
    for name in old.transformer.state_dict():
        same = torch.equal(old.transformer.state_dict()[name], new.transformer.state_dict()[name])
        same_weights = name not in layers or name.startswith("encoder.layer.0.") or not name.endswith(".weight")
        assert same is (same_weights or "LayerNorm" in name), name
    weight = new.transformer.encoder.layer[2].output.dense.weight
    assert not torch.equal(weight, other.transformer.encoder.layer[2].output.dense.weight)
    # 32 * 64 draws: their deviation is within a tenth of the family's.
    assert float(weight.detach().std()) == pytest.approx(old.transformer.config.initializer_range, rel=0.1)
    assert StudentTrainer(StudentSpec(config, FAST, 0, 2)).untrained(KNOWN).digest() != old.digest()
    with pytest.raises(BadOption, match="`fresh_layers=4`: random-bert has 3 layers"):
        redraw(old, 4, 0)


def test_a_loss_that_is_not_finite_ends_the_training(tmp_path):
    with pytest.raises(TrainingFailed, match=r"the loss is (nan|inf); lower `learning_rate`"):
        trained(CNN, tmp_path / "model", 6, replace(FAST, learning_rate=1e38, clip_norm=1e30))


def test_pairs_are_rows_of_their_distinct_texts(letters):
    encoder = Encoder.base(letters)
    tokens, rows = tokenised(encoder, [("b", "a"), ("a", "b"), ("b", "b")])
    assert rows.tolist() == [[0, 1], [1, 0], [0, 0]]
    assert tokens.lengths(np.array([0, 1])).tolist() == [3, 3]
