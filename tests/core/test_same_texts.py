"""Texts of one task found in another, worked by hand."""

import numpy as np

from al_ray.core.same_texts import rows_in
from al_ray.core.task import Corpus, Task


def task(symmetric: bool, left: dict[str, str], right: dict[str, str] | None = None) -> Task:
    sides = [Corpus(tuple(side), tuple(side.values())) for side in (left, right or left)]
    return Task("t", symmetric, sides[0], sides[1], {}, str((left, right)))


def test_a_text_is_found_by_its_id_if_it_is_the_same_text():
    before = task(True, {"a": "one", "b": "two", "c": "three", "d": "four"})
    now = task(True, {"new": "one", "d": "four", "a": "one", "c": "another"})
    rows, changed = rows_in(now, before, np.array([[0, 3], [0, 2], [1, 3], [2, 3]]))
    # a is in row 2 and d in row 1; b is gone, and the text of c is another.
    assert rows.tolist() == [[2, 1], [2, -1], [-1, 1], [-1, 1]]
    assert changed.tolist() == [False, True, False, True]


def test_sides_are_looked_up_apart():
    before = task(False, {"a": "one"}, {"a": "two", "b": "three"})
    now = task(False, {"b": "zero", "a": "one"}, {"b": "three", "a": "one"})
    rows, changed = rows_in(now, before, np.array([[0, 0], [0, 1]]))
    assert rows.tolist() == [[1, -1], [1, 0]]
    assert changed.tolist() == [True, False]


def test_no_pairs_are_no_rows():
    before = task(True, {"a": "one"})
    rows, changed = rows_in(task(True, {"b": "two"}), before, np.empty((0, 2), dtype=np.int64))
    assert rows.shape == (0, 2)
    assert changed.shape == (0,)


def test_whole_numbers_are_one_id_with_and_without_the_point():
    before = task(True, {"1": "one", "2.0": "two", "3": "three", "04": "four"})
    now = task(True, {"x": "zero", "1.0": "one", "2": "two", "3.0": "another", "3": "three", "4.0": "four"})
    rows, changed = rows_in(now, before, np.array([[0, 1], [2, 3]]))
    # 3 is there itself, so that 3.0 is another id; and 04 is no number that a program has written.
    assert rows.tolist() == [[1, 2], [4, -1]]
    assert changed.tolist() == [False, False]


def test_labels_hold_for_a_text_that_is_only_spelled_in_another_way():
    before = task(
        True, {"a": "Trail  shoe 12.0", "b": "cafe\u0301 9.00", "c": "v1.0", "d": "1984-03-01 00:00:00.000 true"}
    )
    now = task(True, {"d": "1984-03-01 True", "c": "v1", "b": "CAF\u00c9 9", "a": "trail shoe 12"})
    rows, changed = rows_in(now, before, np.array([[0, 1], [0, 2], [1, 3]]))
    # v1 may be another version than v1.0.
    assert rows.tolist() == [[3, 2], [3, -1], [2, 0]]
    assert changed.tolist() == [False, True, False]
