"""Intervals from the sampling of the strata: by tables, by scipy, and by drawing again and again from what is known."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from al_ray.metrics.average_precision import Counts, StratumSummary, average_precision
from al_ray.metrics.evaluation import evaluate_counts
from al_ray.metrics.intervals import (
    average_precision_interval,
    effective_pairs_of_average_precision,
    effective_pairs_of_precision,
    false_positives_interval,
    gamma_quantile,
    precision_interval,
    unreached_share,
)


def counts_by(positives: Sequence[int], *negatives: Sequence[int]) -> Counts:
    """Counts at thresholds of no account: so many positives at or above each, so many sampled negatives."""
    return Counts(np.linspace(1, 0, len(positives)), np.array(positives), np.array(negatives))


@given(st.floats(0.05, 5000), st.sampled_from([0.025, 0.975]))
def test_gamma_quantiles_are_scipys(shape, share):
    assert gamma_quantile(shape, share) == pytest.approx(stats.gamma.ppf(share, shape), rel=2e-5, abs=1e-9)


@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [
        (0.5, 0.0004910345585876278, 2.5119430936574414),
        (4.7, 1.458071070950134, 9.805001487795035),
        (250.0, 219.96799563093822, 281.9257646721967),
        (1000.0, 938.9730184076873, 1062.9211512247894),
        # By Wilson and Hilferty; scipy has other digits from the seventh on.
        (1500.0, 1425.042049400667, 1576.8521161596225),
    ],
)
def test_gamma_quantiles_are_those_of_stored_intervals(shape, low, high):
    """Of the bisection that was here at commit aeef01d4."""
    assert gamma_quantile(shape, 0.025) == pytest.approx(low, rel=1e-12)
    assert gamma_quantile(shape, 0.975) == pytest.approx(high, rel=1e-12)


# Garwood (1936) as tables of the Poisson mean give it.
@pytest.mark.parametrize(
    ("seen", "low", "high"), [(0, 0, 3.689), (1, 0.0253, 5.572), (5, 1.623, 11.668), (10, 4.795, 18.390)]
)
def test_one_sampled_stratum_has_garwoods_interval_beside_what_was_counted(seen, low, high):
    # Seven near negatives were counted; a random one stands for 10^6, and the sample is no share to speak of.
    strata = [StratumSummary("near", 50, 50), StratumSummary("random", 10**4, 10**10)]
    found = false_positives_interval(counts_by([1], [7], [seen]), strata, 0)
    assert found.value == 7 + 1e6 * seen
    assert found.low == pytest.approx(7 + 1e6 * low, rel=1e-3, abs=1)
    assert found.high == pytest.approx(7 + 1e6 * high, rel=1e-3)


def test_a_threshold_with_no_sampled_pair_above_it_has_an_upper_bound():
    found = precision_interval(counts_by([10, 20], [0, 4]), [StratumSummary("random", 10**4, 10**8)], 0.2)
    assert (found.value, found.high) == (1, 1)
    assert found.low == pytest.approx(10 / (10 + 10**4 * 3.689), rel=1e-3)


def test_two_weights_have_fay_and_feuers_interval():
    # 4 pairs of weight 10 and 1 of weight 100: y = 140, v = 400 + 10,000; the upper end by y + 100, v + 10,000.
    found = false_positives_interval(
        counts_by([1], [4], [1]), [StratumSummary("band", 10**3, 10**4), StratumSummary("random", 10**3, 10**5)], 0
    )
    assert found.value == 140
    # Both samples are a share of their populations: 90% and 99% of the variance are left.
    v, c = 4 * 100 * 0.9 + 10_000 * 0.99, 100 * 0.99**0.5
    assert found.low == pytest.approx(stats.gamma.ppf(0.025, 140**2 / v, scale=v / 140))
    assert found.high == pytest.approx(
        stats.gamma.ppf(0.975, (140 + c) ** 2 / (v + c**2), scale=(v + c**2) / (140 + c)), rel=1e-6
    )


@given(st.integers(1, 40), st.integers(0, 40), st.integers(0, 200))
def test_no_end_contradicts_what_was_seen(size, hits, unsampled):
    hits = min(hits, size)
    found = false_positives_interval(counts_by([1], [hits]), [StratumSummary("random", size, size + unsampled)], 0)
    assert hits <= found.low <= found.value <= found.high <= hits + unsampled + 1e-9 * unsampled


def test_the_effective_number_of_pairs_of_one_weight_is_their_number():
    strata = [StratumSummary("near", 50, 50), StratumSummary("random", 100, 10**4)]
    assert effective_pairs_of_precision(counts_by([1, 2, 3], [9, 9, 9], [0, 1, 12]), strata).tolist() == [0, 1, 12]
    # Ten pairs of weight 1.1 beside one of weight 1000: (11 + 1000)^2 / (12.1 + 10^6).
    strata = [StratumSummary("band", 10, 11), StratumSummary("random", 100, 10**5)]
    assert effective_pairs_of_precision(counts_by([1], [10], [1]), strata)[0] == pytest.approx(1011**2 / (12.1 + 10**6))


def test_the_effective_number_behind_ap_weighs_pairs_by_their_effect():
    # One pair above both thresholds, 9 above the second alone. By dF of 1: falls of 0.5 * 1 / (1 + 5)^2 and
    # 0.5 * 2 / (2 + 50)^2 at the two; the first pair has both, the others the second.
    found = effective_pairs_of_average_precision(counts_by([1, 2], [1, 10]), [StratumSummary("random", 100, 500)])
    second = 0.5 * 2 / 52**2
    first = 0.5 / 36 + second
    assert found == pytest.approx((first + 9 * second) ** 2 / (first**2 + 9 * second**2))


def test_fewer_than_ten_pairs_behind_an_estimate_are_warned_of():
    strata = [StratumSummary("random", 10**4, 10**6)]
    few = evaluate_counts("dev", counts_by([10, 20], [3, 40]), strata, None, np.random.default_rng(0))
    assert any(words.startswith("P@R20 is carried by 3.0 sampled pairs") for words in few.warnings)
    assert any(words.endswith("not its value, which tends to be too high; sample more pairs") for words in few.warnings)
    many = evaluate_counts("dev", counts_by([10, 20], [30, 60]), strata, None, np.random.default_rng(0))
    assert many.warnings == []
    # Three pairs of 100 beside 10^6 that were counted: they carry nothing.
    near = StratumSummary("near", 10**6, 10**6)
    counted = evaluate_counts(
        "dev", counts_by([10, 20], [10**6] * 2, [3, 3]), [near, *strata], None, np.random.default_rng(0)
    )
    assert counted.warnings == []


def test_the_unreached_share_is_that_of_thresholds_above_the_first_sampled_pair():
    # Precision 1 / (1 + 1) and 2 / (2 + 1 + 100), of half the positives each; a counted pair is no sampled one.
    counts, near = counts_by([1, 2], [1, 1], [0, 1]), StratumSummary("near", 50, 50)
    found = unreached_share(counts, [near, StratumSummary("random", 10, 1000)])
    assert found == pytest.approx((1 / 2) / (1 / 2 + 2 / 103))
    assert unreached_share(counts, [near, StratumSummary("random", 10, 10)]) == 0


@dataclass(frozen=True)
class Setting:
    """A known task: positives at each threshold, and how many negatives of each stratum lie between thresholds."""

    positives: np.ndarray
    between: np.ndarray
    strata: tuple[StratumSummary, ...]

    @property
    def truth(self) -> Counts:
        return Counts(
            np.arange(len(self.positives), dtype=np.float64)[::-1], self.positives, np.cumsum(self.between, axis=1)
        )

    def drawn(self, rng: np.random.Generator) -> Counts:
        rows = []
        for numbers, stratum in zip(self.between, self.strata, strict=True):
            rest = stratum.population - int(numbers.sum())
            if stratum.size < 0.01 * stratum.population:
                rows.append(rng.binomial(numbers, stratum.size / stratum.population))
            else:
                every = np.append(numbers, rest)
                rows.append(rng.multivariate_hypergeometric(every, stratum.size, method="marginals")[:-1])
        return replace(self.truth, negatives=np.cumsum(rows, axis=1))


def ranked(positives: int, separation: float, *strata: tuple[int, int, float]) -> Setting:
    """Normal scores, of the positives `separation` above; strata as (population, size, mean score)."""
    rng = np.random.default_rng(0)
    thresholds = np.sort(rng.normal(separation, 1, positives))[::-1]
    between = []
    for population, _, mean in strata:
        above = stats.norm.sf(thresholds - mean)
        shares = np.diff(above, prepend=0)
        between.append(rng.multinomial(population, np.append(shares, 1 - above[-1]))[:-1])
    extents = tuple(StratumSummary(f"{n}", size, population) for n, (population, size, _) in enumerate(strata))
    return Setting(np.arange(1, positives + 1), np.array(between), extents)


def risen(positives: int, met: float, weight: int, power: float) -> Setting:
    """So many sampled pairs are met above the lowest threshold, coming as a power of the positives above."""
    rng, true = np.random.default_rng(0), np.arange(1, positives + 1)
    between = rng.poisson(np.diff((true / positives) ** power * met * weight, prepend=0))
    return Setting(true, between[None], (StratumSummary("random", 10**5, 10**5 * weight),))


GOOD, HUGE = 10**4, 10**8
SETTINGS = {
    "many hits": ranked(300, 4, (HUGE, 10**7, 0)),
    "weight 1e2, few hits": ranked(100, 5, (10**6, GOOD, 0)),
    "weight 1e2, fewer": ranked(100, 4, (10**5, 10**3, 0)),
    "weight 1e2, first positives alone": ranked(100, 3, (HUGE, 10**6, 0)),
    "weight 1e3, good ranker": ranked(200, 4, (10**7, GOOD, 0)),
    "weight 1e3, better ranker": ranked(200, 5, (10**7, GOOD, 0)),
    "weight 1e4, good ranker": ranked(200, 4, (HUGE, GOOD, 0)),
    "weight 1e2, bad ranker": ranked(200, 1, (10**6, GOOD, 0)),
    "weight 1e4, bad ranker": ranked(200, 1, (HUGE, GOOD, 0)),
    "weight 10, bad ranker": ranked(100, 1.5, (10**5, GOOD, 0)),
    "near and random": ranked(200, 4, (10**5, 10**5, 1.5), (HUGE, 10**5, 0)),
    "near and random, few hits": ranked(200, 4.5, (GOOD, GOOD, 2), (HUGE, GOOD, 0)),
    "three bands": ranked(200, 4, (GOOD, GOOD, 2.5), (10**5, 10**3, 1.5), (10**6, 10**3, 0.7), (HUGE, GOOD, -0.5)),
    "four bands": ranked(200, 5, (GOOD, 10**3, 2.5), (10**5, 10**3, 1.5), (10**6, 10**3, 0.7), (HUGE, GOOD, -0.5)),
    "half the population": ranked(150, 3, (2 * 10**5, 10**5, 0)),
    "half the population, few hits": ranked(50, 4, (2 * GOOD, GOOD, 0)),
} | {
    f"{met:g} met, weight {weight}, power {power:g}": risen(150, met, weight, power)
    for met in (0.5, 1, 2, 5, 20)
    for weight in (10**2, 10**4)
    for power in (0.3, 1, 3)
}  # fmt: skip


# The first is like the case in which a user noticed the bias: the nearest 10^5 pairs are counted, and of 10^8 others
# 3 * 10^5 are sampled.
BIASED = {
    "AP 20%": ranked(253, 4, (10**5, 10**5, 1.3), (HUGE, 3 * 10**5, 0)),
    "constant low precision": SETTINGS["20 met, weight 10000, power 1"],
}


@pytest.mark.parametrize("name", BIASED)
def test_an_estimate_that_is_too_high_on_average_has_a_warning_of_it_and_an_interval_that_holds(name, monkeypatch):
    monkeypatch.setattr("al_ray.metrics.intervals.REPLICATES", 150)
    setting, rng = BIASED[name], np.random.default_rng(1)
    exact = average_precision(setting.truth, np.ones(len(setting.strata)))
    found = [evaluate_counts("dev", setting.drawn(rng), setting.strata, None, rng) for _ in range(100)]
    assert np.mean([each.average_precision.value for each in found]) > 1.15 * exact
    assert np.mean([each.average_precision.low <= exact <= each.average_precision.high for each in found]) >= 0.9
    too_high = [each for each in found if each.average_precision.value > 1.15 * exact]
    assert np.mean([any("AP tends to be too high" in words for words in each.warnings) for each in too_high]) >= 0.95


def simulated(setting: Setting, draws: int) -> tuple[float, float, float, str]:
    """Share of AP's intervals that hold the full count; their mean width; the estimates' own 95% spread; their bias."""
    rng = np.random.default_rng(1)
    exact = average_precision(setting.truth, np.ones(len(setting.strata)))
    found = [average_precision_interval(setting.drawn(rng), setting.strata, rng) for _ in range(draws)]
    held = np.mean([each.low <= exact <= each.high for each in found])
    low, high = np.quantile([each.value for each in found], (0.025, 0.975))
    bias = f"full count {exact:.3f}, mean estimate {np.mean([each.value for each in found]):.3f}"
    return float(held), float(np.mean([each.high - each.low for each in found])), float(high - low), bias


QUICK = ("weight 1e3, good ranker", "near and random", "half the population, few hits", "1 met, weight 100, power 1")


@pytest.mark.parametrize("name", QUICK)
def test_most_intervals_of_ap_hold_the_full_count_and_are_no_wider_than_need_be(name, monkeypatch):
    monkeypatch.setattr("al_ray.metrics.intervals.REPLICATES", 150)
    held, width, spread, _ = simulated(SETTINGS[name], 150)
    assert held >= 0.9
    assert width <= 2 * spread


# The constants of metrics/intervals.py were chosen on these very settings. Of 20 others, looked at once after that, 19
# held in at least 91% (a t distribution's tail, weight 1e3: 87%), and 18 were narrow enough (the others as below).
# Where both cannot be: in most draws no sampled pair is met above the thresholds that matter, so that the estimate
# says one and the same too high AP, and spreads by less than it is wrong, or than a pair not met could change it.
WIDE = {"near and random, few hits": 3, "0.5 met, weight 100, power 3": 3}


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_in_every_setting_intervals_of_ap_hold_the_full_count(name):
    held, width, spread, bias = simulated(SETTINGS[name], 300)
    print(f"{name}: {100 * held:.1f}% held, {width:.3f} wide, {spread:.3f} spread, {width / spread:.2f}; {bias}")
    assert held >= 0.9
    assert width <= WIDE.get(name, 2) * spread


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_in_every_setting_intervals_at_one_threshold_hold_the_full_count(name):
    setting, rng = SETTINGS[name], np.random.default_rng(1)
    for at in (0, len(setting.positives) // 5, len(setting.positives) - 1):
        exact = float(setting.truth.negatives[:, at].sum())
        found = [false_positives_interval(setting.drawn(rng), setting.strata, at) for _ in range(300)]
        assert np.mean([each.low <= exact <= each.high for each in found]) >= 0.93
