"""Chunks of a corpus: what is tokenised, embedded and stored as one.

Their sizes depend on the corpus and the encoder's batches, and not on the number of shards: what one run has stored
serves another.
"""

from math import ceil

import numpy as np

from al_ray.core.pairs import Rows

LEAST_TEXTS, MOST_TEXTS = 2**11, 2**18  # Texts in a chunk of token ids.
TOKEN_CHUNKS = 64  # Number of chunks per side, within these bounds.
VECTOR_CHUNKS = 1024  # This number divides evenly among any usual number of shards.
MOST_VECTORS = 2**16  # Texts in a chunk of vectors.


def texts_in_chunk(texts: int) -> int:
    """Return the texts in each chunk of token ids, except for the last."""
    return min(max(ceil(texts / TOKEN_CHUNKS), LEAST_TEXTS), MOST_TEXTS)


def vector_chunks(texts: int, batch: int) -> int:
    """Return the number of chunks of vectors of a part: chunk c has the encoder's batches c, c + chunks..."""
    return max(min(ceil(texts / batch), VECTOR_CHUNKS), ceil(texts / MOST_VECTORS))


def batches_of(order: Rows, batch: int, chunk: int) -> list[Rows]:
    """Return the batches of a chunk of vectors. order: (n,) rows of the part in the order of their batches."""
    starts = range(0, len(order), batch)[chunk :: vector_chunks(len(order), batch)]
    return [np.array(order[start : start + batch]) for start in starts]
