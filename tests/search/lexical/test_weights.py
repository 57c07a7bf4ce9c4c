"""Weights against scikit-learn's TF-IDF, document frequencies of parts, and which 3-grams have no weight."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from al_ray.core.errors import BadFile
from al_ray.search.lexical import weights
from al_ray.search.lexical.grams import COLUMNS, Grams
from al_ray.search.lexical.weights import FREQUENCIES, SCALE, DocumentFrequencies, GramWeights

TEXTS = st.lists(st.text("abc xé", max_size=12), min_size=1, max_size=8)


def all_weighed(texts, most=1_000):
    some = Grams.of(texts)
    return GramWeights(DocumentFrequencies.of([some]), most).weigh(np.arange(len(texts)), some)


def test_a_weight_by_hand():
    # "a" has one 3-gram, alone: its weight is 1. "a b" has two of equal frequency, but for "a" in a further text:
    # N = 2, df(a) = 2, df(b) = 1, so the idf are ln(3/3) + 1 = 1 and ln(3/2) + 1 = 1.405465, and the length 1.724915.
    found = all_weighed(["a", "a b"]).weights.toarray()
    assert sorted(found[0].tolist()) == [0, SCALE]
    assert sorted(found[1].tolist()) == pytest.approx([SCALE / 1.724915, SCALE * 1.405465 / 1.724915], rel=1e-5)


def test_3_grams_that_no_text_of_the_task_has_are_weighed_where_they_are_uncounted_by_hand():
    # Of ten texts two have the 3-gram of "a", and nine that of "b", which are too many; none has those of "c" and "d".
    texts = Grams.of(["a", "b", "c", "d"])
    a, b, c, _ = texts.columns.tolist()
    counts = np.zeros(COLUMNS, dtype=np.int64)
    counts[[a, b]] = 2, 9
    model = GramWeights(DocumentFrequencies(counts, 10), 4, np.array([c, a, b, c]))
    assert model.used.tolist() == sorted([a, c])
    found = model.weigh(np.arange(4), texts).weights.toarray()
    assert (found.sum(axis=1) > 0).tolist() == [True, False, True, False]
    # Of a text of both the idf are ln(11/3) + 1 = 2.299283 and ln(11/1) + 1 = 3.397895, and the length 4.102730.
    both = model.weigh(np.arange(1), Grams.of(["a c"])).weights.toarray()
    assert both[0, [model.used.tolist().index(one) for one in (a, c)]].tolist() == pytest.approx(
        [SCALE * 2.299283 / 4.102730, SCALE * 3.397895 / 4.102730], rel=1e-6
    )


@given(TEXTS)
def test_they_are_those_of_scikit_learn_in_whole_numbers(texts):
    if not any(text.split() for text in texts):
        return
    theirs = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3)).fit_transform(texts)
    ours = all_weighed(texts).weights
    assert ours.dtype == np.int32
    assert np.sort(ours.toarray(), axis=1) / SCALE == pytest.approx(np.sort(theirs.toarray(), axis=1), abs=0.51 / SCALE)


@given(TEXTS, st.integers(1, 4), st.randoms())
def test_frequencies_do_not_depend_on_chunks_or_their_order(texts, size, random):
    whole = DocumentFrequencies.of([Grams.of(texts)])
    chunks = [Grams.of(texts[at : at + size]) for at in range(0, len(texts), size)]
    random.shuffle(chunks)
    for parts in (
        DocumentFrequencies.of(chunks),
        DocumentFrequencies.of(chunks[:1]) + DocumentFrequencies.of(chunks[1:]),
    ):
        assert parts.texts == whole.texts == len(texts)
        assert (parts.counts == whole.counts).all()


@given(TEXTS, st.data())
def test_weights_do_not_depend_on_the_texts_beside(texts, data):
    some = Grams.of(texts)
    model = GramWeights(DocumentFrequencies.of([some]), 5)
    rows = np.array(data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=9)), dtype=np.int64)
    whole, part = model.weigh(np.arange(len(texts)), some), model.weigh(rows, some.take(rows))
    assert part.rows.tolist() == rows.tolist()
    assert (part.weights.toarray() == whole.take(rows).weights.toarray()).all()


def test_a_text_of_unknown_grams_has_no_weights():
    model = GramWeights(DocumentFrequencies.of([Grams.of(["ab", "cd"])]), 5)
    found = model.weigh(np.arange(3), Grams.of(["xyz", "", "ab xyz"])).weights
    # Of the last text " ab" and "ab " are known, as frequent: 1 / sqrt(2) each.
    assert found.sum(axis=1).ravel().tolist() == [[0, 0, 2 * round(SCALE / 2**0.5)]]


def test_the_most_frequent_have_no_weight(monkeypatch):
    # " x " is in 4 of 5 texts, " y " in 3, " z " in one: at most a share of 0.6 may have it.
    some = Grams.of(["x", "x y", "x y", "x y z", ""])
    frequencies = DocumentFrequencies.of([some])
    assert frequencies.most == weights.TEXTS
    monkeypatch.setattr(weights, "TEXTS", 1)
    monkeypatch.setattr(weights, "SHARE", 0.6)
    assert frequencies.most == 3
    found = GramWeights(frequencies, 3).weigh(np.arange(5), some).weights
    assert np.diff(found.indptr).tolist() == [0, 1, 1, 2, 0]


@pytest.mark.parametrize(("additions", "most"), [(100, 4), (26 / 5, 4), (25.9 / 5, 3), (10 / 5, 3), (9.9 / 5, 1)])
def test_few_enough_are_added_for_a_text_by_hand(monkeypatch, additions, most):
    # Document frequencies 4, 3 and 1 of 5 texts: 1 + 9 + 16 = 26 products in all, 10 without the most frequent.
    monkeypatch.setattr(weights, "TEXTS", 1)
    monkeypatch.setattr(weights, "SHARE", 1.0)
    monkeypatch.setattr(weights, "ADDITIONS", additions)
    assert DocumentFrequencies.of([Grams.of(["x", "x y", "x y", "x y z", ""])]).most == most


def test_frequencies_come_back_from_disk(tmp_path):
    written = DocumentFrequencies.of([Grams.of(["ab", "a ab"])])
    written.write(tmp_path)
    read = DocumentFrequencies.read(tmp_path)
    assert read.texts == 2
    assert (read.counts == written.counts).all()


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(COLUMNS, dtype=np.int64),
        np.zeros(COLUMNS + 1, dtype=np.int32),
        np.full(COLUMNS + 1, -1),
        np.append(np.full(COLUMNS, 3), 2),
        None,
    ],
)
def test_frequencies_that_cannot_be_are_refused(tmp_path, array):
    if array is not None:
        np.save(tmp_path / FREQUENCIES, array)
    with pytest.raises(BadFile, match=rf"{tmp_path}.*; delete {tmp_path} and run again"):
        DocumentFrequencies.read(tmp_path)


def test_cut_frequencies_are_refused(tmp_path):
    DocumentFrequencies.of([Grams.of(["ab"])]).write(tmp_path)
    whole = (tmp_path / FREQUENCIES).read_bytes()
    for size in (0, 50, len(whole) - 3):
        (tmp_path / FREQUENCIES).write_bytes(whole[:size])
        with pytest.raises(BadFile, match="delete"):
            DocumentFrequencies.read(tmp_path)
