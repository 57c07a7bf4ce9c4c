"""Train a student: a bi-encoder on scored pairs by cosine-similarity loss (paper 003), with checkpoints.

The loss of a batch is the mean of (cos(u, v) - score)^2. The students of gold alone and of gold and silver pairs start
from the same weights, so that they can be compared.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from al_ray.core.config.encoder import EncoderConfig, is_cnn
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadOption
from al_ray.core.labels import Model
from al_ray.core.naming import option
from al_ray.core.pairs import Pairs, Rows, as_pairs
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats
from al_ray.encoders.cnn import Cnn
from al_ray.encoders.cross_encoder import Texts
from al_ray.encoders.encoder import TextEncoder, saved
from al_ray.encoders.hardware import settle_training
from al_ray.encoders.tokens import Tokens
from al_ray.encoders.transformer import Encoder, check_weights_digest
from al_ray.encoders.vocabulary import Vocabulary
from al_ray.training.bi_encoder import batch_cosines, pair_cosines
from al_ray.training.checkpoint import Checkpoint
from al_ray.training.fit import Batches, fit, train_once
from al_ray.training.optimizer import Optimiser, Step, thin_gradients
from al_ray.training.saved_model import input_digest


@dataclass(frozen=True)
class StudentSpec:
    """Options of a StudentTrainer.

    fresh_layers: number of last layers with random weights. words: size of cnn's vocabulary.
    """

    encoder: EncoderConfig
    training: TrainingConfig
    seed: int
    fresh_layers: int = 0
    words: int = 50_000
    device: str = "cpu"
    checkpoint_seconds: float = 120.0


class StudentTrainer:
    """Trains students and computes their cosines. A plain class, which cluster/ makes an actor."""

    def __init__(self, spec: StudentSpec) -> None:
        """Set the number of threads, and algorithms whose results do not change from one training to the next."""
        torch.set_num_threads(spec.encoder.threads)
        settle_training(spec.device)
        self.spec = spec

    def train(
        self, known: Sequence[str], pairs: Texts, scores: Floats, folder: str, steps: int
    ) -> Iterator[Step | Model]:
        """Train for `steps` steps on (n,) pairs of texts with (n,) scores, save, and yield each step, then the model.

        known: texts of cnn's vocabulary. If the folder has the model of these pairs and options, it is read instead.
        """

        def start(checkpoint: Checkpoint) -> tuple[TextEncoder, Iterator[Step]]:
            encoder = self.untrained(known)
            return encoder, train(encoder, (pairs, scores), spec.training, (spec.seed, steps), checkpoint)

        spec, batch = self.spec, min(self.spec.training.batch, len(pairs))
        made_from = self._made_from(known, pairs, scores, steps)
        yield from train_once(folder, made_from, spec.checkpoint_seconds, len(pairs) // batch, start)

    def untrained(self, known: Sequence[str]) -> TextEncoder:
        """Return the encoder from which all students of these options start; BadOption for invalid `fresh_layers`."""
        config, seed = self.spec.encoder, int(generator(self.spec.seed, "student").integers(2**62))
        if is_cnn(config.encoder):
            if self.spec.fresh_layers:
                raise BadOption(
                    f"{option('fresh_layers', self.spec.fresh_layers)}: all weights of {config.encoder} are random"
                )
            return Cnn.base(config, Vocabulary.of(known, self.spec.words), self.spec.device, seed)
        encoder = Encoder.base(config, self.spec.device)
        encoder.use_left_prompt()
        redraw(encoder, self.spec.fresh_layers, seed)
        return encoder

    def cosines(self, model: Model | None, pairs: Texts, known: Sequence[str] = ()) -> Floats:
        """(n,) pairs of texts -> (n,) cosines; BadFile if the folder has other weights than the model's.

        Without a model, cosines of the untrained student. known: texts of its vocabulary, for cnn.
        """
        encoder = self.untrained(known) if model is None else saved(model.path, self.spec.encoder, self.spec.device)
        if model is not None:
            check_weights_digest(model, encoder.digest())
        tokens, rows = tokenised(encoder, pairs)
        return pair_cosines(encoder, tokens, tokens, rows)

    def _made_from(self, known: Sequence[str], pairs: Texts, scores: Floats, steps: int) -> str:
        """Return the digest of everything that decides the weights."""
        spec = self.spec
        options = [spec.encoder.digested(), spec.training.content, spec.seed, spec.fresh_layers, spec.words, steps]
        texts = list(known) if is_cnn(spec.encoder.encoder) else []
        return input_digest([[options, texts, list(pairs)]], scores)


def train(
    encoder: TextEncoder,
    scored: tuple[Texts, Floats],
    config: TrainingConfig,
    seed_and_steps: tuple[int, int],
    checkpoint: Checkpoint,
) -> Iterator[Step]:
    """Train in place, yield each step, and resume from a checkpoint; TrainingFailed if a loss is not finite.

    Every epoch has another random order of the pairs; the number of steps decides the number of epochs.
    """
    (pairs, scores), (seed, steps) = scored, seed_and_steps
    tokens, rows = tokenised(encoder, pairs)
    target = torch.from_numpy(scores.astype(np.float32)).to(encoder.device)
    batches = Batches(
        len(pairs), config.batch, lambda epoch: generator(seed, "student-order", epoch).permutation(len(pairs))
    )
    optimiser = Optimiser([(encoder.network, config.learning_rate)], config, steps, encoder.device)

    def backward(batch: Rows) -> torch.Tensor:
        cosines = batch_cosines(encoder, tokens, tokens, rows[batch])
        loss = torch.nn.functional.mse_loss(cosines, target[torch.from_numpy(batch).to(encoder.device)])
        loss.backward()
        return loss.detach()

    thin_gradients(encoder.network)
    yield from fit(optimiser, {"encoder": encoder.network}, batches, backward, checkpoint, rate="`learning_rate`")


def tokenised(encoder: TextEncoder, pairs: Texts) -> tuple[Tokens, Pairs]:
    """Tokenise (n,) pairs of texts: token ids of each distinct text, and the pairs (n, 2) as rows of these texts."""
    rows: dict[str, int] = {}
    left, right = ([rows.setdefault(pair[side], len(rows)) for pair in pairs] for side in (0, 1))
    return encoder.tokenise(list(rows)), as_pairs(left, right)


def redraw(encoder: Encoder, layers: int, seed: int) -> None:
    """Replace the weights of the last layers by random ones, as BERT initialises them; BadOption if too many."""
    if not layers:
        return
    stack = getattr(getattr(encoder.transformer, "encoder", None), "layer", None)
    if stack is None or layers > len(stack):
        has = "does not have its layers where BERT has them" if stack is None else f"has {len(stack)} layers"
        name = option("fresh_layers", layers)
        raise BadOption(f"{name}: {encoder.config.encoder} {has}; give fewer, or another `encoder`")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        for layer in stack[len(stack) - layers :]:
            for module in layer.modules():
                if isinstance(module, torch.nn.Linear):
                    # By the CPU's generator, wherever the weights are.
                    drawn = torch.empty(module.weight.shape).normal_(0.0, encoder.transformer.config.initializer_range)
                    module.weight.copy_(drawn)
                    module.bias.zero_()
                elif isinstance(module, torch.nn.LayerNorm):
                    module.reset_parameters()
