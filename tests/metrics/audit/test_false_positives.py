"""The audit's arithmetic: the paper's own figures, exact limits by scipy, and simulated people whose truth is known."""

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, hypergeom

from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import NO, OPEN, UNSURE, YES
from al_ray.core.rng import generator
from al_ray.core.scorer import Labels
from al_ray.metrics.audit.false_positives import (
    TAIL,
    FalsePositiveSample,
    corrected_precision,
    draw_above,
    error_share,
    matching_share,
    possible,
    threshold_at,
)
from al_ray.metrics.audit.score_bands import BandAudit, allotted, bands, draw_ranks, ranked
from al_ray.metrics.average_precision import Ints, StratumSummary

NO_RANKS, NONE = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint8)


def near(above: int, errors: int, matches: int, silent: int = 0) -> FalsePositiveSample:
    return FalsePositiveSample(StratumSummary("near", 10_000, 10_000), above, errors, matches, silent)


def rand(above: int, errors: int, matches: int, silent: int = 0) -> FalsePositiveSample:
    return FalsePositiveSample(StratumSummary("random", 1_000, 100_000), above, errors, matches, silent)


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("false_positives", "score_bands"):
        monkeypatch.setattr(f"al_ray.metrics.audit.{module}.DRAWS", 1000)


def test_the_precision_of_a_model_trained_on_uncertain_pairs_is_the_papers():
    # 5.3: 55.1% by imputed labels; of 50 near putative errors 32% were real, and none was random: 79.3%.
    # With 551 positives there are 449 putative errors: 551 / (551 + 0.32 * 449) = 0.793.
    found = corrected_precision(551, [near(449, 16, 34), rand(0, 0, 0)], generator(0, "x"))
    assert found.value == pytest.approx(551 / (551 + 0.32 * 449))
    assert round(found.value, 3) == 0.793


def test_every_sampled_error_stands_for_its_weight():
    # Eq. 14: 8 of 12 random ones are real and stand for 100 each: 2/3 * 100 * 12 = 800; near ones 0.36 * 300 = 108.
    strata = [near(300, 18, 32), rand(12, 8, 4)]
    assert corrected_precision(200, strata, generator(0, "x")).value == pytest.approx(200 / (200 + 108 + 800))
    # Of the 200 + 300 + 1,200 pairs there, the 908 errors match not.
    assert matching_share(200, strata, generator(0, "x")).value == pytest.approx(1 - 908 / 1700)


def test_where_nobody_answered_the_imputed_labels_stand_and_the_interval_says_that_anything_may_be():
    found = corrected_precision(100, [near(100, 0, 0, silent=50)], generator(0, "x"))
    assert (found.value, found.low) == (0.5, 0.5)
    assert found.high == 1
    share = error_share(near(100, 0, 0, silent=50), generator(0, "x"))
    assert (share.value, share.low, share.high) == (1, 0, 1)


def test_a_stratum_without_putative_errors_may_hide_what_its_sample_could_miss():
    # None of 1,000 of 100,000 reaches: with 97.5% at most k, where (1 - k/10^5)^1000 = 0.025, about 368.
    found = corrected_precision(1000, [rand(0, 0, 0)], generator(0, "x"))
    assert (found.value, found.high) == (1, 1)
    assert found.low == pytest.approx(1000 / 1368, abs=0.01)


def test_what_was_labelled_whole_has_no_interval():
    found = corrected_precision(10, [near(20, 5, 15)], generator(0, "x"))
    assert (found.low, found.value, found.high) == pytest.approx((10 / 15, 10 / 15, 10 / 15))
    share = matching_share(10, [near(20, 5, 15)], generator(0, "x"))
    assert (share.low, share.value, share.high) == pytest.approx((25 / 30,) * 3)


