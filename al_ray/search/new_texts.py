"""Encode texts that are no part of a pool, such as those on which its model was trained, by the encoder of a shard."""

from collections.abc import Sequence

import numpy as np

from al_ray.core.labels import Model
from al_ray.core.pairs import Rows
from al_ray.core.vectors import Vectors
from al_ray.encoders.encoder import embed_rows
from al_ray.encoders.prompts import Side
from al_ray.search.shard import PoolShard


def encode_texts(shard: PoolShard, model: Model, texts: Sequence[str], side: Side) -> tuple[Vectors, Rows]:
    """Return the unit vectors (n, d) of texts with the prompt of a side, and how many tokens (n,) each has."""
    encoder, rows = shard.encoder_of(model), np.arange(len(texts))
    tokens = encoder.tokenise(texts, side)
    return embed_rows(encoder, tokens, rows), tokens.lengths(rows)


def token_lengths(shard: PoolShard, model: Model, texts: Sequence[str], side: Side) -> Rows:
    """Return how many tokens (n,) each text has with the prompt of a side, at most the maximum length."""
    return shard.encoder_of(model).tokenise(texts, side).lengths(np.arange(len(texts)))
