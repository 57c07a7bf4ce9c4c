"""Train twice, and once more stopped and resumed from a checkpoint, embed twice, and compare every bit."""

import hashlib
import math
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from al_ray.core.config.encoder import Arithmetic
from al_ray.core.config.sections import TrainingConfig
from al_ray.encoders.encoder import embed_rows
from al_ray.encoders.hardware import settle_arithmetic, settle_training
from al_ray.encoders.transformer import Encoder
from al_ray.training.bi_encoder import train
from al_ray.training.checkpoint import NAME, Checkpoint
from benchmarks.gpu_parts.setup import BATCH, MINILM, TINY, Settings, random_labels, random_tokens

BACKENDS = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH", "CUDNN_ATTENTION")
LENGTHS = {"short texts": (4, 60), "long texts": (200, 500)}  # Tokens; on a CPU an eighth.
TEXTS = 256


@dataclass
class OneCheckpoint(Checkpoint):
    """A checkpoint that is written once, with step number `at`."""

    at: int = 0
    asked: int = 0

    def due(self) -> bool:
        """Return whether this is that step; called once in each."""
        self.asked += 1
        return self.asked == self.at


@dataclass(frozen=True)
class Case:
    """One way to train and embed: lengths of the texts, arithmetic, and the context of all that is computed."""

    settings: Settings
    lengths: tuple[int, int]
    arithmetic: Arithmetic = "auto"
    context: AbstractContextManager[Any] | None = None

    def digests(self) -> dict[str, Any]:
        """Return whether two trainings, a resumed one, and two embeddings are equal."""
        texts, part = self.settings.size((TEXTS, 1), (16, 8))
        lengths = (length // part + 3 for length in self.lengths)
        tokens = random_tokens(self.settings.size(MINILM, TINY), texts, *lengths)
        with warnings.catch_warnings(record=True) as caught, self.context or nullcontext():
            warnings.simplefilter("always")
            weights = [self.train(tokens)[0] for _ in range(2)]
            resumed, encoder = self.train(tokens, stop=True)
            vectors = [embed_rows(encoder, tokens, np.arange(len(tokens))) for _ in range(2)]
        embedded = [hashlib.sha256(each.tobytes()).hexdigest() for each in vectors]
        equal = {
            "trained twice": weights[0] == weights[1],
            "resumed": resumed == weights[0],
            "embedded twice": embedded[0] == embedded[1],
        }
        words = sorted({str(one.message).splitlines()[0][:120] for one in caught if "determin" in str(one.message)})
        return {**equal, "weights": weights[0][:16], "vectors": embedded[0][:16], "warnings": words}

    def train(self, tokens: Any, stop: bool = False) -> tuple[str, Encoder]:
        """Train; return the digest of the weights. stop: half way, resumed by another encoder."""
        steps = self.settings.size(30, 4)
        labelled, config = random_labels(len(tokens), steps), TrainingConfig(epochs=1, batch=BATCH)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = Checkpoint(Path(folder) / NAME, "same", math.inf)
            if stop:
                half = OneCheckpoint(checkpoint.path, "same", math.inf, at=steps // 2)
                list(islice(train(self.encoder(), (tokens, tokens), labelled, config, [0, 0, 0], half), steps // 2))
            encoder = self.encoder()
            losses = [step.loss for step in train(encoder, (tokens, tokens), labelled, config, [0, 0, 0], checkpoint)]
        # A resumed training does not know the losses of the steps before.
        if not np.isfinite(losses[steps // 2 :]).all() or np.isnan(losses[0]) != stop:
            raise RuntimeError(f"losses {losses}")
        return encoder.digest(), encoder

    def encoder(self) -> Encoder:
        """Make the encoder that a training starts from."""
        return self.settings.size(MINILM, TINY).load(self.settings, self.arithmetic)


def measure(settings: Settings, figures: dict[str, Any]) -> None:
    """Add a comparison for each way; RuntimeError if the way of runs is not deterministic."""
    settle_arithmetic()
    settle_training(settings.device)
    chosen = {
        f"as runs, {arithmetic}, {name}": Case(settings, lengths, arithmetic)
        for name, lengths in LENGTHS.items()
        for arithmetic in ("auto", "fp32")
    }
    others = {f"{name}, {backend}": Case(settings, lengths, context=only(backend)) for backend, name, lengths in ways()}
    others["long texts, deterministic algorithms required"] = Case(settings, LENGTHS["long texts"], context=required())
    for name, case in (chosen | others).items():
        try:
            figures[name] = case.digests()
        except RuntimeError as error:
            # A backend that cannot compute this, or an operation without a deterministic algorithm.
            if name in chosen:
                raise
            figures[name] = f"unsupported: {str(error).splitlines()[0][:200]}"
    unequal = [name for name in chosen if False in figures[name].values()]
    if unequal:
        raise RuntimeError(f"not the same each time: {'; '.join(unequal)}")


def ways() -> Iterator[tuple[str, str, tuple[int, int]]]:
    """Yield each backend with the name of some texts and their lengths."""
    for backend in BACKENDS:
        for name, lengths in LENGTHS.items():
            yield backend, name, lengths


@contextmanager
def only(backend: str) -> Iterator[None]:
    """Context in which attention has one backend."""
    with sdpa_kernel(SDPBackend.__members__[backend]):
        yield


@contextmanager
def required() -> Iterator[None]:
    """Context in which an operation without a deterministic algorithm is an error, where runs only warn."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
