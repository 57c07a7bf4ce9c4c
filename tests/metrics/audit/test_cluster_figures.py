"""Figures of clusters from drawn records: by hand, against the whole population, and against exact limits."""

from functools import partial

import numpy as np
import pytest
from scipy.stats import beta

from al_ray.apps.audit.of_clusters.drawing import Clusters, RecordDraw, answers_of, draw_records
from al_ray.apps.matching.clusters.quality import b_cubed, pairwise_f1
from al_ray.core.errors import BadOption
from al_ray.core.labels import NO, UNSURE, YES
from al_ray.core.pairs import as_pairs
from al_ray.core.rng import generator
from al_ray.metrics.audit.cluster_figures import (
    ClassSums,
    ClusterFigures,
    RecordAnswers,
    SizeClass,
    allot,
    limits_of,
    size_classes,
)
from al_ray.metrics.average_precision import Estimate

RNG = partial(generator, 0, "audit-estimate")
NONE = (0, 0, 0)
FIGURES = (
    *("pair_precision", "direct_precision", "implied_precision", "pair_recall", "pair_f1"),
    *("b_cubed_precision", "b_cubed_recall", "b_cubed_f1"),
)


def known(figure: Estimate | None) -> Estimate:
    assert figure is not None
    return figure


def pair_of(yes: int, candidate: int | None = None) -> RecordAnswers:
    """A record in a cluster of two, and perhaps with one candidate."""
    return RecordAnswers((yes, 1, 1), NONE, NONE if candidate is None else (candidate, 1, 1))


def test_figures_of_a_few_records_by_hand():
    # 20 records, 10 of them in 5 clusters of two; 4 of these are drawn. 3 have their partner right. 4 of the 10 have a
    # candidate, of which 2 are drawn: one has lost a match, beside a partner that is right.
    two = SizeClass(2, 2, 10, 4, pairs=10, direct=10, implied=0, part=5, candidates=4, losses=2)
    answers = (pair_of(1), pair_of(1, 1), pair_of(1, 0), pair_of(0))
    figures = ClusterFigures(20, (two,), (answers,), RNG)
    assert figures.pair_precision is not None
    assert figures.implied_precision is None
    assert known(figures.pair_precision).value == known(figures.direct_precision).value == 3 / 4
    # 7.5 of the 10 ordered pairs match, and half of the 4 candidates.
    assert known(figures.pair_recall).value == 7.5 / 9.5
    assert known(figures.pair_f1).value == pytest.approx(2 * 7.5 / (10 + 7.5 + 2))
    # A wrong partner costs a record one half; 5 of the 20 records' sum is in question.
    assert known(figures.b_cubed_precision).value == (15 + 5 * 3 / 4) / 20
    # Where the candidate matches, 2 of 3 records are found: the loss is 1/3 of at most 1/2; so it is (2/3 + 0) / 2 of
    # at most 2.
    assert known(figures.b_cubed_recall).value == pytest.approx(1 - 2 * (2 / 3) / 2 / 20)
    precision, recall = known(figures.b_cubed_precision).value, known(figures.b_cubed_recall).value
    assert known(figures.b_cubed_f1).value == pytest.approx(2 * precision * recall / (precision + recall))
    for name in FIGURES:
        one = getattr(figures, name)
        assert one is None or 0 <= one.low < one.value < one.high <= 1


def test_a_record_of_a_large_cluster_by_hand():
    # 2 of the 4 direct others were asked, both match; 1 of 2 implied ones; all 3 candidates, 1 matches.
    record = RecordAnswers((2, 2, 4), (1, 2, 6), (1, 3, 3))
    assert record.inside_share == (1 * 4 + 0.5 * 6) / 10
    # 8 records found, with itself, and 1 lost: a loss of 1/9 of at most 3/4.
    assert record.loss_share == pytest.approx((1 / 9) / (3 / 4))
    assert not record.complete
    assert RecordAnswers((0, 0, 1), (1, 1, 1), NONE).inside_share is None, "of a kind nothing is known"
    assert RecordAnswers(NONE, NONE, (1, 2, 2)).loss_share == pytest.approx((1 / 2) / (2 / 3))
    assert RecordAnswers((0, 0, 1), NONE, (1, 2, 2)).loss_share is None


