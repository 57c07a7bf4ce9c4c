"""The steps that every training takes, resumable from a checkpoint, and a model that is trained only once."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Protocol

import numpy as np
import torch

from al_ray.core.errors import TrainingFailed
from al_ray.core.labels import Model
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Scorer
from al_ray.storage.uri import storage_path
from al_ray.training.checkpoint import NAME, Checkpoint, restored
from al_ray.training.optimizer import Optimiser, Step
from al_ray.training.process_group import ALONE, Group
from al_ray.training.saved_model import SavedWeights, read_model, write_model

READ = 50  # Steps on a GPU whose losses are read at once: to read one, the host waits for the GPU.


class Stateful(Protocol):
    """A part of a training that a checkpoint holds: a module, or a loss with a memory."""

    def state_dict(self) -> dict[str, Any]:
        """Return its tensors by name."""
        ...

    def load_state_dict(self, state: Mapping[str, Any], /) -> Any:
        """Restore what `state_dict` returned."""
        ...


@dataclass(frozen=True)
class Batches:
    """Whole batches of the labelled pairs, in an order of each epoch; a last partial batch is dropped.

    Fewer pairs than a batch of `most` make one batch of all of them. order: number of an epoch -> a permutation of the
    (n,) pairs.
    """

    pairs: int
    most: int
    order: Callable[[int], Rows]

    @property
    def size(self) -> int:
        """Pairs in a batch."""
        return min(self.most, self.pairs)

    @property
    def per_epoch(self) -> int:
        """Batches in an epoch."""
        return self.pairs // self.size

    def after(self, steps: int) -> Iterator[Rows]:
        """Yield without end the rows of each batch that follows the first `steps`."""
        first, number = divmod(steps, self.per_epoch)
        for epoch in count(first):
            order = self.order(epoch)
            for start in range(number * self.size, self.per_epoch * self.size, self.size):
                yield order[start : start + self.size]
            number = 0


def fit(
    optimiser: Optimiser,
    states: Mapping[str, Stateful],
    batches: Batches,
    backward: Callable[[Rows], torch.Tensor],
    checkpoint: Checkpoint | None,
    group: Group = ALONE,
    rate: str = "",
) -> Iterator[Step]:
    """Take all steps of the optimiser and yield each one, resuming from a checkpoint of the same training.

    A resumed training ends with the weights of one that was never interrupted. It yields the steps of the checkpoint
    too, since Ray replays a retried generator and expects the same length; their losses are NaN without `rate`.

    states: what the steps change, by its name in the checkpoint. backward: rows of a batch -> its loss, a number on the
    device, whose gradients it adds. Of a group, rank 0 alone reads and writes the checkpoint. rate: the option of the
    learning rate, for the error if a loss is not finite; without it such losses are not refused, or kept in the
    checkpoint.
    """
    losses = torch.full((optimiser.steps,), math.nan, dtype=torch.float64)
    if checkpoint is not None:
        taken, parts = group.once(checkpoint.read)
        if taken:
            optimiser.taken = taken
            restored(optimiser.adam, parts["optimiser"])
            for name, part in states.items():
                part.load_state_dict(parts.get(name, {}))
            losses = parts["progress"]["losses"] if rate else losses
    yield from (Step(step + 1, optimiser.steps, float(losses[step])) for step in range(optimiser.taken))
    unread = list[torch.Tensor]()
    for rows in islice(batches.after(optimiser.taken), optimiser.steps - optimiser.taken):
        unread.append(backward(rows))
        due = checkpoint is not None and group.rank == 0 and checkpoint.due()
        last = optimiser.taken + 1 == optimiser.steps
        read = slice(optimiser.taken + 1 - len(unread), optimiser.taken + 1)
        if due or last or len(unread) >= steps_at_once(optimiser.device):
            losses[read] = torch.stack(unread).double().cpu()
            unread.clear()
            if rate:
                _require_finite(losses[read], optimiser.steps, read.start, rate)
        optimiser.step()
        if checkpoint is not None and due:
            progress = {"progress": {"losses": losses}} if rate else {}
            parts = {name: part.state_dict() for name, part in states.items()}
            checkpoint.write({**parts, **progress}, optimiser.adam, optimiser.taken)
        if not unread:
            yield from (Step(step + 1, optimiser.steps, float(losses[step])) for step in range(read.start, read.stop))


def steps_at_once(device: str) -> int:
    """Return of how many steps the losses are read, and the steps yielded, at once."""
    return 1 if device == "cpu" else READ


def _require_finite(losses: torch.Tensor, steps: int, taken: int, rate: str) -> None:
    """Raise TrainingFailed if one of the losses after the first `taken` steps is not finite."""
    for place, loss in enumerate(losses.tolist()):
        if not math.isfinite(loss):
            raise TrainingFailed(f"step {taken + place + 1} of {steps}: the loss is {loss}; lower {rate}")


def train_once(
    folder: str,
    made_from: str,
    seconds: float,
    averaged: int,
    start: Callable[[Checkpoint], tuple[SavedWeights, Iterator[Step]]],
) -> Iterator[Step | Model]:
    """Train a model that needs no refit, save it into `folder`, and yield its steps and at last the model.

    If the folder has the model of the same inputs, it is read instead. The model's scorer is the identity; its loss is
    the mean of the last `averaged` steps.

    made_from: digest of everything that decides the weights. seconds: between two checkpoints. start: begins the
    training, which resumes from that checkpoint.
    """
    to = storage_path(folder)
    model = read_model(to, made_from)
    if model is None:
        checkpoint, losses = Checkpoint(to.parent / NAME, made_from, seconds), list[float]()
        weights, steps = start(checkpoint)
        for step in steps:
            losses.append(step.loss)
            yield step
        scorer = Scorer(1.0, 0.0, float(np.mean(losses[-averaged:])), "trained")
        model = write_model(weights, scorer, to, made_from)
        checkpoint.drop()
    yield model
