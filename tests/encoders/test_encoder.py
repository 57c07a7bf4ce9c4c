"""Rows encoded in fixed batches: each vector is at its row, whichever process encodes the batch."""

from dataclasses import replace

import numpy as np
import pytest

from al_ray.encoders.encoder import embed_batches, embed_rows, grouped, sorted_rows
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


@pytest.mark.parametrize("unit", [True, False])
def test_on_a_gpu_batches_are_encoded_together_and_all_are_counted(parts, unit, monkeypatch):
    encoder, tokens, rows = parts
    own, cpu = batches(tokens, rows, encoder.config.encoder_batch), embed_rows(encoder, tokens, rows, unit)
    calls = list[int]()
    gpu = Encoder(encoder.transformer, encoder.tokenizer, replace(encoder.config, arithmetic="fp32"), "cpu:0")
    forward = gpu.forward
    monkeypatch.setattr(gpu, "forward", lambda tokens, rows: (calls.append(len(rows)), forward(tokens, rows))[1])
    found = np.empty_like(cpu)
    assert list(embed_batches(gpu, tokens, own, found, unit, together=True)) == [len(batch) for batch in own]
    assert calls == [len(rows)]
    np.testing.assert_allclose(found, cpu, atol=1e-5)
    # Alone, each batch has its own bits there too.
    assert list(embed_batches(gpu, tokens, own, found, unit)) == [len(batch) for batch in own]
    assert calls[1:] == [len(batch) for batch in own]
    assert found.tolist() == cpu.tolist()


def test_batches_together_stay_within_the_budget():
    tokens = Tokens.of([[1] * length for length in (2, 2, 3, 3, 9, 1)])
    own = [np.array([0, 1]), np.array([2, 3]), np.array([4]), np.array([5])]

    def sizes(budget: int) -> list[int]:
        return [sum(map(len, group)) for group in grouped(tokens, own, budget)]

    # 4 texts of 3 tokens are 12; with the text of 9 they would be 45, and two texts of 9 are 18.
    assert sizes(11) == [2, 2, 1, 1]
    assert sizes(12) == [4, 1, 1]
    assert sizes(18) == [4, 2]
    assert sizes(0) == [2, 2, 1, 1]
    assert list(grouped(tokens, [], 5)) == []


def test_work_between_two_batches_may_need_gradients(parts):
    encoder, tokens, rows = parts
    vectors = np.empty((len(rows), encoder.dimension), dtype=np.float32)
    for _ in embed_batches(encoder, tokens, batches(tokens, rows, encoder.config.encoder_batch), vectors, unit=False):
        encoder.forward(tokens, rows[:2]).sum().backward()
