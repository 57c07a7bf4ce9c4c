"""The encoder `vectors-384`: it looks up vectors that were stored with the texts, and reads no text.

Its token ids are the bits of a vector: text i has d of them, the d float32 numbers of its vector as int32. So the files
of a pool, shards and caches hold its vectors as they hold the token ids of other encoders, and equal ids are equal
vectors.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch

from al_ray.core.config.encoder import GIVEN, MOST_NUMBERS, EncoderConfig
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.pairs import Rows
from al_ray.core.vectors import Vectors
from al_ray.encoders.frozen_layers import FrozenLayers
from al_ray.encoders.prompts import Side
from al_ray.encoders.tokens import Tokens
from al_ray.encoders.transformer import digest_of
from al_ray.storage.uri import StoragePath


def as_tokens(vectors: Vectors) -> Tokens:
    """(n, d) unit vectors in float32 -> their bits as the token ids of n texts."""
    count, dimension = vectors.shape
    bits = np.ascontiguousarray(vectors, dtype=np.float32).view(np.int32).reshape(-1)
    return Tokens(bits, np.arange(count + 1, dtype=np.int64) * dimension)


class GivenVectors:
    """Vectors of `dimension` numbers that lie beside the texts, with the methods of TextEncoder."""

    def __init__(self, config: EncoderConfig, device: str = "cpu") -> None:
        """BadOption for an invalid name, or for options that it does not have."""
        self.check_prompts(config)
        if config.encoder_layers is not None:
            raise BadOption(f"{option('encoder_layers', config.encoder_layers)}: {_has_none(config, 'layers')}")
        self.dimension, self.config, self.device = dimension_of(config.encoder), config, device
        self.network: torch.nn.Module = torch.nn.Identity()

    @staticmethod
    def untrained(config: EncoderConfig, pool: StoragePath, device: str = "cpu", seed: int = 0) -> "GivenVectors":
        """Make the encoder; it has no weights."""
        return GivenVectors(config, device)

    @staticmethod
    def saved(folder: str, config: EncoderConfig, device: str = "cpu") -> "GivenVectors":
        """Make the encoder; a folder has no file of it."""
        return GivenVectors(config, device)

    @staticmethod
    def check_prompts(config: EncoderConfig) -> None:
        """Raise BadOption for options of prompts, which this encoder does not have."""
        if config.prompt_left or config.prompt_right:
            raise BadOption(f"{_has_none(config, 'prompts')}; leave `prompt_left` and `prompt_right` out")

    @staticmethod
    def with_left_prompt(config: EncoderConfig) -> EncoderConfig:
        """Return the options as they are, as this encoder has no prompts."""
        return config

    @staticmethod
    def check_frozen_layers(config: EncoderConfig, layers: int) -> None:
        """Raise BadOption for frozen layers, which this encoder does not have."""
        raise BadOption(f"{option('training.frozen_layers', layers)}: {_has_none(config, 'layers')}; leave it out")

    @property
    def description(self) -> str:
        """Return a phrase for people about how vectors are made."""
        return f"vectors of {self.dimension} numbers that are stored with the texts, no prompt"

    @property
    def sided(self) -> bool:
        """Whether left and right texts have different prompts: this encoder has none."""
        return False

    def use_left_prompt(self) -> None:
        """Do nothing, as this encoder has no prompts."""

    @property
    def unknown(self) -> int | None:
        """Return None: there are no words."""
        return None

    @property
    def special(self) -> frozenset[int]:
        """Return no token ids: every one is a number of a vector."""
        return frozenset()

    def freeze(self, layers: FrozenLayers) -> int:
        """Raise BadOption: vectors that are given cannot be trained."""
        raise BadOption(f"encoder {self.config.encoder} cannot be trained; give `matcher='on'`")

    def tokenise(self, texts: Sequence[str], side: Side = "left") -> Tokens:
        """Raise BadOption: a text has no vector here; `as_tokens` makes token ids of vectors."""
        self._refuse_texts()

    def _refuse_texts(self) -> NoReturn:
        raise BadOption(
            f"encoder {self.config.encoder} reads no texts, only vectors that come with them; match tables that have "
            "the column of vectors (`al_ray.match`), give vectors beside the records (al_ray.load_matcher), or use a "
            "model with another encoder"
        )

    def forward(self, tokens: Tokens, rows: Rows) -> torch.Tensor:
        """(r,) rows -> their vectors (r, d) in float32, as they are stored."""
        starts = tokens.starts[rows]
        ids = tokens.ids[starts[:, None] + np.arange(self.dimension)]
        return torch.from_numpy(np.ascontiguousarray(ids).view(np.float32)).to(self.device)

    def embed(self, tokens: Tokens, rows: Rows) -> Vectors:
        """Return the unit vectors (r, d) of (r,) rows, to the bit as they are stored."""
        return self.forward(tokens, rows).cpu().numpy()

    def digest(self) -> str:
        """Return the digest of the options. That of a task has its vectors."""
        return digest_of([self.config.digest_text], self.network)

    def save(self, folder: Path) -> None:
        """Write nothing: it has no weights."""


def dimension_of(name: str) -> int:
    """Return how many numbers the vectors of an encoder's name have; BadOption for none or too many."""
    match = GIVEN.fullmatch(name)
    assert match is not None, name
    dimension = int(match[1])
    if not 1 <= dimension <= MOST_NUMBERS:
        raise BadOption(
            f"{option('encoder', name)}: give vectors of 1 to {MOST_NUMBERS:,} numbers, such as vectors-384"
        )
    return dimension


def _has_none(config: EncoderConfig, what: str) -> str:
    return f"encoder {config.encoder} has no {what}"
