"""Texts to match have the fields that a matcher compares: by name, or by place under the names that it knows."""

from dataclasses import replace

import numpy as np
import pytest

from al_ray.apps.matching.texts import typed_as
from al_ray.cluster.candidates.reference import Sides
from al_ray.core.errors import BadOption
from al_ray.core.task import Corpus, Fields, Task


def task_of(names: tuple[str, ...], types: tuple[str, ...] = ()) -> Task:
    cells = np.tile([4, 2, 3], (2, 1))[:, : len(names)]
    fields = Fields(names, cells, types)  # pyright: ignore[reportArgumentType]
    text = " ".join("x" * length for length in cells[0].tolist())
    corpus = Corpus(("1", "2"), (text, text), fields)
    return Task("t", True, corpus, corpus, {}, "")


TRAINED = task_of(("title", "price", "born"), ("name", "number", "date"))
SIDES = Sides.of(TRAINED.left, TRAINED.right)


def test_types_go_by_name_if_the_names_are_the_same():
    fields = typed_as(task_of(("born", "title", "price"), ("text", "text", "text")), SIDES).left.fields
    assert fields is not None
    assert (fields.names, fields.types) == (("born", "title", "price"), ("date", "name", "number"))


def test_other_names_go_by_place_and_become_those_that_the_matcher_knows():
    task = typed_as(task_of(("name", "cost", "birthday")), SIDES)
    assert task.left.fields is not None
    assert (task.left.fields.names, task.left.fields.types) == (("title", "price", "born"), ("name", "number", "date"))
    assert task.right is task.left


def test_another_number_of_fields_is_refused_with_the_names():
    with pytest.raises(
        BadOption,
        match=r"compares the fields title, price, born, and the texts have title, price \(without born\); name",
    ):
        typed_as(task_of(("title", "price")), SIDES)
    alone = replace(TRAINED.left, fields=None)
    with pytest.raises(BadOption, match=r"compares the fields title, price, born, and the texts have one text; name"):
        typed_as(replace(TRAINED, left=alone, right=alone), SIDES)


def test_texts_with_some_of_the_names_lack_the_others():
    with pytest.raises(BadOption, match=r"the texts have title, cost, born \(without price\); name"):
        typed_as(task_of(("title", "cost", "born")), SIDES)
