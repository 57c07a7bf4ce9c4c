"""What pool and trainer need of an encoder, and which one a name means."""

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadFile
from al_ray.core.labels import Model
from al_ray.core.pairs import Rows
from al_ray.core.vectors import Vectors
from al_ray.encoders.cnn import Cnn, is_cnn
from al_ray.encoders.tokens import Tokens, batches
from al_ray.encoders.transformer import Encoder
from al_ray.encoders.vocabulary import WORDS, Vocabulary
from al_ray.storage.download import fetched
from al_ray.storage.uri import StoragePath, storage_path


class TextEncoder(Protocol):
    """Texts -> token ids -> vectors; model.encoder.Encoder and model.cnn.Cnn say what each does."""

    config: EncoderConfig
    device: str

    @property
    def network(self) -> torch.nn.Module:
        """What is trained."""
        ...

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        ...

    def tokenise(self, texts: Sequence[str], block: int = 4096) -> Iterator[list[list[int]]]:
        """Texts -> lists of token ids, at most max_length each, `block` texts at a time."""
        ...

    def forward(self, tokens: Tokens, rows: Rows) -> torch.Tensor:
        """(r,) rows -> their vectors (r, d), not of unit length; gradients flow if they are on."""
        ...

    def embed(self, tokens: Tokens, rows: Rows) -> Vectors:
        """(r,) rows, encoded as one batch -> unit vectors (r, d)."""
        ...

    def digest(self) -> str:
        """Of everything that decides a vector before it is rounded."""
        ...

    def save(self, folder: Path) -> None:
        """Write a folder that `saved` loads; it exists and is empty."""
        ...


def embed_batches(
    encoder: TextEncoder, tokens: Tokens, own: Sequence[Rows], vectors: Vectors, unit: bool = True
) -> Iterator[int]:
    """Encode batches of rows one by one, write their vectors into `vectors`, and yield each batch's number of rows.

    vectors: (n, d), one for each row of all these batches together, by ascending row. unit: whether to normalise them.
    """
    rows = sorted_rows(own)
    for batch in own:
        # Not around the loop: the caller's own work between two batches may need gradients.
        with torch.inference_mode():
            encoded = encoder.embed(tokens, batch) if unit else encoder.forward(tokens, batch).cpu().numpy()
        vectors[np.searchsorted(rows, batch)] = encoded
        yield len(batch)


def embed_rows(encoder: TextEncoder, tokens: Tokens, rows: Rows, unit: bool = True) -> Vectors:
    """(r,) sorted distinct rows -> their float32 vectors (r, d), encoded in the fixed batches of these rows."""
    vectors = np.empty((len(rows), encoder.dimension), dtype=np.float32)
    deque(embed_batches(encoder, tokens, batches(tokens, rows, encoder.config.encoder_batch), vectors, unit), maxlen=0)
    return vectors


def sorted_rows(own: Sequence[Rows]) -> Rows:
    """Return the rows of all batches, sorted."""
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *own]))


def learn_words(texts: Sequence[str], config: EncoderConfig, pool: Path, most: int = WORDS) -> None:
    """Write what an encoder must know of a task's texts into the pool folder; nothing for one that comes with it all.

    texts: those of the train split: what is not trained on has no words of its own. most: how many words, at most.
    """
    if is_cnn(config.encoder):
        Vocabulary.of(texts, most).write(pool)


def untrained(config: EncoderConfig, pool: StoragePath, device: str = "cpu", seed: int = 0) -> TextEncoder:
    """The encoder by name, as every round starts from it; BadOption or BadFile when there is none.

    seed: of random weights; pre-trained ones are what they are.
    """
    if is_cnn(config.encoder):
        return Cnn.base(config, Vocabulary.read(fetched(pool)), device, seed)
    return Encoder.base(config, device)


def saved(folder: str, config: EncoderConfig, device: str = "cpu") -> TextEncoder:
    """An encoder that its `save` wrote, from a path or a URI."""
    if is_cnn(config.encoder):
        return Cnn.saved(fetched(storage_path(folder)), config, device)
    return Encoder.saved(folder, config, device)


def load(model: Model | None, config: EncoderConfig, pool: StoragePath, device: str) -> TextEncoder:
    """The encoder of a model: the untrained one when it has no path. BadFile when its weights are not those named."""
    if model is None:
        return untrained(config, pool, device)
    encoder = saved(model.path, config, device) if model.path else untrained(config, pool, device)
    if encoder.digest() != model.digest:
        raise BadFile(f"weights in {model.path or config.encoder} are not those the run made; restore the folder")
    return encoder