def test_both_extremes_of_what_nobody_knows():
    # 10 silent: were all matches, 10 of 50 are errors; were none, 20 of 50.
    strata = near(100, 10, 30, silent=10)
    assert [strata.settled(match).share for match in (True, False)] == [0.2, 0.4]


def test_the_threshold_of_a_recall_is_the_first_that_reaches_it():
    scores = np.array([0.2, 0.9, 0.5, 0.5, 0.1])
    assert [threshold_at(scores, recall) for recall in (0.2, 0.21, 0.6, 0.61, 1)] == [0.9, 0.5, 0.5, 0.2, 0.1]
    # 100 * 0.55 is above 55 in floating point; the 55th of 100 positives reaches a recall of 0.55.
    many = np.arange(100, 0, -1) / 100
    assert [threshold_at(many, recall) for recall in (0.55, 0.28, 0.14, 0.07)] == [0.46, 0.73, 0.87, 0.94]
    for recall in (0, 1.1, float("nan")):
        with pytest.raises(BadOption, match="`at_recall`"):
            threshold_at(scores, recall)
    with pytest.raises(BadFile, match="no positive"):
        threshold_at(np.empty(0), 0.2)


def test_a_pair_at_the_threshold_is_above_it_and_none_is_drawn_twice():
    scores = np.array([0.5, 0.4, 0.9, 0.5])
    places, above = draw_above(scores, 0.5, 10, generator(0, "x"))
    assert (sorted(places.tolist()), above) == ([0, 2, 3], 3)
    assert len(draw_above(scores, 0.5, 2, generator(0, "x"))[0]) == 2


@pytest.mark.parametrize(("found", "drawn", "population"), [(3, 20, 200), (0, 20, 200), (20, 20, 60), (7, 8, 9)])
def test_the_limits_of_a_population_are_exact(found: int, drawn: int, population: int):
    low = np.quantile(possible(found, drawn, population, "low", generator(0, "l")), TAIL, method="lower")
    high = np.quantile(possible(found, drawn, population, "high", generator(0, "h")), 1 - TAIL, method="higher")
    # What neither tail of the hypergeometric refuses.
    every = np.arange(found, population - drawn + found + 1)
    fit = every[(hypergeom.cdf(found, population, every, drawn) > TAIL)
                & (hypergeom.sf(found - 1, population, every, drawn) > TAIL)]  # fmt: skip
    assert abs(low - fit.min()) <= 2
    assert abs(high - fit.max()) <= 2


def test_the_limits_of_a_large_population_are_clopper_and_pearsons():
    many, rng = 10**16, generator(0, "x")
    low = np.quantile(possible(5, 50, many, "low", rng) / many, TAIL)
    high = np.quantile(possible(5, 50, many, "high", rng) / many, 1 - TAIL)
    assert (low, high) == pytest.approx((beta.ppf(TAIL, 5, 46), beta.ppf(1 - TAIL, 6, 45)), rel=0.03)


def test_the_corrected_precision_covers_the_truth(few_draws):
    # 300 known positives; near: 400 above, 240 of them errors; random: 40,000 pairs, 1,200 above, 900 of them errors.
    # Each time 1,000 of the random ones are sampled, and 50 and 50 putative errors labelled.
    truth, share = 300 / (300 + 240 + 900), (300 + 160 + 300) / (300 + 400 + 1200)
    covered = np.zeros(2)
    for seed in range(200):
        rng = generator(seed, "people")
        of_near = int(rng.hypergeometric(240, 160, 50))
        above = int(rng.hypergeometric(1200, 38_800, 1000))
        errors = int(rng.hypergeometric(900, 300, above))
        drawn = min(50, above)
        said = int(rng.hypergeometric(errors, above - errors, drawn))
        stratum = FalsePositiveSample(StratumSummary("random", 1000, 40_000), above, said, drawn - said, 0)
        strata = [near(400, of_near, 50 - of_near), stratum]
        found, match = corrected_precision(300, strata, rng), matching_share(300, strata, rng)
        covered += [found.low <= truth <= found.high, match.low <= share <= match.high]
    # 95% of 200 are 190; less than 181 would come with odds of 1 to 800.
    assert covered.min() >= 181


