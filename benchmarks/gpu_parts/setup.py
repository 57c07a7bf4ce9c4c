"""What all parts share: the device, sizes, timing, encoders of known shapes with random weights, and random tokens."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from transformers import AutoConfig, AutoModel

from al_ray.core.config.encoder import Arithmetic, EncoderConfig
from al_ray.core.pairs import Pairs
from al_ray.core.rng import generator
from al_ray.core.scorer import Labels
from al_ray.encoders.random_bert import letters_tokenizer
from al_ray.encoders.tokens import Tokens
from al_ray.encoders.transformer import Encoder

T = TypeVar("T")
BATCH = 16  # Pairs of a training step, as the default of runs.


class Skipped(Exception):
    """A part, or a check, that cannot run here."""


@dataclass(frozen=True)
class Settings:
    """The device that is measured, and the CPU threads of torch."""

    device: str
    threads: int

    @property
    def cuda(self) -> bool:
        """Whether the device is a GPU."""
        return torch.device(self.device).type == "cuda"

    def size(self, usual: T, tiny: T) -> T:
        """Return a size of the measurement: the tiny one on a CPU."""
        return usual if self.cuda else tiny

    def synchronise(self) -> None:
        """Wait until a GPU has done everything."""
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def seconds(self, work: Callable[[], object], repeats: int = 5) -> float:
        """Return the median seconds of several calls, after one that warms up."""
        times: list[float] = []
        for _ in range(self.size(repeats, 1) + 1):
            self.synchronise()
            started = time.perf_counter()
            work()
            self.synchronise()
            times.append(time.perf_counter() - started)
        return statistics.median(times[1:])


@dataclass(frozen=True)
class Shape:
    """A BERT: number of layers, width, number of attention heads, and number of tokens it knows."""

    name: str
    layers: int
    hidden: int
    heads: int
    vocabulary: int = 30522

    def operations(self, length: int) -> float:
        """Return the floating-point operations of a forward pass of one text of so many tokens."""
        return self.layers * (24.0 * self.hidden**2 * length + 4.0 * self.hidden * length**2)

    def load(self, settings: Settings, arithmetic: Arithmetic = "auto", length: int = 512) -> Encoder:
        """Make an encoder with random weights, the same ones each time."""
        config = AutoConfig.for_model(
            "bert", vocab_size=self.vocabulary, hidden_size=self.hidden, num_hidden_layers=self.layers,
            num_attention_heads=self.heads, intermediate_size=4 * self.hidden,
        )  # fmt: skip
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            transformer = AutoModel.from_config(config)
        options = EncoderConfig(self.name, None, length, threads=settings.threads, arithmetic=arithmetic)
        return Encoder(transformer, letters_tokenizer(), options, settings.device)


MINILM = Shape("minilm-l6", 6, 384, 12)
BERT_BASE = Shape("bert-base", 12, 768, 12)
TINY = Shape("tiny", 1, 32, 2, 1000)


def shapes(settings: Settings) -> tuple[Shape, ...]:
    """Return the shapes that are measured."""
    return settings.size((MINILM, BERT_BASE), (TINY,))


def random_tokens(shape: Shape, count: int, least: int, most: int) -> Tokens:
    """Draw texts of `least` to `most` tokens."""
    rng = generator(0, "gpu-tokens")
    starts = np.concatenate([[0], np.cumsum(rng.integers(least, most + 1, size=count))])
    return Tokens(rng.integers(4, shape.vocabulary, size=int(starts[-1])).astype(np.int32), starts)


def random_labels(texts: int, steps: int) -> tuple[Pairs, Labels]:
    """Draw the pairs of so many training steps, every second one a match."""
    pairs = generator(0, "gpu-pairs").integers(texts, size=(BATCH * steps, 2))
    return pairs, np.tile(np.array([0, 1], dtype=np.uint8), len(pairs) // 2)


def product_rate(settings: Settings, dtype: torch.dtype) -> float:
    """Return the floating-point operations per second of a large square matrix product."""
    side = settings.size(8192, 64)
    left, right = (torch.randn(side, side, device=settings.device).to(dtype) for _ in range(2))
    return 2.0 * side**3 / settings.seconds(lambda: [left @ right for _ in range(5)]) * 5
