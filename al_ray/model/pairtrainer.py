"""Training a concatenation model on labelled pairs of texts (paper, section 3): binary cross-entropy, kept on its way.

The recipe's optimiser is that of the bi-encoder (model/training.py). Dropout is the transformer's own: the paper leaves
it out of CosineBERT alone, since it lowers cosines.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from al_ray.core.config import EncoderConfig, TrainingConfig, generator
from al_ray.core.errors import TrainingFailed
from al_ray.core.records import Model
from al_ray.core.scoring import Floats, Labels, Scorer
from al_ray.model.checkpoint import NAME, Checkpoint, restored
from al_ray.model.crossencoder import CrossEncoder, Texts
from al_ray.model.trainer import read_model, write_model
from al_ray.model.training import Optimiser, Step, thin_gradients
from al_ray.storage.places import place


@dataclass(frozen=True)
class PairTrainerSpec:
    """All that a trainer of concatenation models is made from; `training.batch` pairs make a step."""

    encoder: EncoderConfig
    training: TrainingConfig
    seed: int
    device: str = "cpu"
    checkpoint_seconds: float = 120.0


class PairTrainer:
    """Trains from the pre-trained weights and a fresh head; a plain class, which cluster/ makes an actor."""

    def __init__(self, spec: PairTrainerSpec) -> None:
        """Fix the threads."""
        torch.set_num_threads(spec.encoder.threads)
        self.spec = spec

    def train(self, pairs: Texts, labels: Labels | Floats, folder: str) -> Iterator[Step | Model]:
        """Train on (n,) pairs of texts with (n,) labels, save into `folder`, and yield steps and at last the model.

        A folder that holds the model of these pairs and options is not made again. The model's scorer leaves a score as
        it is, for that is a logit already; its loss is the mean of the last epoch's batches.
        """
        to, made_from = place(folder), self._made_from(pairs, labels)
        done = read_model(to, made_from)
        if done is not None:
            yield done
            return
        drawn = generator(self.spec.seed, "concat-head").integers(2**62)
        model = CrossEncoder.base(self.spec.encoder, int(drawn), self.spec.device)
        checkpoint = Checkpoint(to.parent / NAME, made_from, self.spec.checkpoint_seconds)
        losses: list[float] = []
        for step in train(model, (pairs, labels), self.spec.training, self.spec.seed, checkpoint):
            losses.append(step.loss)
            yield step
        mean = float(np.mean(losses[-(len(losses) // self.spec.training.epochs) :]))
        made = write_model(model, Scorer(1.0, 0.0, mean, "trained"), to, made_from)
        checkpoint.drop()
        yield made

    def _made_from(self, pairs: Texts, labels: Labels | Floats) -> str:
        """Digest of all that decides the weights."""
        options = [self.spec.encoder.digested(), self.spec.training.digested(), self.spec.seed]
        content = hashlib.sha256(json.dumps([options, list(pairs)]).encode())
        content.update(np.ascontiguousarray(labels).data)
        return content.hexdigest()


def train(
    model: CrossEncoder,
    labelled: tuple[Texts, Labels | Floats],
    config: TrainingConfig,
    seed: int,
    checkpoint: Checkpoint,
) -> Iterator[Step]:
    """Train in place, in whole batches as the bi-encoder's; a checkpoint of this very training is gone on from.

    Order of the pairs and dropout are drawn anew for every epoch and step, by their numbers: the weights are those of a
    training that never stopped, and so are the losses. TrainingFailed where a loss is no number.
    """
    pairs, labels = labelled
    size = min(config.batch, len(pairs))
    per_epoch = len(pairs) // size
    optimiser = Optimiser([(model.transformer, config.learning_rate)], config, config.epochs * per_epoch)
    losses = np.full(optimiser.steps, np.nan)
    optimiser.taken, parts = checkpoint.read()
    if optimiser.taken:
        model.transformer.load_state_dict(parts["encoder"])
        restored(optimiser.adam, parts["optimiser"])
        losses = parts["progress"]["losses"].numpy()
    # Told again, for a stream that is asked for again must be as long as it was.
    yield from (Step(number + 1, optimiser.steps, float(losses[number])) for number in range(optimiser.taken))
    model.transformer.train()
    thin_gradients(model.transformer)
    devices = [] if model.device == "cpu" else [model.device]
    while optimiser.taken < optimiser.steps:
        epoch, number = divmod(optimiser.taken, per_epoch)
        order = generator(seed, "concat-order", epoch).permutation(len(pairs))
        rows = order[number * size : (number + 1) * size]
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(int(generator(seed, "concat-dropout", optimiser.taken).integers(2**62)))
            loss = model.gradients([pairs[row] for row in rows.tolist()], labels[rows])
        if not math.isfinite(loss):
            raise TrainingFailed(
                f"step {optimiser.taken + 1} of {optimiser.steps}: the loss is {loss}; lower --training.learning-rate"
            )
        losses[optimiser.taken] = loss
        optimiser.step()
        if checkpoint.due():
            progress = {"losses": torch.from_numpy(losses)}
            checkpoint.write(
                {"encoder": model.transformer.state_dict(), "progress": progress}, optimiser.adam, optimiser.taken
            )
        yield Step(optimiser.taken, optimiser.steps, loss)
    model.transformer.eval()
