"""The trainer of bi-encoders: labelled pairs to a saved model with its scorer."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import TrainingFailed
from al_ray.core.labels import NO, Labelled, Model
from al_ray.core.pairs import Pairs, as_pairs
from al_ray.core.scorer import Scorer
from al_ray.encoders.encoder import TextEncoder, load
from al_ray.encoders.hardware import give_back_memory, settle_training
from al_ray.encoders.tokens import StoredTokens, Tokens, fetched_tokens
from al_ray.storage.pair_cosines import FIT, write_cosines
from al_ray.storage.uri import StoragePath, storage_path
from al_ray.training.bi_encoder import fit_scorer, pair_cosines, train
from al_ray.training.checkpoint import NAME, Checkpoint
from al_ray.training.optimizer import Step
from al_ray.training.process_group import ALONE, Group, Meeting, join_group, open_store
from al_ray.training.saved_model import input_digest, read_model, write_model


@dataclass(frozen=True)
class TrainerSpec:
    """Options of a Trainer. folder: the pool folder, as in ShardSpec. rank: among the workers of the training."""

    folder: str
    encoder: EncoderConfig
    training: TrainingConfig
    seed: int
    symmetric: bool
    device: str = "cpu"
    checkpoint_seconds: float = 120.0
    rank: int = 0


class Trainer:
    """Trains from pre-trained weights (paper, A.1) or another model. A plain class; actors of cluster/ have one."""

    def __init__(self, spec: TrainerSpec, watch: Callable[[Iterator[Step]], Iterator[Step]] = iter) -> None:
        """Set the number of threads, and algorithms whose results do not change from one training to the next.

        watch: yields the steps of a training that it is given; it sees when each begins and ends.
        """
        torch.set_num_threads(spec.encoder.threads)
        settle_training(spec.device)
        self.spec, self.watch = spec, watch

    def meet(self, host: str) -> Meeting:
        """Open the store of the next training's workers. For rank 0, whose machine the others reach as `host`."""
        self.store = open_store(host)
        return host, self.store.port

    def train(
        self, labelled: Labelled, number: int, start: Model | None, folder: str, meeting: Meeting | None = None
    ) -> Iterator[Step | Model]:
        """Train for round `number` from the weights of `start`, save into `folder`, and yield steps and the model.

        If the folder has the model of these labels and options, it is read instead. A training whose refitted loss is
        above `worst_loss` is repeated in another order; TrainingFailed after the last try. With several workers, each
        calls this with the meeting that rank 0 opened and yields the same; rank 0 alone reads and writes files.
        """
        spec, context = self.spec, nullcontext(ALONE)
        if meeting is not None:
            context = join_group(meeting if spec.rank else self.store, spec.rank, spec.training.workers, spec.device)
        with context as group:
            yield from self._train(labelled, number, start, storage_path(folder), group)
        give_back_memory(spec.device)

    def follow(self, labelled: Labelled, number: int, start: Model | None, folder: str, meeting: Meeting) -> None:
        """Run `train` to its end, for a rank above 0."""
        deque(self.train(labelled, number, start, folder, meeting), maxlen=0)

    def _train(
        self, labelled: Labelled, number: int, start: Model | None, folder: StoragePath, group: Group
    ) -> Iterator[Step | Model]:
        made_from = self._made_from(labelled, number, start)
        model = group.once(lambda: read_model(folder, made_from))
        if model is not None:
            yield model
            return
        pool = fetched_tokens(storage_path(self.spec.folder))
        pairs, tokens = _tokens(pool, np.concatenate([labelled.pairs, labelled.presumed]), self.spec.symmetric)
        labels = np.concatenate([labelled.labels, np.full(len(labelled.presumed), NO, dtype=np.uint8)])
        config, losses = self.spec.training, list[float]()
        for attempt in range(config.tries):
            encoder = load(start, self.spec.encoder, pool, self.spec.device)
            if self.spec.symmetric:
                encoder.use_left_prompt()
            seed = [self.spec.seed, attempt, number]
            checkpoint = Checkpoint(folder.parent / NAME, f"{made_from} {attempt}", self.spec.checkpoint_seconds)
            yield from self.watch(train(encoder, tokens, (pairs, labels), config, seed, checkpoint, group))
            if config.interpolation < 1:
                interpolate(encoder, load(start, self.spec.encoder, pool, self.spec.device), config.interpolation)
            fit = folder.parent / FIT
            scorer, good = group.once(partial(_refit, encoder, tokens, pairs[: len(labelled)], labelled, config, fit))
            if good:
                model = group.once(partial(write_model, encoder, scorer, folder, made_from))
                group.once(checkpoint.drop)
                yield model
                return
            losses.append(scorer.loss)
        raise TrainingFailed(
            f"round {number}: {config.tries} trainings on {len(labelled):,} pairs ({labelled.positives:,} positive): "
            f"refitted losses {', '.join(f'{loss:.3f}' for loss in losses)}, above `training.worst_loss` "
            f"{config.worst_loss}; label more pairs, or change `training.learning_rate` or `training.worst_loss`"
        )

    def _made_from(self, labelled: Labelled, number: int, start: Model | None) -> str:
        """Return the digest of everything that decides the weights."""
        options = [self.spec.encoder.digested(), self.spec.training.digested()]
        round_start = [self.spec.seed, number, start.digest if start and start.path else None]
        # As before there were presumed pairs.
        presumed = [labelled.presumed] if len(labelled.presumed) else []
        return input_digest([options, round_start], labelled.pairs, labelled.labels, *presumed)


def interpolate(encoder: TextEncoder, start: TextEncoder, share: float) -> None:
    """Set an encoder's weights to (1 - share) * those of `start` + share * its own (Wortsman et al. 2022, section 3).

    Weights that both have stay as they are, to the bit.
    """
    with torch.no_grad():
        for trained, before in zip(encoder.network.parameters(), start.network.parameters(), strict=True):
            trained.copy_(torch.lerp(before, trained, share))


def _tokens(pool: Path, pairs: Pairs, symmetric: bool) -> tuple[Pairs, tuple[Tokens, Tokens]]:
    """Return the token ids of the texts of (n, 2) pairs, by side, and the pairs as positions in these."""
    rows = [np.unique(pairs)] * 2 if symmetric else [np.unique(pairs[:, 0]), np.unique(pairs[:, 1])]
    left = StoredTokens(pool / "left").take(rows[0])
    right = left if symmetric else StoredTokens(pool / "right").take(rows[1])
    return as_pairs(*(np.searchsorted(rows[side], pairs[:, side]) for side in (0, 1))), (left, right)


def _refit(
    encoder: TextEncoder,
    tokens: tuple[Tokens, Tokens],
    pairs: Pairs,
    labelled: Labelled,
    config: TrainingConfig,
    path: StoragePath,
) -> tuple[Scorer, bool]:
    """Return what `fit_scorer` does, and write the cosines of the labelled pairs, which the next round compares.

    pairs: (n, 2) the labelled pairs as positions in the tokens of each side.
    """
    cosines = pair_cosines(encoder, *tokens, pairs)
    write_cosines(path, labelled.pairs, cosines)
    return fit_scorer(cosines, labelled.labels, config)