@pytest.mark.parametrize(
    ("reach", "total", "wanted"),
    [
        (100_000, 10**9, [(0, 100), (100, 1000), (1000, 10_000), (10_000, 100_000), (100_000, 10**9)]),
        (2_500, 2_500, [(0, 100), (100, 1000), (1000, 2500)]),
        (40, 90, [(0, 40), (40, 90)]),
        (0, 7, [(0, 7)]),
        (0, 0, []),
    ],
)
def test_bands_grow_tenfold_to_the_reach_and_the_rest_is_one(reach, total, wanted):
    assert list(bands(reach, total)) == wanted


def test_a_boundary_below_top_has_one_band_of_its_own():
    assert bands(1_601, 10**6, 1_000) == ((0, 100), (100, 1_000), (1_000, 1_601), (1_601, 10**6))
    assert bands(1_000, 10**6, 1_000) == bands(1_000, 10**6)
    assert bands(700, 700, 1_000) == bands(700, 700)


@pytest.mark.parametrize(
    ("top", "boundary", "total", "wanted"),
    [
        # Cosines 1, 0.9, ... 0.1. Pairs 0 to 4 reach 0.55, and the sixth shows that no further one does.
        (3, 0.55, 99, 6),
        (6, 0.55, 99, 6),
        (5, 0.55, 99, 6),
        (7, 0.55, 99, 7),
        # All that were looked at reach it: nobody knows how many more do, unless these are all pairs.
        (3, 0.05, 99, 3),
        (3, 0.05, 10, 10),
        (3, 2.0, 99, 3),
        (3, None, 99, 3),
        (30, None, 10, 10),
    ],
)
def test_pairs_are_ranked_down_to_the_boundary_if_that_is_within_reach(top, boundary, total, wanted):
    reach = ranked(1 - np.arange(10) / 10, top, total, boundary)
    assert reach == wanted
    if boundary == 0.55:
        assert BandAudit(1 - np.arange(reach) / 10, total, np.empty(0), NONE, NO_RANKS, NONE, top).reaches(boundary)


def test_a_band_without_a_yes_has_an_upper_bound_of_matches_and_one_without_a_label_has_none():
    found = audit([0, 1, 2, *[10] * 60], [YES, NO, YES, *[NO] * 60], total=1_000_010)
    (first, beyond), rng = found.bands, generator(0, "x")
    at_most = found.matches_in(beyond, rng)
    assert at_most is not None
    assert (at_most.value, at_most.low) == (0, 0)
    # 1 - 0.025^(1/60), Clopper and Pearson's upper end, of a million.
    assert at_most.high == pytest.approx(1e6 * (1 - 0.025 ** (1 / 60)), rel=0.05)
    within = found.matches_in(first, rng)
    assert within is not None
    assert within.value == pytest.approx(10 * 2 / 3)
    assert 2 <= within.low < within.high <= 9
    assert audit([0, 10], [YES, OPEN]).matches_in((10, 1000), rng) is None


def test_a_threshold_for_a_precision_is_the_lowest_labelled_pair_that_has_it():
    # The known match at 0.95 counts. Down to 0.8: 3 ranked pairs of which 2 of 3 labelled match, and the known one.
    found = audit([0, 1, 2, 9], [YES, NO, YES, NO])
    assert found.threshold_for(0.7) == pytest.approx(0.8)
    # At the top alone 1 of 1; with the second pair and the known one 2 of 3.
    assert found.threshold_for(0.9) == 1
    assert found.threshold_for(0.0) == pytest.approx(0.8), "at 0.1, the last one's cosine, pairs of the rest may be"
    assert audit([0, 1], [NO, NO]).threshold_for(0.9) is None


