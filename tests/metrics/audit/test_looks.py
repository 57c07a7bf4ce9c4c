"""Looks at sizes that are fixed in advance: nested, each uniform, with intervals that all hold together."""

from math import comb

import numpy as np
import pytest

from al_ray.core.labels import NO, OPEN, UNSURE, YES
from al_ray.core.rng import generator
from al_ray.metrics.audit.looks import (
    WidthGoal,
    forecast,
    look_sizes,
    order_in_looks,
    prior_shares,
    shares_so_far,
)
from al_ray.metrics.audit.score_bands import BandAudit, allotted

NONE = np.empty(0), np.empty(0, dtype=np.uint8)


def uniform(size: int, labels: list[int]) -> tuple[BandAudit, np.ndarray]:
    """An audit of the precision of the first `size` pairs, of which the first ones are drawn, and their cosines."""
    cosines = np.linspace(0.9, 0.5, size)
    ranks = np.arange(len(labels))
    audit = BandAudit(cosines, size + 10, *NONE, ranks, np.array(labels, dtype=np.uint8), size, True)
    return audit, cosines[ranks]


@pytest.mark.parametrize(
    ("budget", "sizes"),
    [(1000, (125, 210, 354, 595, 1000)), (30, (20, 22, 24, 27, 30)), (21, (20, 21)), (7, (7,)), (1, (1,))],
)
def test_looks_grow_by_equal_factors_to_the_budget(budget, sizes):
    assert look_sizes(budget) == sizes


@pytest.mark.parametrize("sizes", [[300], [5, 40, 900], [100, 0, 3, 77]])
def test_each_look_spreads_its_pairs_evenly_over_bands_and_contains_the_one_before(sizes):
    total = min(120, sum(sizes))
    looks, shares = look_sizes(total), allotted(total, sizes)
    order = order_in_looks(looks, sizes, generator(1, "looks"))
    assert sorted(order.tolist()) == list(range(total))
    band = np.repeat(np.arange(len(sizes)), shares)
    for look in looks:
        assert np.bincount(band[order[:look]], minlength=len(sizes)).tolist() == list(allotted(look, sizes))


def test_every_pair_of_a_band_is_as_likely_in_the_first_look():
    rng = generator(2, "looks")
    first = np.zeros(40)
    for _ in range(2_000):
        first[order_in_looks((10, 40), [40], rng)[:10]] += 1
    # 500 are expected, with a standard deviation of 19.
    assert abs(first - 500).max() < 80


def test_an_interval_has_the_confidence_of_its_look():
    # 4 of 8 are labelled, all yes. With 4 matches that has the chance 1/70 = 1.4%, with 5 it has 5/70 = 7.1%.
    audit, cosines = uniform(8, [YES] * 4)
    alone, of_five = (WidthGoal("precision", 0.4, looks, 0.5) for looks in ((4,), (4, 5, 6, 7, 8)))
    assert (alone.confidence, of_five.confidence) == (0.95, pytest.approx(0.99))
    found = alone.interval(audit, cosines, 0, generator(0, "look"))
    assert found is not None
    assert (found.low, found.value, found.high) == (5 / 8, 1, 1)
    assert alone.reached(found)
    found = of_five.interval(audit, cosines, 0, generator(0, "look"))
    assert found is not None
    assert (found.low, found.high) == (4 / 8, 1)
    assert not of_five.reached(found)


@pytest.mark.parametrize(("size", "sampled", "yes"), [(60, 20, 13), (400, 50, 48), (400, 50, 1), (30, 29, 5)])
def test_limits_are_those_of_the_hypergeometric_distribution(size, sampled, yes):
    labels = [YES] * yes + [NO] * (sampled - yes)
    audit, cosines = uniform(size, [*labels, *[OPEN] * (size - sampled)])
    goal = WidthGoal("precision", 0.1, (sampled, size), 0.5)
    found = goal.interval(audit, cosines, 0, generator(3, "look"))
    assert found is not None

    def chance(matches: int, counts: range) -> float:
        ways = sum(comb(matches, count) * comb(size - matches, sampled - count) for count in counts)
        return ways / comb(size, sampled)

    tail = 0.025 / 2
    held = [
        k for k in range(size + 1)
        if chance(k, range(yes, sampled + 1)) > tail and chance(k, range(yes + 1)) > tail
    ]  # fmt: skip
    # By draws, so that a limit may be off by a match.
    assert abs(found.low * size - held[0]) <= 1
    assert abs(found.high * size - held[-1]) <= 1


