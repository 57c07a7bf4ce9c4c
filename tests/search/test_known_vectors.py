"""Vectors of known texts are found again by their token ids, whatever the files into which they were divided."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import SearchConfig
from al_ray.core.labels import Model
from al_ray.encoders.encoder import embed_batches
from al_ray.encoders.tokens import Tokens, store_array
from al_ray.encoders.transformer import Encoder
from al_ray.search import known_vectors
from al_ray.search.known_vectors import KnownVectors, digests_of, embed_unknown
from al_ray.search.shard_spec import ShardSpec

FLOATS = np.dtype(np.float32)
TEXTS = st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=1, max_size=12)


def vectors_of(texts, shift=0.0) -> np.ndarray:
    """A vector that says which text it is of."""
    return np.array([[len(text), sum(text) + shift, *[*text, 0, 0][:3]] for text in texts], dtype=np.float32)


def opened(folder) -> KnownVectors:
    known = KnownVectors(folder, FLOATS)
    known.refresh()
    return known


def test_digests_are_of_the_ids_alone():
    one, other = digests_of(Tokens.of([[1, 2], [3]])), digests_of(Tokens.of([[3], [1], [1, 2], [258]]))
    assert one.tolist() == other[[2, 0]].tolist()
    assert len({tuple(row) for row in other.tolist()}) == 4


@given(st.data())
def test_known_texts_have_their_vectors_and_others_none(tmp_path_factory, data):
    folder, stored = tmp_path_factory.mktemp("known"), []
    for number, texts in enumerate(data.draw(st.lists(TEXTS, min_size=0, max_size=3))):
        opened(folder).add(str(number), Tokens.of(texts), vectors_of(texts))
        stored += texts
    texts = data.draw(TEXTS)
    known, taken = opened(folder).take(Tokens.of(texts))
    assert known.tolist() == [text in stored for text in texts]
    there = [text for text in texts if text in stored]
    assert taken.tolist() == (vectors_of(there).tolist() if there else [])


@given(TEXTS, st.integers(1, 3), st.randoms())
def test_of_a_text_with_two_vectors_one_is_taken_however_texts_are_divided(tmp_path_factory, texts, parts, random):
    copies = [(text, shift) for text in texts for shift in (0.0, 0.5, 0.25)]
    found = []
    for count in (1, parts):
        random.shuffle(copies)
        folder = tmp_path_factory.mktemp("known")
        # Shards that work at the same time do not see what the others add.
        shards = [KnownVectors(folder, FLOATS) for _ in range(count)]
        for number, shard in enumerate(shards):
            own = copies[number::count]
            if own:
                rows = np.concatenate([vectors_of([text], shift) for text, shift in own])
                shard.add(str(number), Tokens.of([text for text, _ in own]), rows)
        known, taken = opened(folder).take(Tokens.of(texts))
        assert known.all()
        found.append(taken.tolist())
    assert found[0] == found[1]


def test_a_damaged_file_is_not_used(tmp_path, caplog):
    texts = [[1], [2, 2]]
    opened(tmp_path).add("one", Tokens.of(texts), vectors_of(texts))
    (path,) = tmp_path.glob("one-*.vectors.npy")
    path.write_bytes(path.read_bytes()[:-7])
    assert not opened(tmp_path).take(Tokens.of(texts))[0].any()
    assert "its texts are encoded again" in caplog.text
    assert not opened(tmp_path / "none").take(Tokens.of(texts))[0].any()


def test_other_texts_under_the_same_name_replace_none_and_a_writer_that_is_killed_changes_none(tmp_path, monkeypatch):
    first, second = [[10], [20], [30]], [[40], [50], [60]]
    opened(tmp_path).add("left-0-of-1", Tokens.of(first), vectors_of(first))
    stored = []

    def killed(path, array):
        stored.append(path)
        if len(stored) == 2:
            raise KeyboardInterrupt
        store_array(path, array)

    writer = opened(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(known_vectors, "store_array", killed)
        with pytest.raises(KeyboardInterrupt):
            writer.add("left-0-of-1", Tokens.of(second), vectors_of(second))
    known, taken = opened(tmp_path).take(Tokens.of(first + second))
    assert known.tolist() == [True] * 3 + [False] * 3
    assert taken.tolist() == vectors_of(first).tolist()
    opened(tmp_path).add("left-0-of-1", Tokens.of(second), vectors_of(second))
    known, taken = opened(tmp_path).take(Tokens.of(first + second))
    assert taken.tolist() == vectors_of(first + second).tolist()


def test_vectors_of_another_precision_are_not_used(tmp_path):
    opened(tmp_path).add("one", Tokens.of([[1]]), np.ones((1, 2), dtype=np.float16))
    assert not opened(tmp_path).take(Tokens.of([[1]]))[0].any()


@pytest.mark.parametrize("known_texts", [0, 3, 10])
def test_only_unknown_texts_are_encoded_and_every_batch_is_counted(tmp_path, letters, known_texts):
    encoder = Encoder.base(letters)
    tokens = Tokens.of([[2, 5 + row % 7, 3] for row in range(10)])
    batches = [np.array([9, 1, 0, 4]), np.array([2, 3, 8, 5]), np.array([7, 6])]
    whole = np.empty((10, encoder.dimension), dtype=np.float32)
    assert list(embed_batches(encoder, tokens, batches, whole)) == [4, 4, 2]
    # What is known is wrong on purpose, so that it can be told from what is encoded.
    rows = np.arange(10)[:known_texts]
    opened(tmp_path).add("one", tokens.beside(rows, tokens, rows[:0]), -whole[rows])
    known, vectors = opened(tmp_path), np.empty_like(whole)
    assert list(embed_unknown(known, encoder, tokens, batches, vectors)) == [4, 4, 2]
    # Texts 0 and 7 are the same, and so are 1 and 8, 2 and 9.
    expected = np.array([row % 7 < known_texts or row < known_texts for row in range(10)])
    np.testing.assert_allclose(vectors, np.where(expected[:, None], -whole, whole), atol=1e-6)


def test_the_folder_names_the_model_and_the_precision():
    spec = ShardSpec("pool", EncoderConfig("random-bert", 1, 24, 8, 1), SearchConfig(), 0, 1, known="there")
    names = {str(spec.known_folder(Model("", digest * 32))) for digest in "ab"}
    assert names == {"there/" + "a" * 16 + "-fp32", "there/" + "b" * 16 + "-fp32"}
