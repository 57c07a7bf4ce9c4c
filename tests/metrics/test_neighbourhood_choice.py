"""The choice of a neighbourhood: average precision by hand and by another program, and when the current one stays."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from al_ray.core.rng import generator
from al_ray.metrics import neighbourhood_choice
from al_ray.metrics.neighbourhood_choice import CHOICES, BatchScores, Choice, best_choice, compare_choices

RNG = ("neighbourhood", 1)


def drawn(queries: int, hub: float, seed: int = 0) -> BatchScores:
    """Ten pairs of each left text, one of them a match, 0.3 above the others; all of a text moved by up to `hub`."""
    rng = np.random.default_rng(seed)
    means, left = rng.uniform(0, hub, queries), np.repeat(np.arange(queries), 10)
    labels = np.tile(np.eye(10, dtype=np.uint8)[0], queries)
    cosines = means[left] + 0.3 * labels + 0.1 * rng.normal(size=len(left))
    return BatchScores(cosines, means[left], left, labels)


def choose(pairs: BatchScores, current: float) -> float:
    return best_choice(compare_choices(pairs, current, generator(0, *RNG)), current)


@pytest.mark.parametrize("current", CHOICES)
def test_average_precision_is_that_of_the_scores_with_each_choice(current):
    pairs = drawn(40, 1.0)
    choices = compare_choices(pairs, current, generator(0, *RNG))
    assert [choice.neighbourhood for choice in choices] == [choice for choice in CHOICES if choice != current]
    base = average_precision_score(pairs.labels, pairs.cosines - current * pairs.means)
    for choice in choices:
        assert choice.average_precision == pytest.approx(
            average_precision_score(pairs.labels, pairs.cosines - choice.neighbourhood * pairs.means)
        )
        assert choice.gain == pytest.approx(choice.average_precision - base)
        assert choice.low < choice.gain < choice.high


def test_equal_scores_count_as_if_the_match_came_last():
    cosines, labels = np.repeat([0.5, 0.2], [2, 9]), np.array([1, 0] + 9 * [1], dtype=np.uint8)
    first = compare_choices(BatchScores(cosines, np.zeros(11), np.arange(11), labels), 0.0, generator(0, *RNG))[0]
    # A non-match, then ten matches: (1/2 + 2/3 + ... + 10/11) / 10.
    assert first.average_precision == pytest.approx(np.mean([k / (k + 1) for k in range(1, 11)]))


def test_what_moves_all_pairs_of_a_text_is_subtracted_and_else_nothing():
    hubs = drawn(100, 1.0)
    assert choose(hubs, 0.0) == choose(hubs, 0.25) == 1.0
    # The means say nothing of the cosines.
    others = replace(drawn(100, 0.0), means=np.repeat(np.random.default_rng(5).uniform(0, 1, 100), 10))
    assert choose(others, 0.0) == choose(others, 1.0) == 0.0


def test_pairs_of_nearly_equal_scores_change_nothing():
    # Near a boundary by scores with 0.75, as a strategy chooses them. Whether they match is drawn apart from all else.
    rng = np.random.default_rng(1)
    means, left = rng.uniform(0, 1, 300), np.arange(300)
    cosines = 0.2 + 0.75 * means + 1e-3 * rng.normal(size=300)
    batch = BatchScores(cosines, means, left, (rng.uniform(size=300) < 0.1).astype(np.uint8))
    assert choose(batch, 0.75) == 0.75


def test_a_gain_that_may_be_none_is_not_taken():
    def choice(neighbourhood: float, value: float, low: float) -> Choice:
        return Choice(neighbourhood, value, value - 0.5, low, 1.0)

    assert best_choice([choice(0.25, 0.6, 0.01), choice(0.5, 0.8, 0.0), choice(0.75, 0.7, 0.02)], 0.0) == 0.75
    assert best_choice([choice(0.25, 0.6, -0.1)], 0.5) == best_choice([], 0.5) == 0.5


def test_few_or_equal_labels_choose_nothing():
    pairs = drawn(2, 1.0)
    for labels in (0 * pairs.labels, 1 + 0 * pairs.labels):
        assert compare_choices(replace(pairs, labels=labels), 0.0, generator(0, *RNG)) == []
    assert compare_choices(first_of(pairs, 0), 0.0, generator(0, *RNG)) == []
    # Nine left texts with a match are too few, and ten are enough.
    assert choose(drawn(9, 1.0), 0.0) == 0
    assert compare_choices(drawn(9, 1.0), 0.0, generator(0, *RNG)) == []
    assert compare_choices(drawn(10, 1.0), 0.0, generator(0, *RNG)) != []


@pytest.mark.parametrize("matches", [1, 2, 3, 5, 12])
def test_labels_that_have_nothing_to_do_with_the_scores_change_nothing(matches):
    changed = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        means, left = rng.uniform(0.5, 0.8, 40), rng.integers(0, 40, 60)
        labels = np.zeros(60, dtype=np.uint8)
        labels[rng.choice(60, matches, replace=False)] = 1
        pairs = BatchScores(rng.normal(0.7, 0.05, 60), means[left], left, labels)
        changed += best_choice(compare_choices(pairs, 0.0, generator(seed, *RNG)), 0.0) != 0
    assert changed <= 10


def test_a_draw_without_a_match_has_no_gain_in_it():
    pairs = drawn(10, 1.0)
    ranking = neighbourhood_choice._Ranking(pairs.cosines, pairs.labels)
    assert ranking.average_precisions((1.0 - pairs.labels[None]).astype(np.float64)).tolist() == [0.0]


def first_of(pairs: BatchScores, count: int) -> BatchScores:
    return BatchScores(pairs.cosines[:count], pairs.means[:count], pairs.left[:count], pairs.labels[:count])


def test_the_choice_does_not_depend_on_how_many_draws_are_in_memory(monkeypatch):
    pairs = drawn(30, 0.5)
    whole = compare_choices(pairs, 0.5, generator(3, "neighbourhood", 2))
    monkeypatch.setattr(neighbourhood_choice, "AT_ONCE", 7000)
    assert compare_choices(pairs, 0.5, generator(3, "neighbourhood", 2)) == whole
