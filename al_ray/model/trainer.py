"""The trainer: labelled pairs -> a saved model with its scorer. A plain class; cluster/ makes it an actor."""

import hashlib
import json
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from al_ray.core.config import EncoderConfig, TrainingConfig
from al_ray.core.errors import BadFile, TrainingFailed, Written
from al_ray.core.records import Labelled, Model
from al_ray.core.scoring import Scorer
from al_ray.model.checkpoint import NAME, Checkpoint
from al_ray.model.encoders import TextEncoder, load
from al_ray.model.group import ALONE, Group, Meeting, joined, opened
from al_ray.model.tokens import Tokens
from al_ray.model.training import Step, fit, pair_cosines, train
from al_ray.storage.near import fetched
from al_ray.storage.places import Place, Uri, place, put_folder

SCORER = "scorer.json"


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
            yield from self._train(labelled, number, start, place(folder), ALONE)
            return
        with joined(
            meeting if self.spec.rank else self.store, self.spec.rank, self.spec.training.workers, self.spec.device
        ) as group:
            yield from self._train(labelled, number, start, place(folder), group)

    def follow(self, labelled: Labelled, number: int, start: Model | None, folder: str, meeting: Meeting) -> None:
        """`train` of a rank above 0, to its end."""
        deque(self.train(labelled, number, start, folder, meeting), maxlen=0)

    def _train(
        self, labelled: Labelled, number: int, start: Model | None, folder: Place, group: Group
    ) -> Iterator[Step | Model]:
        made_from = self._made_from(labelled, number, start)
        done = group.once(lambda: read_model(folder, made_from))
        if done is not None:
            yield done
            return
        near = fetched(place(self.spec.folder))
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
        content = hashlib.sha256(json.dumps([self.spec.encoder.digested(), self.spec.training.digested()]).encode())
        content.update(json.dumps([self.spec.seed, number, start and start.digest]).encode())
        content.update(np.ascontiguousarray(labelled.pairs).data)
        content.update(np.ascontiguousarray(labelled.labels).data)
        return content.hexdigest()


def _refitted(
    encoder: TextEncoder, tokens: tuple[Tokens, Tokens], labelled: Labelled, config: TrainingConfig
) -> tuple[Scorer, bool]:
    return fit(pair_cosines(encoder, *tokens, labelled.pairs), labelled.labels, config)


class Kept(Protocol):
    """What is saved as a model: an encoder or a cross-encoder."""

    def digest(self) -> str:
        """Of everything that decides what it computes."""
        ...

    def save(self, folder: Path) -> None:
        """Into a folder that exists and is empty."""
        ...


def write_model(encoder: Kept, scorer: Scorer, folder: Place, made_from: str) -> Model:
    """Save weights and scorer beside the folder and rename, or put them, scorer last: what stands there is whole."""
    model = Model(str(folder), encoder.digest(), scorer)
    content = {
        **asdict(scorer),
        "boundary": scorer.boundary if scorer.weight else None,
        "digest": model.digest,
        "made_from": made_from,
    }
    if isinstance(folder, Uri):
        with Written(folder), tempfile.TemporaryDirectory(prefix="al_ray-") as local:
            encoder.save(Path(local))
            (Path(local) / SCORER).write_text(json.dumps(content, indent=2) + "\n")
            put_folder(Path(local), folder, SCORER)
        return model
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        with Written(folder):
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            encoder.save(aside)
            (aside / SCORER).write_text(json.dumps(content, indent=2) + "\n")
            if folder.exists():
                shutil.rmtree(folder)
            aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return model


def read_model(folder: Place, made_from: str | None = None) -> Model | None:
    """The model that `write_model` saved; None when there is none, or it was made from something else."""
    if not (folder / SCORER).exists():
        return None
    try:
        content = json.loads((folder / SCORER).read_text(encoding="utf-8"))
        weight, bias, loss = (float(content[name]) for name in ("weight", "bias", "loss"))
        scorer = Scorer(weight, bias, loss, str(content["outcome"]))
        model, source = Model(str(folder), str(content["digest"]), scorer), content["made_from"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadFile(f"{folder / SCORER} cannot be read ({error!r}); restore it, or move {folder} away") from error
    return model if made_from is None or source == made_from else None
