"""Strings in Arrow blocks are what a tuple of the same strings is, however they lie in blocks."""

import hashlib
import pickle
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.task import Corpus, strings_at
from al_ray.datasets import corpus_file, strings
from al_ray.datasets.corpus_file import write_corpus
from al_ray.datasets.strings import Strings, add_strings, as_array, as_strings

WORDS = st.text(st.characters(codec="utf-8"), max_size=5)


@st.composite
def both(draw: st.DrawFn) -> tuple[tuple[str, ...], Strings]:
    """Strings as a tuple, and in blocks that are slices of arrays with other strings around them."""
    blocks = draw(st.lists(st.lists(WORDS, max_size=4), max_size=4))
    arrays = [pa.array(["before", *block, "after"], pa.large_string()).slice(1, len(block)) for block in blocks]
    return tuple(word for block in blocks for word in block), Strings.of(arrays)


@given(both(), st.integers(-6, 20), st.integers(-6, 20), st.sampled_from([1, 2, 3, -1, -2]))
def test_strings_are_read_like_a_tuple(both, start, stop, step):
    plain, packed = both
    assert (packed, len(packed), list(packed)) == (plain, len(plain), list(plain))
    assert plain == packed
    assert [packed[place] for place in range(-len(plain), len(plain))] == [*plain, *plain]
    for part in (slice(start, stop, step), slice(start, None), slice(None, stop)):
        assert packed[part] == plain[part]
        assert packed[part][::-1] == plain[part][::-1]
    for other in (packed.in_memory(), pickle.loads(pickle.dumps(packed)), Strings.pack(iter(plain)), as_strings(plain)):
        assert other == packed
    assert as_array(packed).to_pylist() == list(plain)
    assert packed.lengths().tolist() == list(map(len, plain))


@given(both(), WORDS)
def test_places_and_members_are_those_of_a_tuple(both, word):
    plain, packed = both
    for sought in (word, *plain):
        assert (sought in packed, packed.count(sought)) == (sought in plain, plain.count(sought))
        if sought in plain:
            assert packed.index(sought) == plain.index(sought)
            assert packed.index(sought, plain.index(sought)) == plain.index(sought)
        else:
            with pytest.raises(ValueError, match="not in"):
                packed.index(sought)
    # Of the command line: bytes that are not UTF-8.
    assert "\udcff" not in packed
    assert 7 not in packed


@given(both(), st.data())
def test_strings_at_rows_are_those_of_a_tuple(both, data):
    plain, packed = both
    rows = data.draw(st.lists(st.integers(0, max(0, len(plain) - 1)), max_size=9 if plain else 0))
    rows = np.array(rows, dtype=np.int64)
    assert strings_at(packed, rows) == strings_at(plain, rows) == [plain[row] for row in rows]


def test_rows_outside_are_refused():
    packed = Strings.pack(["a", "b"])
    for row in (-1, 2):
        with pytest.raises(IndexError, match="from 0 to 1"):
            packed.take(np.array([0, row]))
    for place in (-3, 2):
        with pytest.raises(IndexError):
            packed[place]


def test_other_strings_are_not_equal():
    packed = Strings.pack(["a", "b"])
    for other in (("a",), ("a", "c"), ("a", "b", "c"), Strings.pack(["a"]), ["a", "b"], "ab"):
        assert packed != other
    assert ("a\0", "") == Strings.pack(["a\0", ""]) != ("a", "")


def test_a_block_is_loaded_once_for_all_its_rows():
    loaded = list[int]()

    def load(number: int) -> pa.LargeStringArray:
        loaded.append(number)
        return pa.array([f"{number} {row}" for row in range(10)], pa.large_string())

    packed = Strings([10] * 5, load)
    assert packed.take(np.array([41, 3, 40, 7, 3])) == ["4 1", "0 3", "4 0", "0 7", "0 3"]
    assert loaded == [0, 4]
    assert packed[12:28] == (*(f"1 {row}" for row in range(2, 10)), *(f"2 {row}" for row in range(8)))
    assert loaded == [0, 4, 1, 2]


def plain_digest(words: Sequence[str], per_digest: int) -> str:
    """Lengths, then letters, of `per_digest` strings at a time, by Python strings."""
    digest = hashlib.sha256()
    for start in range(0, len(words), per_digest):
        part = words[start : start + per_digest]
        digest.update(np.array([len(word) for word in part], dtype="<i8").tobytes())
        digest.update("".join(part).encode())
    return digest.hexdigest()


@given(both(), st.integers(1, 5))
def test_a_digest_does_not_depend_on_blocks(both, per_digest):
    plain, packed = both
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strings, "PER_DIGEST", per_digest)
        for same in (plain, packed):
            digest = hashlib.sha256()
            add_strings(digest, same)
            assert digest.hexdigest() == plain_digest(plain, per_digest)


def test_long_work_says_how_far_it_is(monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(strings, "PER_DIGEST", 4)
    monkeypatch.setattr(strings, "PER_LINE", 5)
    monkeypatch.setattr(corpus_file, "AT_ONCE", 3)
    caplog.set_level("INFO")
    words = Strings.pack(str(row) for row in range(11))
    add_strings(hashlib.sha256(), words)
    write_corpus(Corpus(words, words), tmp_path / "left.parquet")
    # Steps of 4 pass 5 and 10 at 8 and 11; steps of 3 at 6 and 11.
    parts = ["digest: 8 of 11", "digest: 11 of 11", "texts written: 6 of 11", "texts written: 11 of 11"]
    assert [record.getMessage() for record in caplog.records if record.name.startswith("al_ray")] == parts


def test_an_iterator_is_packed_in_parts(monkeypatch):
    monkeypatch.setattr(strings, "AT_ONCE", 3)
    packed = Strings.pack(str(row) for row in range(8))
    assert list(packed) == [str(row) for row in range(8)]
    assert [len(block) for block in packed.blocks()] == [3, 3, 2]
    ends = [0, 3, 6, 8]
    assert [packed[start:stop] == tuple("01234567"[start:stop]) for start, stop in pairwise(ends)] == [True] * 3
