"""Texts to match have the fields that a matcher compares: by name, or by place under the names that it knows."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from al_ray.apps.matching.options import MatchOptions
from al_ray.apps.matching.texts import as_matcher_reads, typed_as
from al_ray.cluster.candidates.records import feature_names
from al_ray.cluster.candidates.reference import Sides
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.task import Corpus, Fields, Task
from al_ray.matcher.learner import LEARNERS
from al_ray.matcher.model_file import write_model


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


def test_a_matcher_of_the_same_fields_and_other_comparisons_is_refused_with_the_difference(tmp_path):
    own = feature_names(TRAINED.left, TRAINED.right)
    rows = np.eye(len(own), dtype=np.float32)
    labels = (np.arange(len(own)) % 2).astype(np.uint8)
    trees = LEARNERS["trees"].fit(rows, labels, np.ones(len(own)), ("equal telephones", *own[1:]), 0)
    write_model(tmp_path / "matcher.safetensors", trees, "trees")
    matcher = SimpleNamespace(reference=None, path=str(tmp_path / "matcher.safetensors"))
    model: Any = SimpleNamespace(path="runs/r", task=TRAINED, model=SimpleNamespace(matcher=matcher))
    with pytest.raises(BadFile, match=re.escape(f"it lacks '{own[0]}' and has 'equal telephones'")):
        as_matcher_reads(TRAINED, MatchOptions(left=(tmp_path,)), model)
