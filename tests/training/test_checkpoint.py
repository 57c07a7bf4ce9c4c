"""A training that is resumed from a checkpoint ends with the weights of one that was never interrupted."""

from itertools import islice

import numpy as np
import pytest

from al_ray.core.config.sections import TrainingConfig
from al_ray.encoders.transformer import Encoder
from al_ray.training.bi_encoder import train
from al_ray.training.checkpoint import NAME, Checkpoint

# Weight decay, so that all of the optimizer's state is used.
CONFIG = TrainingConfig(epochs=3, batch=8, learning_rate=1e-3, weight_decay=0.01)


@pytest.fixture
def training(letters, task):
    """A function that starts a training, with a checkpoint or without: its encoder and its steps."""

    def begin(checkpoint: Checkpoint | None = None, seed: int = 0):
        encoder = Encoder.base(letters)
        left, right = (encoder.tokenise(side.texts) for side in (task.left, task.right))
        split = task.split("train")
        pairs = np.concatenate([split.positives[:20], split.stated_negatives[:20]])
        labels = (np.arange(len(pairs)) < 20).astype(np.uint8)
        return encoder, train(encoder, (left, right), (pairs, labels), CONFIG, [seed, 0, 1], checkpoint)

    return begin


@pytest.mark.parametrize("stops", [(1,), (4, 9), (5, 6, 14)])
def test_a_resumed_training_equals_an_uninterrupted_one(training, tmp_path, stops):
    encoder, steps = training()
    unbroken = list(steps)
    assert len(unbroken) == 15
    seen = []
    for taken in stops:
        _, steps = training(Checkpoint(tmp_path / "round" / NAME, "same", 0.0))
        seen += list(islice(steps, taken))[len(seen) :]
    again, steps = training(Checkpoint(tmp_path / "round" / NAME, "same", 0.0))
    # Steps of the checkpoint are yielded again, without their losses; none is taken twice.
    rest = list(steps)
    assert [step.step for step in rest] == [step.step for step in unbroken]
    assert all(np.isnan(step.loss) for step in rest[: len(seen)])
    assert seen + rest[len(seen) :] == unbroken
    assert again.digest() == encoder.digest()


def test_a_checkpoint_of_other_inputs_is_ignored(training, tmp_path):
    _, steps = training(Checkpoint(tmp_path / NAME, "one", 0.0))
    list(islice(steps, 5))
    assert Checkpoint(tmp_path / NAME, "one", 0.0).read()[0] == 5
    _, steps = training(Checkpoint(tmp_path / NAME, "another", 0.0))
    assert next(steps).step == 1


@pytest.mark.parametrize("left", [0, 7, 1000])
def test_a_truncated_checkpoint_is_ignored(training, tmp_path, left):
    _, steps = training(Checkpoint(tmp_path / NAME, "one", 0.0))
    list(islice(steps, 5))
    whole = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(whole[:left])
    assert Checkpoint(tmp_path / NAME, "one", 0.0).read() == (0, {})


def test_nothing_is_written_before_it_is_due_and_drop_deletes_the_file(training, tmp_path):
    seldom = Checkpoint(tmp_path / NAME, "one", 1e6)
    _, steps = training(seldom)
    list(steps)
    assert not list(tmp_path.iterdir())
    often = Checkpoint(tmp_path / NAME, "one", 0.0)
    _, steps = training(often)
    list(steps)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    often.drop()
    often.drop()
    assert not list(tmp_path.iterdir())
