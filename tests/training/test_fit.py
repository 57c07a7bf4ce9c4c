"""The steps of any training: batches and checkpoints."""

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
import torch

from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import TrainingFailed
from al_ray.core.labels import Model
from al_ray.training import fit as fit_module
from al_ray.training.checkpoint import NAME, Checkpoint
from al_ray.training.fit import Batches, fit, train_once
from al_ray.training.optimizer import Optimiser, Step

CONFIG = TrainingConfig(learning_rate=0.1)
TARGETS = torch.arange(7.0)


class Weights(torch.nn.Module):
    """A module of one number, which records its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.value = torch.nn.Parameter(torch.tensor([0.5]))
        self.batches: list[list[int]] = []

    def digest(self) -> str:
        return str(self.value.tolist())

    def save(self, folder) -> None:
        (folder / "value").write_text(self.digest())


def order(epoch: int) -> np.ndarray:
    return np.roll(np.arange(7), epoch)


def training(
    checkpoint: Checkpoint | None, keep_losses: bool = False, of_step: dict[int, float] | None = None
) -> tuple[Weights, Iterator[Step]]:
    weights = Weights()

    def backward(rows: np.ndarray) -> torch.Tensor:
        weights.batches.append(rows.tolist())
        loss = ((weights.value - TARGETS[rows]) ** 2).mean()
        loss.backward()
        return loss.detach() * (of_step or {}).get(len(weights.batches), 1.0)

    optimiser = Optimiser([(weights, CONFIG.learning_rate)], CONFIG, 5, "cpu")
    rate = "--learning-rate" if keep_losses else ""
    return weights, fit(optimiser, {"encoder": weights}, Batches(7, 3, order), backward, checkpoint, rate=rate)


@pytest.mark.parametrize(("taken", "first"), [(0, [0, 1, 2]), (1, [3, 4, 5]), (2, [6, 0, 1]), (5, [1, 2, 3])])
def test_batches_after_some_steps_are_those_of_an_uninterrupted_training(taken, first):
    batches = Batches(7, 3, order)
    assert (batches.size, batches.per_epoch) == (3, 2)
    after = [rows.tolist() for rows in islice(batches.after(taken), 3)]
    assert after == [rows.tolist() for rows in islice(batches.after(0), taken, taken + 3)]
    assert after[0] == first


def test_fewer_pairs_than_a_batch_make_one_batch():
    few = Batches(2, 3, lambda epoch: np.arange(2))
    assert (few.size, few.per_epoch) == (2, 1)
    assert [rows.tolist() for rows in islice(few.after(4), 2)] == [[0, 1], [0, 1]]


@pytest.mark.parametrize("keep_losses", [True, False])
@pytest.mark.parametrize("taken", [1, 2, 4, 5])
def test_a_resumed_training_takes_only_the_remaining_steps(tmp_path, taken, keep_losses):
    whole, steps = training(None)
    unbroken = list(steps)
    assert [step.step for step in unbroken] == [1, 2, 3, 4, 5]
    list(islice(training(Checkpoint(tmp_path / NAME, "same", 0.0), keep_losses)[1], taken))
    again, steps = training(Checkpoint(tmp_path / NAME, "same", 0.0), keep_losses)
    rest = list(steps)
    assert again.batches == whole.batches[taken:]
    assert again.digest() == whole.digest()
    assert rest[taken:] == unbroken[taken:]
    assert [(step.step, step.steps) for step in rest] == [(step.step, step.steps) for step in unbroken]
    if keep_losses:
        assert rest == unbroken
    else:
        assert all(math.isnan(step.loss) for step in rest[:taken])


def test_a_model_is_trained_once_and_its_loss_is_the_mean_of_the_last_steps(tmp_path):
    def once(made_from: str, most: int | None = None) -> list[Step | Model]:
        begin = train_once(str(tmp_path / "model"), made_from, 0.0, 2, lambda checkpoint: training(checkpoint, True))
        return list(islice(begin, most))

    assert len(once("one", 4)) == 4
    assert (tmp_path / NAME).exists()
    *steps, model = once("one")
    assert steps == list(training(None)[1])
    assert isinstance(model, Model)
    assert model.scorer is not None
    assert model.scorer.loss == np.mean([step.loss for step in steps[-2:] if isinstance(step, Step)])
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert once("one") == [model]
    assert len(once("another")) == 6


@pytest.mark.parametrize("taken", [1, 3, 4])
def test_losses_that_are_read_together_are_those_of_each_step_also_after_a_checkpoint(tmp_path, monkeypatch, taken):
    unbroken = list(training(None)[1])
    monkeypatch.setattr(fit_module, "steps_at_once", lambda device: 3)
    assert list(training(None)[1]) == unbroken
    # Checkpoints are after each step, and read the losses before.
    list(islice(training(Checkpoint(tmp_path / NAME, "same", 0.0), True)[1], taken))
    assert list(training(Checkpoint(tmp_path / NAME, "same", 0.0), True)[1]) == unbroken
    # The loss of step 2 is read after step 3.
    with pytest.raises(TrainingFailed, match="step 2 of 5: the loss is nan"):
        list(training(None, True, {2: math.nan})[1])


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_refused_with_the_fix(loss):
    with pytest.raises(TrainingFailed, match=f"step 3 of 5: the loss is {loss}; lower --learning-rate"):
        list(training(None, True, {3: loss})[1])
    assert len(list(training(None, False, {3: loss})[1])) == 5
