"""Train a cross-encoder on labelled pairs of texts by binary cross-entropy (paper, section 3), with checkpoints.

The optimizer is that of the bi-encoder. Dropout is on, as the transformer has it: the paper turns it off only in
CosineBERT, because it lowers cosines.
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
from al_ray.encoders.hardware import settle_training
from al_ray.training.checkpoint import Checkpoint
from al_ray.training.fit import Batches, fit, train_once
from al_ray.training.optimizer import Optimiser, Step, thin_gradients
from al_ray.training.saved_model import input_digest


@dataclass(frozen=True)
class PairTrainerSpec:
    """Options of a PairTrainer; a step takes `training.batch` pairs."""

    encoder: EncoderConfig
    training: TrainingConfig
    seed: int
    device: str = "cpu"
    checkpoint_seconds: float = 120.0


class PairTrainer:
    """Trains from the pre-trained weights and a new head. A plain class, which cluster/ makes an actor."""

    def __init__(self, spec: PairTrainerSpec) -> None:
        """Set the number of threads, and algorithms whose results do not change from one training to the next."""
        torch.set_num_threads(spec.encoder.threads)
        settle_training(spec.device)
        self.spec = spec

    def train(self, pairs: Texts, labels: Labels | Floats, folder: str) -> Iterator[Step | Model]:
        """Train on (n,) pairs of texts with (n,) labels, save into `folder`, and yield each step and then the model.

        If the folder has the model of these pairs and options, it is read instead. The model's scorer is the identity,
        because a score is a logit; its loss is the mean over the batches of the last epoch.
        """

        def start(checkpoint: Checkpoint) -> tuple[CrossEncoder, Iterator[Step]]:
            head_seed = generator(spec.seed, "concat-head").integers(2**62)
            model = CrossEncoder.base(spec.encoder, int(head_seed), spec.device)
            return model, train(model, (pairs, labels), spec.training, spec.seed, checkpoint)

        spec, batch = self.spec, min(self.spec.training.batch, len(pairs))
        made_from = self._made_from(pairs, labels)
        yield from train_once(folder, made_from, spec.checkpoint_seconds, len(pairs) // batch, start)

    def _made_from(self, pairs: Texts, labels: Labels | Floats) -> str:
        """Return the digest of everything that decides the weights."""
        options = [self.spec.encoder.digested(), self.spec.training.digested(), self.spec.seed]
        return input_digest([[options, list(pairs)]], labels)


def train(
    model: CrossEncoder,
    labelled: tuple[Texts, Labels | Floats],
    config: TrainingConfig,
    seed: int,
    checkpoint: Checkpoint,
) -> Iterator[Step]:
    """Train in place, yield each step, and resume from a checkpoint; TrainingFailed if a loss is not finite.

    The order of the pairs depends on the number of the epoch, and dropout on the number of the step. So a resumed
    training has the weights and losses of one that was never interrupted.
    """
    on_cpu = torch.device(model.device).type == "cpu"
    (pairs, labels), devices = labelled, [] if on_cpu else [model.device]
    batches = Batches(
        len(pairs), config.batch, lambda epoch: generator(seed, "concat-order", epoch).permutation(len(pairs))
    )
    optimiser = Optimiser(
        [(model.transformer, config.learning_rate)], config, config.epochs * batches.per_epoch, model.device
    )

    def backward(rows: Rows) -> torch.Tensor:
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(int(generator(seed, "concat-dropout", optimiser.taken).integers(2**62)))
            return model.gradients([pairs[row] for row in rows.tolist()], labels[rows])

    model.transformer.train()
    thin_gradients(model.transformer)
    rate = "`TrainConfig.training.learning_rate` (`al-ray augment ... --teacher-rate`)"
    yield from fit(optimiser, {"encoder": model.transformer}, batches, backward, checkpoint, rate=rate)
    model.transformer.eval()
