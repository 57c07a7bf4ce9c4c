"""A training that is resumed from a checkpoint ends with the weights of one that was never interrupted."""

import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from al_ray.core.config.sections import TrainingConfig
from al_ray.encoders.transformer import Encoder
from al_ray.runs.run_folder import opened
from al_ray.training.bi_encoder import train
from al_ray.training.checkpoint import NAME, Checkpoint

# Weight decay and a pull, so that all of the optimizer's state is used.
CONFIG = TrainingConfig(epochs=3, batch=8, learning_rate=1e-3, weight_decay=0.01, l2_sp=50.0)


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


# A trainer that the kernel kills as its checkpoint grows beyond 64 KiB.
KILLED = """
import resource, signal, sys
from pathlib import Path

import torch

from al_ray.training.checkpoint import NAME, Checkpoint

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
layer = torch.nn.Linear(300, 300)
optimiser = torch.optim.SGD(layer.parameters())
Checkpoint(Path(sys.argv[1]) / NAME, "", 0.0).write({"layer": layer.state_dict()}, optimiser, 1)
"""


def test_what_a_trainer_was_writing_that_was_killed_is_gone_at_the_end_of_the_run(make_task, tmp_path):
    place = tmp_path / "run" / "round-001"
    with opened(tmp_path / "run", make_task(True)):
        place.mkdir()
        killed = subprocess.run([sys.executable, "-c", KILLED, place], cwd=Path(__file__).parents[2], check=False)
        assert killed.returncode == -signal.SIGXFSZ
        assert list(place.iterdir()), "it died as it wrote"
    assert list(place.iterdir()) == []
