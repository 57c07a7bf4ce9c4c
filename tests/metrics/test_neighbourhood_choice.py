"""The choice of a neighbourhood: average precision by hand and by another program, and when 0 is chosen."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from al_ray.core.rng import generator
from al_ray.metrics import neighbourhood_choice
from al_ray.metrics.neighbourhood_choice import CHOICES, Choice, best_choice, compare_choices


def drawn(queries: int, hub: float, seed: int = 0):
    """Ten pairs of each left text, one of them a match, 0.3 above the others; all of a text moved by up to `hub`."""
    rng = np.random.default_rng(seed)
    means, left = rng.uniform(0, hub, queries), np.repeat(np.arange(queries), 10)
    labels = np.tile(np.eye(10, dtype=np.uint8)[0], queries)
    return means[left] + 0.3 * labels + 0.1 * rng.normal(size=len(left)), means[left], left, labels


def test_average_precision_is_that_of_the_scores_with_each_choice():
    cosines, means, left, labels = drawn(40, 1.0)
    choices = compare_choices(cosines, means, left, labels, generator(0, "neighbourhood", 1))
    assert [choice.neighbourhood for choice in choices] == list(CHOICES)
    base = average_precision_score(labels, cosines)
    for choice in choices:
        assert choice.average_precision == pytest.approx(
            average_precision_score(labels, cosines - choice.neighbourhood * means)
        )
        assert choice.gain == pytest.approx(choice.average_precision - base)
        assert choice.low < choice.gain < choice.high


def test_equal_scores_count_as_if_the_match_came_last():
    cosines, labels = np.array([0.5, 0.5, 0.2]), np.array([1, 0, 1], dtype=np.uint8)
    first = compare_choices(cosines, np.zeros(3), np.arange(3), labels, generator(0, "neighbourhood", 1))[0]
    # Non-match, match, match: (1/2 + 2/3) / 2.
    assert first.average_precision == pytest.approx(7 / 12)


def test_what_moves_all_pairs_of_a_text_is_subtracted_and_else_nothing():
    hubs = compare_choices(*drawn(100, 1.0), generator(0, "neighbourhood", 1))
    assert best_choice(hubs) == 1.0
    # The means say nothing of the cosines.
    cosines, _, left, labels = drawn(100, 0.0)
    others = np.repeat(np.random.default_rng(5).uniform(0, 1, 100), 10)
    assert best_choice(compare_choices(cosines, others, left, labels, generator(0, "neighbourhood", 1))) == 0.0


def test_a_gain_that_may_be_none_is_not_taken():
    def choice(neighbourhood: float, value: float, low: float) -> Choice:
        return Choice(neighbourhood, value, value - 0.5, low, 1.0)

    assert best_choice([choice(0.25, 0.6, 0.01), choice(0.5, 0.8, 0.0), choice(0.75, 0.7, 0.02)]) == 0.75
    assert best_choice([choice(0.25, 0.6, -0.1)]) == best_choice([]) == 0.0


def test_few_or_equal_labels_choose_nothing():
    cosines, means, left, labels = drawn(2, 1.0)
    assert compare_choices(cosines, means, left, 0 * labels, generator(0, "neighbourhood", 1)) == []
    assert compare_choices(cosines, means, left, 1 + 0 * labels, generator(0, "neighbourhood", 1)) == []
    assert compare_choices(cosines[:0], means[:0], left[:0], labels[:0], generator(0, "neighbourhood", 1)) == []
    # Of one match some draws have none.
    one = compare_choices(cosines[:11], means[:11], left[:11], np.eye(11, dtype=np.uint8)[0], generator(0, "n", 1))
    assert all(np.isfinite([choice.low, choice.high]).all() for choice in one)


def test_the_choice_does_not_depend_on_how_many_draws_are_in_memory(monkeypatch):
    pairs = drawn(30, 0.5)
    whole = compare_choices(*pairs, generator(3, "neighbourhood", 2))
    monkeypatch.setattr(neighbourhood_choice, "AT_ONCE", 7000)
    assert compare_choices(*pairs, generator(3, "neighbourhood", 2)) == whole
