"""Records are compared by the types of their fields; the same pairs have the same bits however they are divided."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.task import Corpus, Fields, FieldType
from al_ray.matcher.comparisons import record_comparer
from al_ray.matcher.comparisons.frequencies import frequencies_of
from al_ray.matcher.comparisons.record_comparer import RecordComparer
from al_ray.matcher.comparisons.records import Field, Records, normal_form, records_of, shared_records

TYPES: dict[str, FieldType] = {
    "title": "text",
    "maker": "name",
    "price": "number",
    "born": "date",
    "sku": "code",
    "kind": "category",
}
FIELDS = [Field(name, kind) for name, kind in TYPES.items()]
CELLS = (
    st.sampled_from(["", "sony turntable pslx350h", "Sony  turntable", "bose acoustimass 5"]),
    st.sampled_from(["", "sony", "Sony Corp.", "bose"]),
    st.sampled_from(["", "$5", "5.00", "1,299", "cheap"]),
    st.sampled_from(["", "2001-03-04", "04/03/2001", "soon"]),
    st.sampled_from(["", "a-1", "A1", "b2"]),
    st.sampled_from(["", "audio", "video"]),
)
ROWS = st.lists(st.tuples(*CELLS), min_size=1, max_size=4)


def records(rows) -> Records:
    """Records of rows of cells."""
    columns = tuple([row[place] for row in rows] for place in range(len(CELLS)))
    return Records([" ".join(cell for cell in row if cell) for row in rows], columns)


def every_pair(left: int, right: int) -> np.ndarray:
    return np.stack(np.divmod(np.arange(left * right), right), axis=1)


@given(ROWS, ROWS, st.integers(1, 5), st.integers(1, 3), st.randoms(use_true_random=False))
def test_bits_depend_on_the_pair_alone(left, right, block, threads, random):
    """Not on blocks, threads, the order of the pairs, or the other records, given the same frequencies."""
    one, other = records(left), records(right)
    pairs = every_pair(len(left), len(right))
    comparer = RecordComparer(FIELDS, one, other)
    scores = comparer.compare(pairs)
    order = random.sample(range(len(pairs)), len(pairs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_comparer, "BLOCK", block)
        again = RecordComparer(FIELDS, one, other, threads=threads).compare(pairs[order])
    np.testing.assert_array_equal(again, scores[order])
    shares = comparer.frequencies
    for row, (a, b) in enumerate(pairs.tolist()):
        alone = RecordComparer(FIELDS, records(left[a : a + 1]), records(right[b : b + 1]), shares)
        np.testing.assert_array_equal(alone.compare(pairs[:1]), scores[row : row + 1])


@given(ROWS, ROWS)
def test_every_number_is_in_its_range_and_missing_where_a_cell_is_empty(left, right):
    comparer = RecordComparer(FIELDS, records(left), records(right))
    pairs = every_pair(len(left), len(right))
    scores = comparer.compare(pairs)
    assert (scores.dtype, scores.shape) == (np.float32, (len(pairs), len(comparer.names)))
    assert np.isfinite(scores).all()
    for place, field in enumerate(FIELDS):
        empty = np.array([[not left[a][place], not right[b][place]] for a, b in pairs.tolist()])
        for name in (name for name in comparer.names if name.startswith(f"{field.name}: ")):
            column = scores[:, comparer.names.index(name)]
            if name.endswith("missing values"):
                np.testing.assert_array_equal(column, empty.sum(axis=1))
            else:
                assert (column[empty.any(axis=1)] == -1).all()


def test_names_tell_field_and_comparison_in_the_order_of_the_columns():
    one = Records(["a 5", "b"], (["a", "b"], ["5", ""]))
    comparer = RecordComparer([Field("title", "text"), Field("price", "number")], one, one)
    numbers = dict(zip(comparer.names, comparer.compare(np.array([[0, 0], [0, 1]])).T.tolist(), strict=True))
    assert numbers["price: relative difference"] == [0, -1]
    assert numbers["price: missing values"] == [0, 1]
    assert numbers["title: equal"] == [1, 0]
    assert numbers["whole text: token sort ratio"] == [1, 0]
    assert len(set(comparer.names)) == len(comparer.names)


def test_texts_without_fields_are_compared_as_texts():
    one = Records(["What is it?", "who is it"])
    names = RecordComparer([], one, one).names
    assert {"whole text: equal", "whole text: TF-IDF of words"} <= set(names)
    assert len(set(names)) == len(names)


def test_a_block_of_right_records_is_compared_with_the_same_left_ones():
    left, right = records([("sony", "sony", "5", "", "", "")]), records([("bose", "bose", "6", "", "", "")] * 2)
    block = Records(right.texts[1:], tuple(column[1:] for column in right.columns))
    whole = RecordComparer(FIELDS, left, right)
    part = whole.against(block)
    np.testing.assert_array_equal(part.compare(np.array([[0, 0]])), whole.compare(np.array([[0, 1]])))
    assert whole.compare(np.array([[0, 1]])).shape == (1, len(whole.names))


@given(ROWS, st.integers(0, 4))
def test_frequencies_of_shards_add_up(rows, cut):
    whole = frequencies_of(FIELDS, records(rows))
    parts = frequencies_of(FIELDS, records(rows[:cut])) + frequencies_of(FIELDS, records(rows[cut:]))
    for one, other in zip((*whole.columns, whole.texts), (*parts.columns, parts.texts), strict=True):
        for counts, sums in ((one.values, other.values), (one.words, other.words)):
            np.testing.assert_array_equal(counts.keys, sums.keys)
            np.testing.assert_array_equal(counts.counts, sums.counts)
            assert counts.total == sums.total


def test_records_of_a_corpus_have_the_chosen_fields():
    fields = Fields(("title", "price"), np.array([[4, 1], [0, 2]]), ("text", "number"))
    corpus = Corpus(("1", "2"), ("sony 5", "12"), fields)
    made = records_of(corpus, [1], np.array([1, 0]))
    assert (list(made.texts), made.columns) == (["12", "sony 5"], (["12", "5"],))
    assert records_of(Corpus(("1",), ("sony 5",)), []).columns == ()


def test_two_corpora_share_fields():
    fields = Fields(("title", "price"), np.array([[4, 1], [0, 2]]), ("text", "number"))
    left = Corpus(("1", "2"), ("sony 5", "12"), fields)
    right = Corpus(("1",), ("7 bose",), Fields(("price", "title"), np.array([[1, 4]])))
    shared, one, other = shared_records(left, right)
    assert shared == (Field("title", "text"), Field("price", "number"))
    assert (one.columns, other.columns) == ((["sony", ""], ["5", "12"]), (["bose"], ["7"]))
    _, same, again = shared_records(left, left)
    assert same is again
    assert shared_records(left, Corpus(("1",), ("bose",)))[0] == ()


def test_the_normal_form_of_a_value():
    assert normal_form("  \N{FULLWIDTH LATIN CAPITAL LETTER A}b \t C ") == "ab c"
    assert normal_form("") == normal_form(" \n") == ""
