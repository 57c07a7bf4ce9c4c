"""Means over seeds, paired differences and labels to reach a figure: by hand, against SciPy, and by a law."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from al_ray.active_learning.config import RunConfig
from al_ray.apps.reporting.run_records import Round, Run, SplitEvaluation, TaskSummary
from al_ray.apps.reporting.seed_statistics import LabelsToReach, differences, labels_to_reach, mean_interval, spread
from al_ray.metrics.average_precision import Estimate


def run(seed: int, *points: tuple[int, float | None]) -> Run:
    """A run whose rounds ended with so many labels and such an AP on dev."""
    rounds = []
    for number, (labels, ap) in enumerate(points, start=1):
        splits = {} if ap is None else {"dev": SplitEvaluation(Estimate(ap, ap, ap), Estimate(ap, ap, ap), 1, 10, True)}
        rounds.append(Round(number, labels, 0, labels, 0, {}, splits))
    return Run(f"run-{seed}", RunConfig(task="task", seed=seed), TaskSummary("d", "task"), tuple(rounds))


def ap_of(run: Run, labels: int) -> float | None:
    one = run.at(labels)
    return one.splits["dev"].average_precision.value if one is not None and "dev" in one.splits else None


@pytest.mark.parametrize("value", [0.48592769656281265, 0.1])
@pytest.mark.parametrize("count", [1, 3, 6, 500])
def test_the_mean_of_equal_values_is_that_value(value, count):
    # The sum is rounded: the mean of six times the first value lies above it.
    found = spread([value] * count)
    assert found is not None
    assert (found.low, found.mean, found.high) == (value, value, value)


def test_a_spread_is_a_mean_with_its_ends_by_hand():
    found = spread([0.1, 0.2, 0.6])
    assert found is not None
    # Deviations from the mean 0.3: -0.2, -0.1, 0.3; their squares sum to 0.14, over 2.
    assert (found.count, found.low, found.high) == (3, 0.1, 0.6)
    assert found.mean == pytest.approx(0.3)
    assert found.deviation == pytest.approx(0.07**0.5)
    assert spread([]) is None
    assert spread([5.0]).deviation == 0  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize("count", [3, 4, 10, 31])
def test_the_interval_of_three_seeds_or_more_is_students(count):
    values = np.random.default_rng(count).normal(size=count).tolist()
    low, high = stats.t.interval(0.95, count - 1, np.mean(values), stats.sem(values))
    made = mean_interval(values)
    assert made is not None
    assert made[1] == "95%, Student's t"
    assert (made[0].low, made[0].high) == (pytest.approx(low, abs=1e-3), pytest.approx(high, abs=1e-3))


def test_the_interval_of_many_seeds_is_a_little_too_wide():
    values = np.random.default_rng(0).normal(size=200).tolist()
    low, high = stats.t.interval(0.95, 199, np.mean(values), stats.sem(values))
    made = mean_interval(values)
    assert made is not None
    assert made[0].low < low < high < made[0].high
    assert made[0].high - made[0].low == pytest.approx(high - low, rel=0.05)


def test_two_seeds_give_their_ends_and_one_gives_none():
    assert mean_interval([1.0, 3.0]) == (Estimate(2.0, 1.0, 3.0), "min to max")
    assert mean_interval([1.0]) == (Estimate(1.0, 1.0, 1.0), "one seed")
    assert mean_interval([]) is None


def test_differences_are_of_one_seed_at_the_most_labels_that_both_have():
    ours = [run(0, (10, 0.2), (20, 0.5), (40, 0.9)), run(1, (10, 0.3), (20, 0.4)), run(2, (20, 0.9)), run(3, (30, 0.1))]
    theirs = [run(1, (20, 0.1)), run(0, (10, 0.1), (20, 0.3), (40, None)), run(3, (20, 0.1))]
    found = differences(ours, theirs, ap_of)
    # Seed 0 was not measured at 40 by the other; seed 2 has no other; those of seed 3 never have equally many labels.
    assert [(one.seed, one.labels) for one in found] == [(0, 20), (1, 20)]
    assert [one.value for one in found] == [pytest.approx(0.2), pytest.approx(0.3)]


def test_a_seed_is_compared_once():
    assert len(differences([run(0, (10, 0.2)), run(0, (10, 0.3))], [run(0, (10, 0.1))], ap_of)) == 1


def test_labels_to_reach_lie_on_the_line_between_rounds_by_hand():
    points = [(100, 0.1), (200, 0.3), (400, 0.2), (800, 0.4)]
    # 0.2 lies half way from 0.1 to 0.3; 0.35 three quarters of the way from 0.2 to 0.4.
    assert labels_to_reach(points, 0.2) == LabelsToReach(150)
    between = labels_to_reach(points, 0.35)
    assert between is not None
    assert between.labels == pytest.approx(700)
    assert labels_to_reach(points, 0.4) == LabelsToReach(800)
    assert labels_to_reach(points, 0.1) == LabelsToReach(100, at_most=True)
    assert labels_to_reach(points, 0.41) is None
    assert labels_to_reach([], 0.1) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0, 1))
def test_what_is_reached_is_between_the_rounds_around_it(figures, target):
    points = [(100 * place, figure) for place, figure in enumerate(figures, start=1)]
    found = labels_to_reach(points, target)
    assert (found is None) == (max(figures) < target)
    if found is not None:
        after = next(labels for labels, figure in points if figure >= target)
        assert after - 100 <= found.labels <= after or found == LabelsToReach(100, at_most=True)
        assert (
            np.interp(found.labels, [labels for labels, _ in points], figures) == pytest.approx(target) or found.at_most
        )
