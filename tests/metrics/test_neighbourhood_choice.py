"""The choice of a neighbourhood: likelihoods by another program, what a selection leaves as it is, and no jumps."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from al_ray.metrics.neighbourhood_choice import NUMBERS, PRIORS, SPREAD, BatchScores, choose, log_likelihoods


def drawn(count: int, number: float, seed: int = 0) -> BatchScores:
    """Pairs of as many left texts, whose log-odds of a match are 12 (cosine - number * mean - boundary)."""
    rng = np.random.default_rng(seed)
    means = rng.uniform(0.3, 0.9, count)
    cosines = means - 0.3 + 0.3 * rng.normal(size=count)
    odds = 12 * (cosines - number * means - (0.4 - 0.6 * number))
    labels = (rng.uniform(size=count) < 1 / (1 + np.exp(-odds))).astype(np.uint8)
    return BatchScores(cosines, means, np.arange(count), labels)


def near_boundary(pairs: BatchScores, number: float, taken: np.ndarray, count: int) -> np.ndarray:
    """The pairs beside those that are taken whose scores by a number are nearest to where p = 1/2, as a run asks."""
    scores = pairs.cosines - number * pairs.means
    order = np.argsort(np.abs(scores - (0.4 - 0.6 * number)))
    return order[~np.isin(order, taken)][:count]


def part(pairs: BatchScores, rows: np.ndarray) -> BatchScores:
    return BatchScores(pairs.cosines[rows], pairs.means[rows], pairs.left[rows], pairs.labels[rows])


def chosen_in_rounds(number: float, seed: int, rounds: int = 8, count: int = 60) -> list[float]:
    """What is chosen in each round of a run whose batches are near the boundary by the number of the round before."""
    pairs, batches, taken = drawn(3000, number, seed), list[np.ndarray](), np.empty(0, dtype=np.int64)
    chosen = [choose([], both_sides=False).neighbourhood]
    for _ in range(rounds):
        batch = near_boundary(pairs, chosen[-1], taken, count)
        taken = np.concatenate([taken, batch])
        batches.append(log_likelihoods(part(pairs, batch)))
        chosen.append(choose(batches, both_sides=False).neighbourhood)
    return chosen


def test_likelihoods_are_the_best_of_a_logistic_regression_by_another_program():
    pairs = drawn(60, 0.5)
    found, spread = log_likelihoods(pairs), pairs.cosines.std()

    def loss(at: np.ndarray, scores: np.ndarray) -> float:
        logits = at[0] * scores + at[1]
        return (np.logaddexp(0, logits) - pairs.labels * logits).sum() + (at**2).sum() / (2 * SPREAD**2)

    for number, value in zip(NUMBERS, found, strict=True):
        scores = pairs.cosines - number * pairs.means
        scores = (scores - scores.mean()) / spread
        best = min(minimize(loss, start, args=(scores,), tol=1e-12).fun for start in ([0, 0], [3, 0], [1, 1]))
        assert value == pytest.approx(-best, abs=1e-6)


@pytest.mark.parametrize("number", [0.0, 0.4, 0.8])
def test_the_number_of_the_labels_is_found_from_pairs_that_no_number_chose(number):
    choice = choose([log_likelihoods(drawn(400, number, seed)) for seed in range(4)], both_sides=False)
    assert choice.low - 0.05 <= number <= choice.high + 0.05
    assert abs(choice.neighbourhood - number) < 0.1


@pytest.mark.parametrize("number", [0.1, 0.5, 0.9])
def test_batches_near_a_boundary_lead_to_the_number_of_the_labels_without_jumps(number):
    # 60 labels a round, as on Amazon-Google, where the earlier rule went from 1 to 0 in one of them.
    runs = np.array([chosen_in_rounds(number, seed) for seed in range(10)])
    assert np.abs(runs[:, -1] - number).mean() < 0.15
    assert np.abs(np.diff(runs, axis=1)).max() < 0.4


def test_the_order_of_batches_does_not_matter_and_more_of_them_narrow_the_interval():
    batches = [log_likelihoods(drawn(200, 0.3, seed)) for seed in range(6)]
    assert choose(batches, both_sides=False) == choose(batches[::-1], both_sides=False)
    widths = [choice.high - choice.low for choice in (choose(batches[:count], both_sides=False) for count in (0, 1, 6))]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < widths[0] / 2


def test_labels_that_say_nothing_leave_the_prior():
    pairs = drawn(40, 0.5)
    none = part(pairs, np.arange(0))
    batches = [log_likelihoods(one) for one in (
        none, replace(pairs, labels=0 * pairs.labels), replace(pairs, labels=0 * pairs.labels + 1),
    )]  # fmt: skip
    assert not np.any(batches)
    for both, (mean, deviation) in enumerate(PRIORS):
        choice = choose(batches, both_sides=bool(both))
        assert choice == choose([], both_sides=bool(both))
        # At a = 0 the prior ends two deviations below its mean.
        assert choice.neighbourhood == pytest.approx(mean, abs=0.02)
        assert (choice.low, choice.high) == pytest.approx((mean - 1.8 * deviation, mean + 1.8 * deviation), abs=0.05)


def test_pairs_of_one_left_text_count_as_one():
    pairs = drawn(50, 0.2)
    assert log_likelihoods(replace(pairs, left=np.arange(50) // 5)) == pytest.approx(log_likelihoods(pairs) / 5)


def test_separable_labels_and_equal_cosines_have_finite_likelihoods():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 10).astype(np.uint8)
    for cosines in (labels.astype(np.float64), np.zeros(20), 1.0 - labels.astype(np.float64)):
        found = log_likelihoods(BatchScores(cosines, rng.uniform(size=20), np.arange(20), labels))
        assert np.isfinite(found).all()
        assert (found <= 0).all()
