"""Scores that know the neighbourhood of both texts, in the measurement of int8 graphs and in the card."""

import numpy as np
import pytest

from al_ray.apps.exporting.card import _of_scores
from al_ray.apps.exporting.int8 import nearest_means
from al_ray.core.task import Task


@pytest.fixture(params=["one set", "two sets", "ruled"])
def task(request, make_task, make_ruled) -> Task:
    return (make_ruled if request.param == "ruled" else make_task)(request.param == "one set")


def test_the_means_of_each_side_are_of_the_nearest_texts_that_it_can_match(task):
    split, rng = task.split("train"), np.random.default_rng(0)
    space = split.space
    left = rng.normal(size=(len(space.left), 8)).astype(np.float32)
    right = left if task.symmetric else rng.normal(size=(len(space.right), 8)).astype(np.float32)
    products = left.astype(np.float64) @ right.T.astype(np.float64)
    allowed = np.ones(products.shape, dtype=bool) if space.rule is None else space.rule.table(space.left, space.right)
    if task.symmetric:
        allowed = allowed & (space.left[:, None] != space.right)
    for turned in (False, True):
        found = nearest_means(split, left, right, turned)
        every, can = (products.T, allowed.T) if turned else (products, allowed)
        nearest = [sorted(row[own].tolist())[-5:] for row, own in zip(every, can, strict=True)]
        wanted = [sum(cosines) / max(1, len(cosines)) for cosines in nearest]
        assert found == pytest.approx(wanted)


def test_the_card_has_the_formula_of_both_sides():
    scorer = {"weight": 20.0, "bias": -6.0, "neighbourhood": 0.5, "both_sides": True}
    said = " ".join(_of_scores(scorer))
    assert "p = sigmoid(20.0000 (cosine - 0.5 h - 0.5 k) -6.0000)" in said
    assert "k is the mean cosine of the right text with its 5 nearest among all left texts" in said
    del scorer["both_sides"]
    said = " ".join(_of_scores(scorer))
    assert "p = sigmoid(20.0000 (cosine - 0.5 h) -6.0000)" in said
    assert "k is the mean" not in said
