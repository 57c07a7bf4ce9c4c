"""Rows encoded in fixed batches: each vector is at its row, whichever process encodes the batch."""

import numpy as np
import pytest

from al_ray.encoders.encoder import embed_batches, embed_rows, sorted_rows
from al_ray.encoders.tokens import Tokens, batches
from al_ray.encoders.transformer import Encoder


@pytest.fixture
def parts(letters, task) -> tuple[Encoder, Tokens, np.ndarray]:
    """An encoder, token ids, and rows whose order by length is another."""
    encoder = Encoder.base(letters)
    tokens = encoder.tokenise(task.left.texts)
    rows = np.arange(3, len(tokens), 2)
    assert (np.diff(tokens.lengths(rows)) < 0).any()
    return encoder, tokens, rows


@pytest.mark.parametrize("unit", [True, False])
def test_each_row_has_its_vector_of_its_fixed_batch(parts, unit):
    encoder, tokens, rows = parts
    vectors = embed_rows(encoder, tokens, rows, unit)
    assert len(batches(tokens, rows, encoder.config.encoder_batch)) > 1
    for batch in batches(tokens, rows, encoder.config.encoder_batch):
        alone = encoder.embed(tokens, batch) if unit else encoder.forward(tokens, batch).detach().numpy()
        for row, vector in zip(batch, alone, strict=True):
            assert (vectors[list(rows).index(row)] == vector).all()
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5) is unit


def test_shares_of_the_batches_have_the_same_bits_as_all(parts):
    encoder, tokens, rows = parts
    every, whole = batches(tokens, rows, encoder.config.encoder_batch), embed_rows(encoder, tokens, rows)
    for share in (every[0::2], every[1::2], []):
        own = sorted_rows(share)
        vectors = np.empty((len(own), encoder.dimension), dtype=np.float32)
        assert list(embed_batches(encoder, tokens, share, vectors)) == [len(batch) for batch in share]
        assert vectors.tolist() == whole[np.isin(rows, own)].tolist()


def test_work_between_two_batches_may_need_gradients(parts):
    encoder, tokens, rows = parts
    vectors = np.empty((len(rows), encoder.dimension), dtype=np.float32)
    for _ in embed_batches(encoder, tokens, batches(tokens, rows, encoder.config.encoder_batch), vectors, unit=False):
        encoder.forward(tokens, rows[:2]).sum().backward()
