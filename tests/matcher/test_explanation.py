"""Why a pair has its p: the order of the parts, and importance over many pairs."""

import numpy as np
import pytest

from al_ray.matcher.explanation import explain, importance
from al_ray.matcher.model import Contributions
from al_ray.matcher.splines import Splines
from tests.matcher.labelled import NAMES, examples, fitted


def test_the_part_that_adds_or_takes_most_comes_first():
    knots, heights = np.tile(np.arange(5.0), (3, 1)), np.zeros((3, 5))
    heights[0], heights[2] = 1, -3
    (found,) = explain(Splines(NAMES, knots, heights, np.zeros(1)), np.array([[0.5, -1, 2]], dtype=np.float32))
    assert [part.name for part in found.parts] == [NAMES[2], NAMES[0], NAMES[1]]
    assert [part.value for part in found.parts] == [2, 0.5, -1]
    # Log-odds of 0 + 1 - 3 = -2.
    assert found.p == pytest.approx(1 / (1 + np.exp(2)))
    assert found.base == 0.5
    # Of the way from 1/2 to p the first takes 3 parts, and the second gives back one of the two that are left.
    assert [part.adds for part in found.parts] == pytest.approx([(found.p - 0.5) * 1.5, (0.5 - found.p) / 2, 0])


def test_parts_sum_to_p():
    forest = fitted()
    x, _ = examples(30, 9)
    for one, p in zip(explain(forest, x), forest.probability(x), strict=True):
        assert one.p == p == pytest.approx(one.base + sum(part.adds for part in one.parts), abs=1e-15)


def test_importance_is_the_mean_without_the_signs():
    blocks = [
        Contributions(0.5, np.array([[0.5, -0.25, 0], [-0.5, 0, 0]])),
        Contributions(0.5, np.array([[0.5, 1, 0]])),
    ]
    assert importance(blocks).tolist() == pytest.approx([0.5, 1.25 / 3, 0])


def test_importance_finds_the_comparison_that_is_noise():
    x, _ = examples(300, 1)
    found = importance([fitted().contributions(x)])
    assert found.argmax() == 0
    assert found.argmin() == 2


def test_importance_needs_pairs():
    with pytest.raises(ValueError, match="no pairs"):
        importance([])
