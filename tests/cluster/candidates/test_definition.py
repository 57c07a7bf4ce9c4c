"""What decides stored comparisons beside the joined texts is in the name of their folder."""

from dataclasses import replace

import numpy as np

from al_ray.cluster.candidates.records import definition_of
from al_ray.core.task import Corpus, Fields

TYPES = ("name", "name")


def corpus(lengths: list[list[int]], names: tuple[str, ...] = ("name", "maker")) -> Corpus:
    return Corpus(("1", "2"), ("sony radio", "radio"), Fields(names, np.array(lengths), TYPES))


def test_a_cell_that_moves_to_another_column_is_another_definition():
    one, moved = corpus([[4, 5], [5, 0]]), corpus([[4, 5], [0, 5]])
    assert definition_of(one, one) == definition_of(corpus([[4, 5], [5, 0]]), one)
    assert definition_of(one, one) != definition_of(one, moved)


def test_fields_that_are_paired_in_another_way_are_another_definition():
    left = corpus([[4, 5], [5, 0]])
    by_place = corpus([[4, 5], [5, 0]], ("manufacturer", "title"))
    by_name = corpus([[4, 5], [5, 0]], ("maker", "name"))
    assert definition_of(left, by_place) != definition_of(left, by_name)


def test_another_type_is_another_definition():
    left = corpus([[4, 5], [5, 0]])
    assert left.fields is not None
    other = replace(left, fields=replace(left.fields, types=("name", "code")))
    assert definition_of(left, left) != definition_of(other, other)
