"""Training a concatenation model on labelled pairs of texts (paper, section 3): binary cross-entropy, kept on its way.

The recipe's optimiser is that of the bi-encoder. Dropout is the transformer's own: the paper leaves it
out of CosineBERT alone, since it lowers cosines.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.labels import Model
from al_ray.core.pairs import Rows
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, Labels
from al_ray.encoders.cross_encoder import CrossEncoder, Texts
from al_ray.training.checkpoint import Checkpoint
from al_ray.training.fit import Batches, fit, refuse_infinite, train_once
from al_ray.training.optimizer import Optimiser, Step, thin_gradients
from al_ray.training.saved_model import input_digest


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

        def start(checkpoint: Checkpoint) -> tuple[CrossEncoder, Iterator[Step]]:
            head_seed = generator(spec.seed, "concat-head").integers(2**62)
            model = CrossEncoder.base(spec.encoder, int(head_seed), spec.device)
            return model, train(model, (pairs, labels), spec.training, spec.seed, checkpoint)

        spec, batch = self.spec, min(self.spec.training.batch, len(pairs))
        made_from = self._made_from(pairs, labels)
        yield from train_once(folder, made_from, spec.checkpoint_seconds, len(pairs) // batch, start)

    def _made_from(self, pairs: Texts, labels: Labels | Floats) -> str:
        """Digest of all that decides the weights."""
        options = [self.spec.encoder.digested(), self.spec.training.digested(), self.spec.seed]
        return input_digest([[options, list(pairs)]], labels)


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
    (pairs, labels), devices = labelled, [] if model.device == "cpu" else [model.device]
    batches = Batches(
        len(pairs), config.batch, lambda epoch: generator(seed, "concat-order", epoch).permutation(len(pairs))
    )
    optimiser = Optimiser([(model.transformer, config.learning_rate)], config, config.epochs * batches.per_epoch)

    def backward(rows: Rows) -> float:
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(int(generator(seed, "concat-dropout", optimiser.taken).integers(2**62)))
            loss = model.gradients([pairs[row] for row in rows.tolist()], labels[rows])
        return refuse_infinite(loss, optimiser, "--training.learning-rate")

    model.transformer.train()
    thin_gradients(model.transformer)
    yield from fit(optimiser, {"encoder": model.transformer}, batches, backward, checkpoint, keep_losses=True)
    model.transformer.eval()