def random_clusters(seed: int, n: int = 60) -> tuple[np.ndarray, np.ndarray, Clusters]:
    """Clusters of at most 11, all of whose lost pairs are among the candidates."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 20, n)
    delivered = np.where(rng.random(n) < 0.25, rng.integers(0, 30, n), true)
    left, right = np.triu_indices(n, 1)
    inside, match = delivered[left] == delivered[right], true[left] == true[right]
    direct, candidates = inside & (rng.random(len(left)) < 0.5), ~inside & (match | (rng.random(len(left)) < 0.02))
    pairs = [as_pairs(left[which], right[which]) for which in (direct, candidates)]
    clusters = Clusters.of(delivered, pairs[0], pairs[1], 2.0 * match[candidates] + rng.random(candidates.sum()))
    assert clusters.sizes.max() <= 11
    assert np.bincount(true).max() <= 11
    return delivered, true, clusters


def labels_of(draws: list[RecordDraw], true: np.ndarray) -> dict[tuple[int, int], int]:
    return {pair: YES if true[pair[0]] == true[pair[1]] else NO for one in draws for pair in one.pairs}


@pytest.mark.parametrize("seed", range(5))
def test_if_all_records_are_drawn_the_figures_are_those_of_all_pairs(seed: int):
    delivered, true, clusters = random_clusters(seed)
    classes, draws = draw_records(clusters, 60, seed)
    figures = ClusterFigures(60, classes, answers_of(classes, draws, labels_of(draws, true)), RNG, 100)
    pairs, both = pairwise_f1(delivered, true), b_cubed(delivered, true)
    expected = {
        "pair_precision": pairs.precision, "pair_recall": pairs.recall, "pair_f1": pairs.f1,
        "b_cubed_precision": both.precision, "b_cubed_recall": both.recall, "b_cubed_f1": both.f1,
    }  # fmt: skip
    direct = {tuple(pair) for pair in clusters.direct.tolist()}
    inside = [(a, b) for a in range(60) for b in range(a + 1, 60) if delivered[a] == delivered[b]]
    for name, own in (("direct", True), ("implied", False)):
        right = [true[a] == true[b] for a, b in inside if ((a, b) in direct) == own]
        expected[f"{name}_precision"] = float(np.mean(right))
    for name, value in expected.items():
        one = getattr(figures, name)
        assert (one.value, one.low, one.high) == pytest.approx((value,) * 3), name


def test_estimates_are_unbiased_and_hold_the_truth():
    delivered, true, clusters = random_clusters(1)
    pairs, both, found = pairwise_f1(delivered, true), b_cubed(delivered, true), list[ClusterFigures]()
    for seed in range(120):
        classes, draws = draw_records(clusters, 30, seed)
        answers = answers_of(classes, draws, labels_of(draws, true))
        found.append(ClusterFigures(60, classes, answers, partial(generator, seed, "audit-estimate"), 200))
    for name, value in (("pair_precision", pairs.precision), ("b_cubed_precision", both.precision),
                        ("b_cubed_recall", both.recall), ("pair_recall", pairs.recall)):  # fmt: skip
        estimates = [getattr(one, name) for one in found]
        values = np.array([one.value for one in estimates])
        assert abs(values.mean() - value) < 4 * values.std() / np.sqrt(len(values)) + 0.002, name
        assert sum(one.low <= value <= one.high for one in estimates) >= 112, name


def test_limits_of_yes_and_no_are_exact():
    shares = np.repeat([1.0, 0.0], [17, 3])
    class_sums = ClassSums(2.0, np.inf, np.full(20, 3.0), shares)
    low, high = limits_of([class_sums], 0.025, RNG)
    assert (low / 2, high / 2) == pytest.approx((beta.ppf(0.025, 17, 4), beta.ppf(0.975, 18, 3)), abs=0.01)
    assert class_sums.draws_of == 20
    assert ClassSums(1.0, np.inf, np.array([1.0, 3.0]), np.array([0.0, 1.0])).draws_of == pytest.approx(16 / 10)
    # All are drawn: nothing is left to chance.
    assert limits_of([ClassSums(2.0, 0.0, np.ones(20), shares)], 0.025, RNG) == pytest.approx((1.7, 1.7))
    assert limits_of([ClassSums(1.0, np.inf, np.empty(0), np.empty(0))], 0.025, RNG) == (0.0, 1.0)


def test_unsure_pairs_are_not_counted_and_widen_what_they_leave_open():
    _, true, clusters = random_clusters(2)
    classes, draws = draw_records(clusters, 60, 0)
    labels = labels_of(draws, true)
    some = sorted(labels)[::4]
    figures, fewer = (
        ClusterFigures(60, classes, answers_of(classes, draws, given), RNG)
        for given in (labels, labels | dict.fromkeys(some, UNSURE))
    )
    assert known(figures.pair_precision).high - known(figures.pair_precision).low < 1e-9
    assert known(fewer.pair_precision).low < known(figures.pair_precision).value < known(fewer.pair_precision).high


def test_draws_are_divided_by_records_and_pairs():
    sizes, candidates = np.array([1, 1, 2, 2, 3, 4, 5, 9]), np.array([0, 1, 0, 0, 0, 0, 0, 0])
    assert size_classes(sizes, candidates).tolist() == [-1, 0, 1, 1, 2, 2, 3, 4]
    # 5 each; then the most wished: records alone would give the last class no more.
    drawn = allot(np.array([900, 80, 20]), np.array([0.0, 100.0, 900.0]), 40)
    assert drawn.sum() == 40
    assert drawn.min() >= 5
    assert drawn[2] > drawn[1]
    assert allot(np.array([3, 50]), np.array([0.0, 50.0]), 99).tolist() == [3, 50]
    assert allot(np.array([9, 9]), np.array([1.0, 1.0]), 3).sum() == 3
    with pytest.raises(BadOption, match="give at least 2, one for each class"):
        allot(np.array([9, 9]), np.array([1.0, 1.0]), 1)


def test_large_clusters_are_asked_in_part_of_both_kinds_and_candidates_are_the_best():
    labels = np.repeat([0, 1], [40, 30])
    star = as_pairs(np.zeros(39, dtype=np.int64), np.arange(1, 40))
    chain = as_pairs(np.arange(40, 69), np.arange(41, 70))
    across, scores = as_pairs(np.zeros(20, dtype=np.int64), np.arange(40, 60)), np.arange(20) / 20
    twice = np.concatenate([across, across[:3][:, ::-1]])
    clusters = Clusters.of(labels, np.concatenate([star, chain]), twice, np.append(scores, [2, 0, 0]))
    assert clusters.candidates_of(0).tolist() == [40, 59, 58, 57, 56, 55, 54, 53, 52, 51]
    assert clusters.candidates_of(45).tolist() == [0]
    assert not len(clusters.candidates_of(65))
    _, draws = draw_records(clusters, 70, 0)
    of_row = {one.row: one for one in draws}
    assert len(of_row) == 70
    centre, other = of_row[0], of_row[7]
    assert (len(centre.direct), len(centre.implied), centre.all_direct, centre.all_implied) == (10, 0, 39, 0)
    assert (other.direct, len(other.implied), other.all_direct, other.all_implied) == ((0,), 9, 1, 38)
    assert 7 not in other.implied
    assert set(other.implied) <= set(range(1, 40))
