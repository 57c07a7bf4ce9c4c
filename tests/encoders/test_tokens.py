"""Token ids in flat arrays, padded blocks of them, and the fixed batches."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.errors import BadFile
from al_ray.encoders.tokens import StoredTokens, Tokens, batches

TEXTS = st.lists(st.lists(st.integers(1, 30_000), min_size=1, max_size=9), min_size=1, max_size=30)


def test_rows_are_padded_to_the_longest_by_hand():
    tokens = Tokens.of([[7], [1, 2, 3], [4, 5]])
    ids, mask = tokens.padded(np.array([2, 1]), pad=9)
    assert ids.tolist() == [[4, 5, 9], [1, 2, 3]]
    assert mask.tolist() == [[True, True, False], [True, True, True]]
    assert tokens.lengths(np.array([1, 0])).tolist() == [3, 1]


@given(TEXTS, st.data())
def test_all_but_the_padding_is_the_text(texts, data):
    rows = np.array(data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=12)))
    ids, mask = Tokens.of(texts).padded(rows, pad=0)
    assert ids.shape == mask.shape == (len(rows), max(len(texts[row]) for row in rows))
    assert [line[own].tolist() for line, own in zip(ids, mask, strict=True)] == [texts[row] for row in rows]
    assert ids[~mask].sum() == 0


def test_batches_are_sorted_by_length_then_row():
    tokens = Tokens.of([[1, 1], [1], [1, 1, 1], [1], [1, 1]])
    assert [batch.tolist() for batch in batches(tokens, np.array([0, 1, 2, 3, 4]), 2)] == [[1, 3], [0, 4], [2]]
    assert [batch.tolist() for batch in batches(tokens, np.array([4, 3, 0]), 2)] == [[3, 0], [4]]
    assert batches(tokens, np.array([], dtype=np.int64), 2) == []


@given(TEXTS, st.integers(1, 7), st.randoms())
def test_batches_are_whole_and_do_not_depend_on_the_order_of_the_rows(texts, size, random):
    tokens, rows = Tokens.of(texts), list(range(len(texts)))
    parts = [batch.tolist() for batch in batches(tokens, np.array(rows), size)]
    assert sorted(chain(*parts)) == rows
    assert all(len(batch) == size for batch in parts[:-1])
    random.shuffle(rows)
    assert [batch.tolist() for batch in batches(tokens, np.array(rows), size)] == parts


def test_tokens_come_back_from_disk(tmp_path):
    tokens = Tokens.of([[7], [1, 2, 3], []])
    tokens.write(tmp_path)
    again = Tokens.read(tmp_path)
    assert len(again) == 3
    assert again.ids.tolist() == [7, 1, 2, 3]
    assert again.starts.tolist() == [0, 1, 4, 4]


@pytest.mark.parametrize("name", ["ids-00000.npy", "starts-00000.npy"])
@pytest.mark.parametrize("size", [None, 0, 40, -4])
def test_missing_or_truncated_tokens_are_an_error_that_names_the_folder(tmp_path, name, size):
    Tokens.of([[7], [1, 2, 3]]).write(tmp_path)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).unlink()
    if size is not None:
        (tmp_path / name).write_bytes(whole[:size])
    with pytest.raises(BadFile, match=rf"{tmp_path}.*delete .* and run again"):
        Tokens.read(tmp_path)


def test_ids_of_another_text_are_refused(tmp_path):
    Tokens.of([[7], [1, 2, 3]]).write(tmp_path)
    np.save(tmp_path / "ids-00000.npy", np.array([7, 1, 2], dtype=np.int32))
    with pytest.raises(BadFile, match="truncated"):
        Tokens.read(tmp_path)


@given(st.lists(TEXTS, min_size=1, max_size=4), st.integers(0, 3), st.data())
def test_texts_of_several_chunks_are_taken_in_any_order(tmp_path_factory, chunks, prompt, data):
    folder = tmp_path_factory.mktemp("tokens")
    for number, texts in enumerate(chunks):
        Tokens.of(texts, prompt).write(folder, number)
    stored, whole = StoredTokens(folder), Tokens.of([*chain(*chunks)], prompt)
    assert stored.lengths().tolist() == whole.lengths(np.arange(len(whole))).tolist()
    assert stored.all().ids.tolist() == Tokens.read(folder).ids.tolist() == whole.ids.tolist()
    rows = np.array(data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=12)), dtype=np.int64)
    taken = stored.take(rows)
    assert (len(taken), taken.prompt) == (len(rows), prompt)
    for place, row in enumerate(rows.tolist()):
        own = taken.ids[taken.starts[place] : taken.starts[place + 1]]
        assert own.tolist() == whole.ids[whole.starts[row] : whole.starts[row + 1]].tolist()


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_chunk_that_is_lost_is_an_error_and_not_other_texts(tmp_path, lost):
    for number in range(3):
        Tokens.of([[number], [1, 2, 3]]).write(tmp_path, number)
    for name in ("ids", "starts"):
        (tmp_path / f"{name}-0000{lost}.npy").unlink()
    with pytest.raises(BadFile, match=r"delete .* and run again"):
        StoredTokens(tmp_path).take(np.arange(6))
