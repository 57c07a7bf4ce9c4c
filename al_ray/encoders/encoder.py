"""The interface of a text encoder, loading one by name, and encoding rows of texts in fixed batches."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from al_ray.core.config.encoder import EncoderConfig, family_name, family_of
from al_ray.core.errors import BadOption
from al_ray.core.labels import Model
from al_ray.core.pairs import Rows
from al_ray.core.vectors import Vectors, round_to_halves
from al_ray.encoders.cnn import Cnn
from al_ray.encoders.frozen_layers import FrozenLayers
from al_ray.encoders.prompts import Side
from al_ray.encoders.tokens import Tokens, batches
from al_ray.encoders.transformer import Encoder, check_weights_digest
from al_ray.encoders.vocabulary import WORDS, Vocabulary
from al_ray.storage.uri import StoragePath

BUDGET = 2**15  # Tokens that a GPU encodes at once: with fewer it waits for the host to start its kernels.


class TextEncoder(Protocol):
    """Texts -> token ids -> vectors; implemented by encoders.transformer.Encoder and encoders.cnn.Cnn."""

    config: EncoderConfig
    device: str

    @property
    def network(self) -> torch.nn.Module:
        """Return the module that is trained."""
        ...

    @property
    def dimension(self) -> int:
        """Return the dimension of a vector."""
        ...

    @property
    def description(self) -> str:
        """Return a phrase for people about how vectors are made: pooling, layers and prompts."""
        ...

    @property
    def sided(self) -> bool:
        """Whether left and right texts have different prompts."""
        ...

    @property
    def unknown(self) -> int | None:
        """Return the token id of unknown tokens; None if the encoder has none."""
        ...

    @property
    def special(self) -> frozenset[int]:
        """Return the token ids that stand for no part of a text."""
        ...

    def use_left_prompt(self) -> None:
        """Use the prompt of left texts for both sides, as in a symmetric task, whose texts are on both."""
        ...

    def freeze(self, layers: FrozenLayers) -> int:
        """Exclude the embeddings and the lowest layers from training; return how many. BadOption if there are fewer.

        half: half of the layers, rounded down; nothing if that is 0, or if the encoder has no layers.
        """
        ...

    def tokenise(self, texts: Sequence[str], side: Side = "left") -> Tokens:
        """Return the token ids of texts with the prompt of their side, at most max_length each."""
        ...

    def forward(self, tokens: Tokens, rows: Rows) -> torch.Tensor:
        """(r,) rows -> vectors (r, d), not of unit length; with gradients if they are enabled."""
        ...

    def embed(self, tokens: Tokens, rows: Rows) -> Vectors:
        """Encode (r,) rows as one batch: unit vectors (r, d)."""
        ...

    def digest(self) -> str:
        """Return the digest of everything that decides a vector before rounding."""
        ...

    def save(self, folder: Path) -> None:
        """Write the model into an existing, empty folder, from which `saved` loads it."""
        ...


class EncoderLoader(Protocol):
    """Loads the encoders of a family, and validates options without loading one: the class of the encoders has these.

    All raise BadOption for options that its encoders do not have.
    """

    def untrained(self, config: EncoderConfig, pool: StoragePath, device: str = ..., seed: int = ...) -> TextEncoder:
        """Load the untrained encoder. pool: the folder of the vocabulary; seed: of random weights."""
        ...

    def saved(self, folder: str, config: EncoderConfig, device: str = ...) -> TextEncoder:
        """Load an encoder that `save` wrote, from a path or a URI; BadFile if it cannot be loaded."""
        ...

    def check_prompts(self, config: EncoderConfig) -> None:
        """Raise BadOption for options of prompts, at least one of which is given, that the encoder cannot use."""
        ...

    def with_left_prompt(self, config: EncoderConfig) -> EncoderConfig:
        """Return options by which right texts have the prompt of left ones."""
        ...

    def check_frozen_layers(self, config: EncoderConfig, layers: int) -> None:
        """Raise BadOption for more frozen layers, at least one, than the encoder has, if that is known here."""
        ...


LOADERS: Mapping[str, EncoderLoader] = {"cnn": Cnn, "transformer": Encoder}
"""How the encoders of each family are loaded, by the names of FAMILIES."""


def embed_batches(
    encoder: TextEncoder,
    tokens: Tokens,
    own: Sequence[Rows],
    vectors: Vectors,
    unit: bool = True,
    together: bool = False,
) -> Iterator[int]:
    """Encode batches of rows one by one, write the vectors into `vectors`, and yield the number of rows of each batch.

    vectors: (n, d), one for each row of all these batches, by ascending row. unit: whether to normalise them.
    together: on a GPU several consecutive batches are encoded at once. The last bits then depend on which batches are
    given, and not on each batch alone.
    """
    rows = sorted_rows(own)
    ahead = deque[tuple[list[Rows], torch.Tensor]]()
    on_gpu = encoder.device != "cpu"
    for group in grouped(tokens, own, BUDGET if on_gpu and together else 0):
        # Not around the loop: the caller may need gradients between two batches.
        with torch.inference_mode():
            encoded = encoder.forward(tokens, np.concatenate(group))
            ahead.append((group, torch.nn.functional.normalize(encoded) if unit else encoded))
        # A GPU has begun the next batches when the host waits for these.
        if len(ahead) > on_gpu:
            yield from _read(ahead.popleft(), rows, vectors)
    for encoded in ahead:
        yield from _read(encoded, rows, vectors)


def _read(encoded: tuple[list[Rows], torch.Tensor], rows: Rows, vectors: Vectors) -> Iterator[int]:
    """Write the vectors of some batches into those of all rows, and yield the number of rows of each batch."""
    group, values = encoded
    found = values.cpu().numpy()
    # Only unit vectors are stored in 16 bits.
    found = found if vectors.dtype != np.float16 else round_to_halves(found)
    vectors[np.searchsorted(rows, np.concatenate(group))] = found
    yield from map(len, group)


def grouped(tokens: Tokens, own: Sequence[Rows], budget: int) -> Iterator[list[Rows]]:
    """Yield batches together whose texts have at most `budget` tokens when padded; a batch of more is alone."""
    group, count, longest = list[Rows](), 0, 0
    for batch in own:
        count, longest = count + len(batch), max(longest, int(tokens.lengths(batch).max(initial=0)))
        if group and count * longest > budget:
            yield group
            group, count, longest = [], len(batch), int(tokens.lengths(batch).max(initial=0))
        group.append(batch)
    if group:
        yield group


def embed_rows(encoder: TextEncoder, tokens: Tokens, rows: Rows, unit: bool = True) -> Vectors:
    """Encode (r,) sorted distinct rows in their fixed batches: float32 vectors (r, d)."""
    vectors = np.empty((len(rows), encoder.dimension), dtype=np.float32)
    own = batches(tokens, rows, encoder.config.encoder_batch)
    deque(embed_batches(encoder, tokens, own, vectors, unit, together=True), maxlen=0)
    return vectors


def sorted_rows(own: Sequence[Rows]) -> Rows:
    """Return the rows of all batches, sorted."""
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *own]))


def learn_words(texts: Sequence[str], config: EncoderConfig, pool: StoragePath, most: int = WORDS) -> None:
    """Write the vocabulary of an encoder that learns its words into the pool folder; others bring their own.

    texts: of the train split, because only trained words get an embedding of their own. most: maximum number of words.
    """
    if family_of(config.encoder).learns_words:
        Vocabulary.of(texts, most).write(pool)


def untrained(config: EncoderConfig, pool: StoragePath, device: str = "cpu", seed: int = 0) -> TextEncoder:
    """Load the untrained encoder, from which every round starts; BadOption or BadFile if it cannot be loaded.

    seed: of random weights; most encoders are pre-trained.
    """
    return LOADERS[family_name(config.encoder)].untrained(config, pool, device, seed)


def check_prompts(config: EncoderConfig, symmetric: bool) -> None:
    """Raise BadOption for --prompt-left or --prompt-right that the encoder, or a symmetric task, cannot use."""
    if symmetric and config.prompt_right is not None:
        raise BadOption(
            "a symmetric task has no right texts; give `RunConfig.prompt_left` without `RunConfig.prompt_right`"
        )
    if config.prompts:
        LOADERS[family_name(config.encoder)].check_prompts(config)


def with_left_prompt(config: EncoderConfig) -> EncoderConfig:
    """Return options by which right texts have the prompt of left ones, as the texts of a symmetric task have."""
    return LOADERS[family_name(config.encoder)].with_left_prompt(config)


def check_frozen_layers(config: EncoderConfig, layers: FrozenLayers) -> None:
    """Raise BadOption for more --training.frozen-layers than the encoder has, if its config can be read here."""
    if layers and layers != "half":
        LOADERS[family_name(config.encoder)].check_frozen_layers(config, layers)


def saved(folder: str, config: EncoderConfig, device: str = "cpu") -> TextEncoder:
    """Load an encoder that `save` wrote, from a path or a URI."""
    return LOADERS[family_name(config.encoder)].saved(folder, config, device)


def load(model: Model | None, config: EncoderConfig, pool: StoragePath, device: str) -> TextEncoder:
    """Load the encoder of a model, or the untrained one if there is no path; BadFile if its digest is another."""
    encoder = saved(model.path, config, device) if model and model.path else untrained(config, pool, device)
    if model is not None:
        check_weights_digest(model, encoder.digest(), config.encoder)
    return encoder
