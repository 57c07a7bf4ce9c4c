"""3-grams of texts: against a loop over words, against scikit-learn, and from disk, damaged or not."""

import unicodedata
from collections import Counter
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from al_ray.core.errors import BadFile
from al_ray.search.lexical import grams
from al_ray.search.lexical.grams import COLUMNS, Grams, StoredGrams, has_chunk

TEXTS = st.lists(st.text(max_size=12), max_size=8)
# NFKC and lower case change nothing but the case of these letters, for scikit-learn has no NFKC.
PLAIN = st.lists(st.text("abAB é日\t\n", max_size=15), min_size=1, max_size=6)


def as_lists(some):
    return [
        list(zip(some.columns[start:stop].tolist(), some.counts[start:stop].tolist(), strict=True))
        for start, stop in pairwise(some.starts.tolist())
    ]


def column_of(gram):
    """The finaliser of SplitMix64, of three characters of 21 bits."""
    code = ord(gram[0]) << 42 | ord(gram[1]) << 21 | ord(gram[2])
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        code = (code ^ code >> shift) * factor % 2**64
    return (code ^ code >> 31) >> 44


def test_words_have_a_space_on_both_sides_by_hand():
    # " to", "to ", " be" and "be ", of which three are twice in the second text, and "be " once.
    one, other, again = as_lists(Grams.of(["to be", "To to\tBE bex", "be  to"]))
    assert len(one) == 4
    assert one == again
    assert {count for _, count in one} == {1}
    # " to", "to ", " be" twice; "be ", "bex", "ex " once.
    assert sorted(count for _, count in other) == [1, 1, 1, 2, 2, 2]
    assert {column for column, _ in one} <= {column for column, _ in other}


def test_a_text_of_one_letter_is_one_gram_and_an_empty_one_has_none():
    some = Grams.of(["", "a", " \n ", "ab", "A"])
    assert np.diff(some.starts).tolist() == [0, 1, 0, 2, 1]
    assert as_lists(some)[1] == as_lists(some)[4]
    assert len(Grams.of([])) == 0


def test_forms_of_a_character_that_look_alike_are_one():
    # A ligature, full-width digits, e with an accent as two characters, a no-break space.
    first, second = as_lists(Grams.of(["\ufb01x \uff11\uff12 e\u0301 a\u00a0b", "fix 12 é a b"]))
    assert first == second


def test_a_lone_half_of_a_character_is_a_character():
    assert np.diff(Grams.of(["\ud800", "\U0010ffff"]).starts).tolist() == [1, 1]


def test_columns_do_not_change_from_one_version_to_the_next():
    # Stored 3-grams are read by later versions: with another hash DEFINITION must change.
    assert Grams.of(["a", "ab"]).columns.tolist() == [101_891, 230_384, 307_955]


@given(TEXTS)
def test_columns_are_those_of_a_loop_over_words(texts):
    for text, own in zip(texts, as_lists(Grams.of(texts)), strict=True):
        words = [f" {word} " for word in unicodedata.normalize("NFKC", text).lower().split()]
        found = Counter(column_of(word[at : at + 3]) for word in words for at in range(len(word) - 2))
        assert own == sorted(found.items())


@given(PLAIN)
@example(["a a a", "aa", "", "aaa aab"])
def test_they_are_those_of_scikit_learn(texts):
    if not any(text.split() for text in texts):
        return
    counts: Any = CountVectorizer(analyzer="char_wb", ngram_range=(3, 3)).fit_transform(texts)
    theirs = counts.toarray()
    ours = Grams.of(texts)
    # Their columns have other numbers, so for each text how often its 3-grams are in it, and the overlaps of texts.
    dense = np.zeros((len(texts), COLUMNS), dtype=np.int64)
    dense[ours.texts, ours.columns] = ours.counts
    dense = dense[:, dense.any(axis=0)]
    assert dense.shape == theirs.shape
    assert (dense @ dense.T == theirs @ theirs.T).all()