@given(st.integers(0, 500), st.lists(st.integers(1, 200), max_size=6))
def test_a_budget_is_spent_evenly_as_far_as_bands_hold_it(budget: int, sizes: list[int]):
    given_ = allotted(budget, sizes)
    assert sum(given_) == min(budget, sum(sizes))
    assert all(0 <= count <= size for count, size in zip(given_, sizes, strict=True))
    open_ = [count for count, size in zip(given_, sizes, strict=True) if count < size]
    assert all(count <= min(open_) + 1 for count in given_) if open_ else True


def audit(drawn: list[int], labels: list[int], reach: int = 10, total: int = 1000) -> BandAudit:
    """Ranks 0..reach at cosines 1, 0.9, ...; known pairs at 0.95 (a match) and -1 (none)."""
    known = np.array([0.95, -1.0]), np.array([YES, NO], dtype=np.uint8)
    return BandAudit(1 - np.arange(reach) / 10, total, *known, np.array(drawn), np.array(labels, dtype=np.uint8))


def test_precision_and_recall_at_a_threshold_by_hand():
    # The band (0, 10): of 5 answered 3 match. At 0.65 it is cut into 4 pairs (3 answered, 2 match) and 6 (2, 1).
    # Above: 4 pairs and a known match: (4 * 2/3 + 1) / 5. Below: 6 * 1/2 in reach, and in the rest 990 * 1/4.
    found = audit([0, 1, 3, 5, 9, 10, 10, 10, 10], [YES, NO, YES, YES, NO, NO, NO, NO, YES])
    at = found.at(0.65, generator(0, "x"))
    above = 4 * 2 / 3 + 1
    assert at.pairs == 5
    assert at.precision is not None
    assert at.precision.value == pytest.approx(above / 5)
    assert at.recall_of_reach is not None
    assert at.recall_of_reach.value == pytest.approx(above / (above + 3))
    assert at.recall is not None
    assert at.recall.value == pytest.approx(above / (above + 3 + 990 / 4))
    # 2 to 3 of the 4 match, and the known one.
    assert (at.precision.low, at.precision.high) == pytest.approx((3 / 5, 4 / 5))
    assert at.labels_for_half is None, "a match was found in the rest"
    on = found.at(float(found.cosines[3]), generator(0, "x"))
    assert (on.pairs, on.precision) == (at.pairs, at.precision), "a pair at the threshold reaches it"