def test_only_labels_of_a_look_count_and_unsure_ones_do_not():
    audit, cosines = uniform(10, [YES, UNSURE, NO, YES, NO, NO, NO, NO, NO, NO])
    goal = WidthGoal("precision", 0.1, (4, 10), 0.5)
    first, last = (goal.interval(audit, cosines, look, generator(0, "look")) for look in (0, 1))
    assert first is not None
    assert last is not None
    assert first.value == pytest.approx(2 / 3)
    assert last.value == pytest.approx(2 / 9)
    # The unsure pair matches or does not.
    assert (last.low, last.high) == (0.2, 0.3)


def test_a_forecast_counts_labels_until_the_width():
    # 10 of 20 pairs, all yes: with 14 matches that has the chance 0.5%, with 15 it has 1.6%, and 1.25% are allowed.
    audit, cosines = uniform(20, [OPEN] * 20)
    rng, every = generator(0, "forecast"), np.ones(21)
    for width, labels in ((0.3, 10), (0.2, 20)):
        goal = WidthGoal("precision", width, (10, 20), 0.5)
        found = forecast(goal, audit, cosines, 0, every, rng)
        assert set(found.labels) == {labels}
        assert (found.probable, found.most, found.width) == (labels, 20, 0)
    # Half of them match: far wider.
    assert forecast(WidthGoal("precision", 0.3, (10, 20), 0.5), audit, cosines, 0, every / 2, rng).probable == 20
    # A look that would be too wide: of 200 pairs 20 are the most.
    audit, cosines = uniform(200, [OPEN] * 20)
    found = forecast(WidthGoal("precision", 0.1, (10, 20), 0.5), audit, cosines, 0, np.full(201, 0.5), rng)
    assert (found.probable, found.reached) == (None, ())
    assert found.width > 0.4


def test_a_forecast_keeps_the_labels_that_are_there():
    audit, cosines = uniform(20, [YES] * 5 + [NO] * 5 + [OPEN] * 10)
    goal = WidthGoal("precision", 0.3, (10, 20), 0.5)
    found = forecast(goal, audit, cosines, 1, np.ones(21), generator(0, "forecast"))
    assert set(found.labels) == {20}
    assert found.width == 0


def test_shares_come_from_the_model_first_and_then_from_labels():
    audit, _ = uniform(3, [OPEN] * 3)
    assert prior_shares(audit, np.array([0.9, 0.5, 0.2])).tolist() == [0.9, 0.5, 0.2, 0]
    assert prior_shares(audit, None).tolist() == [0.5, 0.5, 0.5, 0]
    assert shares_so_far(audit, np.array([0.9, 0.5, 0.2, 0.1])).tolist() == [0.9, 0.5, 0.2, 0.1]
    audit, _ = uniform(3, [YES, YES, NO])
    assert shares_so_far(audit, np.full(4, 0.9))[:3].tolist() == pytest.approx([2 / 3] * 3)


@pytest.mark.parametrize("measure", ["ranked-recall", "recall", "average-precision"])
def test_figures_are_those_of_the_audit_but_wider(measure):
    rng = generator(4, "looks")
    cosines = np.linspace(0.9, 0.5, 100)
    ranks = np.sort(rng.choice(100, 60, replace=False))
    labels = np.where(rng.random(60) < 1 - ranks / 100, YES, NO).astype(np.uint8)
    audit = BandAudit(cosines, 100, *NONE, ranks, labels)
    widths = []
    for looks in ((60,), (60, 70, 80, 90, 100)):
        goal = WidthGoal(measure, 0.2, looks, 0.75)
        found = goal.interval(audit, cosines[ranks], 0, generator(5, "look"))
        assert found is not None
        widths.append((found.value, found.high - found.low))
    assert widths[0][0] == widths[1][0]
    assert 1.1 * widths[0][1] < widths[1][1] < 2 * widths[0][1]


def test_recall_alone_is_that_of_the_audit():
    audit, _ = uniform(100, [YES, NO] * 10)
    audit = BandAudit(audit.cosines, audit.total, *NONE, np.arange(0, 110, 5), np.tile([YES, NO], 11).astype(np.uint8))
    every = audit.at(0.7, generator(6, "looks"))
    for of_reach, expected in ((True, every.recall_of_reach), (False, every.recall)):
        found = audit.recall_at(0.7, generator(7, "looks"), of_reach)
        assert found is not None
        assert expected is not None
        assert found.value == expected.value
        assert found.low == pytest.approx(expected.low, abs=0.02)
        assert found.high == pytest.approx(expected.high, abs=0.02)