@given(TEXTS, st.integers(1, 9))
def test_texts_that_are_hashed_together_do_not_mix(texts, size):
    whole = as_lists(Grams.of(texts))
    assert whole == [one for text in texts for one in as_lists(Grams.of([text]))]
    kept, grams.AT_ONCE = grams.AT_ONCE, size
    try:
        assert as_lists(Grams.of(texts)) == whole
    finally:
        grams.AT_ONCE = kept
    assert all(column < other for one in whole for (column, _), (other, _) in pairwise(one))


def test_counts_end_at_the_most():
    some = Grams.of(["a " * (grams.MOST + 5)])
    assert some.counts.tolist() == [grams.MOST]


@settings(max_examples=30)
@given(st.lists(TEXTS, min_size=1, max_size=4), st.data())
def test_they_come_back_from_disk_in_any_order(tmp_path_factory, chunks, data):
    folder, texts = tmp_path_factory.mktemp("grams"), [*chain(*chunks)]
    for number, part in enumerate(chunks):
        assert not has_chunk(folder, number)
        Grams.of(part).write(folder, number)
        assert has_chunk(folder, number)
    stored = StoredGrams(folder, len(texts))
    assert [row for rows, _ in stored.chunks for row in rows.tolist()] == list(range(len(texts)))
    whole = as_lists(Grams.of(texts))
    assert [one for _, part in stored.chunks for one in as_lists(part)] == whole
    rows = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=9)) if texts else []
    assert as_lists(stored.take(np.array(rows, dtype=np.int64))) == [whole[row] for row in rows]


def test_a_chunk_written_again_is_the_same_to_the_byte(tmp_path):
    for folder in ("one", "two"):
        Grams.of(["to be", "or not"]).write(tmp_path / folder)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


@pytest.mark.parametrize("name", ["columns-00000.npy", "counts-00000.npy", "starts-00000.npy"])
@pytest.mark.parametrize("size", [None, 0, 40, -2])
def test_missing_or_truncated_files_are_an_error_that_names_the_folder(tmp_path, name, size):
    Grams.of(["to be", "or not"]).write(tmp_path)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).unlink()
    if size is not None:
        (tmp_path / name).write_bytes(whole[:size])
    with pytest.raises(BadFile, match=rf"{tmp_path}.*delete .* and run again"):
        StoredGrams(tmp_path, 2)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("columns", np.array([1, 2, COLUMNS, 4], dtype=np.int32)),
        ("columns", np.array([1, 2, -1, 4], dtype=np.int32)),
        ("columns", np.array([1, 2, 3], dtype=np.int32)),
        ("columns", np.array([1, 2, 3, 4], dtype=np.int64)),
        ("counts", np.array([1, 0, 1, 1], dtype=np.uint16)),
        ("starts", np.array([0, 5, 4], dtype=np.int64)),
        ("starts", np.array([1, 2, 4], dtype=np.int64)),
        ("starts", np.array([], dtype=np.int64)),
        ("starts", np.array([[0, 2, 4]], dtype=np.int64)),
    ],
)
def test_files_of_other_content_are_refused(tmp_path, name, array):
    Grams.of(["ab", "ab"]).write(tmp_path)
    np.save(tmp_path / f"{name}-00000.npy", array)
    with pytest.raises(BadFile, match=rf"{tmp_path}, chunk 0, .*; delete {tmp_path} and run again"):
        StoredGrams(tmp_path, 2)


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_chunk_that_is_lost_is_an_error_and_not_other_texts(tmp_path, lost):
    for number in range(3):
        Grams.of(["ab", "c"]).write(tmp_path, number)
    for path in tmp_path.glob(f"*-0000{lost}.npy"):
        path.unlink()
    with pytest.raises(BadFile, match=r"delete .* and run again"):
        StoredGrams(tmp_path, 6)