def test_labels_of_the_rest_that_would_show_half():
    # All 10 labelled: 8 match above 0.25, none below, and the known one. 990 * ln(40) / 9 = 405.8.
    labels = [YES] * 8 + [NO] * 2
    found = audit([*range(10), 10], [*labels, NO])
    at = found.at(0.25, generator(0, "x"))
    assert at.labels_for_half == 406 == -(-990 * log(40) // 9)
    assert at.precision is not None
    assert at.precision.low == at.precision.high == 1
    assert at.recall_of_reach is not None
    assert at.recall_of_reach.low == 1
    # At 0.65 there are 4 and the known one, and 4 further below: 990 * ln(40) / (5 - 4).
    assert found.at(0.65, generator(0, "x")).labels_for_half == 990 == min(990, -(-990 * log(40) // 1))
    # At 0.45, 6 and the known one, and 2 below: 990 * ln(40) / 5 = 730.4.
    assert found.at(0.45, generator(0, "x")).labels_for_half == 731
    whole = audit(list(range(10)), labels, total=10).at(0.25, generator(0, "x"))
    assert whole.labels_for_half is None
    assert whole.recall is not None
    assert whole.recall.low == 1


def test_the_same_labels_of_the_rest_show_half_once_they_are_there():
    labels = [YES] * 8 + [NO] * 2
    found = audit([*range(10), *[10] * 410], [*labels, *[NO] * 410])
    at = found.at(0.25, generator(0, "x"))
    assert at.labels_for_half == 0
    assert at.recall is not None
    assert at.recall.low >= 0.5


def test_a_part_without_answers_takes_its_bands_share_and_an_unanswered_band_says_nothing():
    found = audit([0, 1, 10], [YES, NO, NO])
    at = found.at(0.45, generator(0, "x"))
    assert at.recall_of_reach is not None
    assert at.recall_of_reach.value == pytest.approx((6 / 2 + 1) / (10 / 2 + 1))
    silent = audit([0, 1, 10], [UNSURE, OPEN, NO]).at(0.45, generator(0, "x"))
    assert (silent.precision, silent.recall, silent.recall_of_reach) == (None, None, None)


def test_below_the_last_pair_known_by_rank_nothing_is_said():
    found = audit([0, 10], [YES, NO])
    assert found.edges == pytest.approx((0.2,)), "at 0.1, the last one's cosine, pairs of the rest may be"
    for threshold in (float(found.cosines[-1]), -1.0, float("nan"), -float("inf")):
        with pytest.raises(BadOption, match="larger `top`"):
            found.at(threshold, generator(0, "x"))
    whole = audit(list(range(10)), [YES] * 10, total=10)
    assert whole.edges == pytest.approx((0.1,))
    at = whole.at(-2.0, generator(0, "x"))
    assert at.precision is not None
    assert (at.pairs, at.precision.value) == (12, 11 / 12)


def test_where_no_pair_reaches_there_is_no_precision():
    found = BandAudit(np.array([0.5, 0.4]), 9, np.empty(0), np.empty(0, dtype=np.uint8), np.array([0, 1, 2]),
                      np.array([YES, NO, NO], dtype=np.uint8))  # fmt: skip
    at = found.at(0.9, generator(0, "x"))
    assert (at.pairs, at.precision) == (0, None)
    assert at.recall is not None
    assert (at.recall.value, at.recall.low) == (0, 0)


def sampled(truth: Labels, reach: int, budget: int, rng: np.random.Generator) -> tuple[Ints, Labels]:
    """Ranks and labels of a draw over the bands of pairs in order of score."""
    ranks, labels = [], []
    cut = bands(reach, len(truth))
    for band, count in zip(cut, allotted(budget, [stop - start for start, stop in cut]), strict=True):
        own = draw_ranks(band, count, rng)
        ranks.append(np.minimum(own, reach))
        labels.append(truth[own])
    return np.concatenate(ranks), np.concatenate(labels)


def test_precision_and_recall_by_score_cover_the_truth(few_draws):
    # 200,000 pairs; the chance of a match falls from 0.95 at the top as 300 / rank: 900 or so, a few of them beyond.
    size, reach = 200_000, 20_000
    chance = np.minimum(0.95, 150 / (1 + np.arange(size))) * np.where(np.arange(size) < reach, 1, 0.1)
    truth = (generator(0, "truth").random(size) < chance).astype(np.uint8)
    cosines = 1 - np.arange(size) / size
    cuts = np.array([60, 500, 3000, 12_000])
    covered = np.zeros((3, len(cuts)), dtype=np.int64)
    for seed in range(100):
        rng = generator(seed, "people")
        ranks, labels = sampled(truth, reach, 300, rng)
        found = BandAudit(cosines[:reach], size, np.empty(0), truth[:0], ranks, labels)
        for place, cut in enumerate(cuts):
            at = found.at(float(cosines[cut - 1]), rng)
            above, reached, every = int(truth[:cut].sum()), int(truth[:reach].sum()), int(truth.sum())
            wanted = (above / cut, above / every, above / reached)
            for row, figure in enumerate((at.precision, at.recall, at.recall_of_reach)):
                assert figure is not None
                covered[row, place] += figure.low <= wanted[row] <= figure.high
    # 95 of 100 are wanted; less than 88 would come with odds of 1 to 600.
    assert covered.min() >= 88, covered
