"""Precision, recall and F1 of pairs: values worked by hand."""

import pytest

from studies.other_tools.scoring import measure, pair_set, read_pairs

TRUE = frozenset({("a", "x"), ("b", "y"), ("c", "z"), ("d", "w")})
FOUND = frozenset({("a", "x"), ("b", "y"), ("c", "w")})


def test_precision_recall_and_f1():
    figures = measure(FOUND, TRUE)
    # Two of three found pairs are true, of four.
    assert (figures.precision, figures.recall) == (2 / 3, 2 / 4)
    assert figures.f1 == pytest.approx(2 * (2 / 3) * (1 / 2) / (2 / 3 + 1 / 2))


def test_pairs_left_out_count_neither_as_found_nor_as_true():
    figures = measure(FOUND, TRUE, frozenset({("a", "x"), ("d", "w"), ("c", "w")}))
    # (b, y) is left of the found ones, (b, y) and (c, z) of the true ones.
    assert (figures.precision, figures.recall) == (1, 1 / 2)


@pytest.mark.parametrize(("found", "true"), [([], TRUE), (FOUND, []), ([], [])])
def test_nothing_found_or_nothing_true_is_zero(found, true):
    figures = measure(frozenset(found), frozenset(true))
    assert (figures.precision, figures.recall, figures.f1) == (0, 0, 0)


def test_pairs_of_one_table_have_no_order_and_those_of_two_have():
    assert pair_set([("b", "a"), ("a", "b")], one_table=True) == {("a", "b")}
    assert pair_set([("b", "a"), ("a", "b")], one_table=False) == {("a", "b"), ("b", "a")}


def test_pairs_are_read_with_the_answer_that_is_asked_for(tmp_path):
    file = tmp_path / "labels.csv"
    file.write_text("answer,right_id,left_id\nyes,1,2\nno,3,4\n")
    assert read_pairs(file, False) == {("2", "1"), ("4", "3")}
    assert read_pairs(file, True, "yes") == {("1", "2")}
