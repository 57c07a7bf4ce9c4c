"""The trainer: labelled pairs -> a saved model with its scorer. A plain class; cluster/ makes it an actor."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import TrainingFailed
from al_ray.core.labels import Labelled, Model
from al_ray.core.scorer import Scorer
from al_ray.encoders.encoder import TextEncoder, load
from al_ray.encoders.tokens import Tokens
from al_ray.storage.download import fetched
from al_ray.storage.uri import StoragePath, storage_path
from al_ray.training.bi_encoder import fit_scorer, pair_cosines, train
from al_ray.training.checkpoint import NAME, Checkpoint
from al_ray.training.optimizer import Step
from al_ray.training.process_group import ALONE, Group, Meeting, joined, opened
from al_ray.training.saved_model import input_digest, read_model, write_model


@dataclass(frozen=True)
class TrainerSpec:
    """All that a trainer is made from; folder as in ShardSpec; rank among the training's workers."""

    folder: str
    encoder: EncoderConfig
    training: TrainingConfig
    seed: int
    symmetric: bool
    device: str = "cpu"
    checkpoint_seconds: float = 120.0
    rank: int = 0


class Trainer:
    """Trains from the pre-trained weights every time (paper, A.1), or goes on from those of another model."""

    def __init__(self, spec: TrainerSpec) -> None:
        """Fix the threads."""
        torch.set_num_threads(spec.encoder.threads)
        self.spec = spec

    def meet(self, host: str) -> Meeting:
        """Open where the workers of the next training meet; for rank 0, on a machine that the others know as `host`."""
        self.store = opened(host)
        return host, self.store.port

    def train(
        self, labelled: Labelled, number: int, start: Model | None, folder: str, meeting: Meeting | None = None
    ) -> Iterator[Step | Model]:
        """Train for round `number` from the weights of `start`, save into `folder`, and yield steps and the model.

        A folder that holds the model of these labels and options is not made again. A training whose refitted loss
        stays above `worst_loss` is repeated in another order; TrainingFailed after the last try. With several workers
        each calls it with the place that rank 0 opened, and yields the same; rank 0 alone reads and writes files.
        """
        if meeting is None:
            yield from self._train(labelled, number, start, storage_path(folder), ALONE)
            return
        with joined(
            meeting if self.spec.rank else self.store, self.spec.rank, self.spec.training.workers, self.spec.device
        ) as group:
            yield from self._train(labelled, number, start, storage_path(folder), group)

    def follow(self, labelled: Labelled, number: int, start: Model | None, folder: str, meeting: Meeting) -> None:
        """`train` of a rank above 0, to its end."""
        deque(self.train(labelled, number, start, folder, meeting), maxlen=0)

    def _train(
        self, labelled: Labelled, number: int, start: Model | None, folder: StoragePath, group: Group
    ) -> Iterator[Step | Model]:
        made_from = self._made_from(labelled, number, start)
        done = group.once(lambda: read_model(folder, made_from))
        if done is not None:
            yield done
            return
        near = fetched(storage_path(self.spec.folder))
        left = Tokens.read(near / "left")
        right = left if self.spec.symmetric else Tokens.read(near / "right")
        config, losses = self.spec.training, list[float]()
        for attempt in range(config.tries):
            encoder = load(start, self.spec.encoder, near, self.spec.device)
            seed = [self.spec.seed, attempt, number]
            checkpoint = Checkpoint(folder.parent / NAME, f"{made_from} {attempt}", self.spec.checkpoint_seconds)
            yield from train(encoder, (left, right), (labelled.pairs, labelled.labels), config, seed, checkpoint, group)
            scorer, good = group.once(partial(_refitted, encoder, (left, right), labelled, config))
            if good:
                made = group.once(partial(write_model, encoder, scorer, folder, made_from))
                group.once(checkpoint.drop)
                yield made
                return
            losses.append(scorer.loss)
        raise TrainingFailed(
            f"round {number}: {config.tries} trainings on {len(labelled):,} pairs ({labelled.positives:,} positive): "
            f"refitted losses {', '.join(f'{loss:.3f}' for loss in losses)}, above --training.worst-loss "
            f"{config.worst_loss}; label more pairs, or change --training.learning-rate or --training.worst-loss"
        )

    def _made_from(self, labelled: Labelled, number: int, start: Model | None) -> str:
        """Digest of all that decides the weights."""
        options = [self.spec.encoder.digested(), self.spec.training.digested()]
        round_start = [self.spec.seed, number, start and start.digest]
        return input_digest([options, round_start], labelled.pairs, labelled.labels)


def _refitted(
    encoder: TextEncoder, tokens: tuple[Tokens, Tokens], labelled: Labelled, config: TrainingConfig
) -> tuple[Scorer, bool]:
    return fit_scorer(pair_cosines(encoder, *tokens, labelled.pairs), labelled.labels, config)
