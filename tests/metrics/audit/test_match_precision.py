"""Precision of ranked matches: values by hand, laws of the bands, and simulated people whose truth is known."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.labels import NO, OPEN, UNSURE, YES
from al_ray.core.rng import generator
from al_ray.metrics.audit.match_precision import (
    BandAnswers,
    count_answers_by_band,
    expected_matches,
    match_bands,
    match_precision,
    with_right,
)
from al_ray.metrics.audit.score_bands import draw_ranks
from al_ray.metrics.average_precision import Estimate


def precision(*bands: tuple[int, int, int]) -> Estimate:
    found = match_precision([BandAnswers(*band) for band in bands], generator(0, "x"))
    assert found is not None
    return found


def cuts(scores: list[float], budget: int) -> list[tuple[int, int, int, float]]:
    found = match_bands(np.array(scores), budget)
    return [(band.start, band.stop, band.drawn, band.lowest_score) for band in found]


def test_every_band_counts_by_its_size():
    # 100 matches of which 9 of 10 are right, and 300 of which 3 of 6 are: (90 + 150) / 400.
    assert precision((100, 9, 1), (300, 3, 3)).value == pytest.approx(240 / 400)


def test_answers_of_all_bands_have_one_interval():
    # 100 answers, all yes: Clopper and Pearson's lower end is 0.025^(1/100) = 0.9638.
    bands = [(10**6, 20, 0)] * 5
    assert (precision(*bands).value, precision(*bands).high) == (1, 1)
    assert precision(*bands).low == pytest.approx(0.025 ** (1 / 100), abs=0.002)


def test_the_band_with_the_fewest_answers_decides_how_wide_the_interval_is():
    # The second band has 10 answers of a half of the matches: as good as 20 answers of all.
    assert precision((10**6, 20, 0), (10**6, 10, 0)).low == pytest.approx(0.025 ** (1 / 20), abs=0.01)


def test_what_is_labelled_whole_has_no_interval_and_what_was_said_is_within_it():
    whole = precision((30, 25, 5), (20, 10, 10))
    assert (whole.low, whole.value, whole.high) == pytest.approx((35 / 50,) * 3)
    # The first band is labelled whole: 40 of 80 are right for sure, and the answer no is wrong for sure.
    part = precision((40, 40, 0), (40, 1, 1))
    assert part.value == pytest.approx(60 / 80)
    assert 41 / 80 <= part.low < part.value < part.high <= 79 / 80


def test_a_band_without_an_answer_says_nothing():
    assert match_precision([BandAnswers(9, 3, 0), BandAnswers(9, 0, 0)], generator(0, "x")) is None
    assert match_precision([], generator(0, "x")) is None


def test_matches_that_are_right_for_sure_move_value_and_interval():
    # 80 of 100 with 100 further ones: 180 of 200.
    assert with_right(Estimate(0.8, 0.6, 0.9), 100, 100) == Estimate(0.9, 0.8, 0.95)
    assert with_right(Estimate(0.8, 0.6, 0.9), 100, 0) == Estimate(0.8, 0.6, 0.9)


def test_bands_have_equally_many_matches_and_twenty_labels_at_least():
    scores = [1 - place / 100 for place in range(100)]
    # 60 labels make 3 bands: of 33, 33 and 34 matches 0.6 * 33 = 20, 40 - 20 and 60 - 40 are drawn.
    assert [band[:3] for band in cuts(scores, 60)] == [(0, 33, 20), (33, 66, 20), (66, 100, 20)]
    assert [band[3] for band in cuts(scores, 60)] == pytest.approx([0.68, 0.35, 0.01])
    # 45 matches make 2 bands, all of which are drawn.
    assert [band[:3] for band in cuts(scores[:45], 1000)] == [(0, 22, 22), (22, 45, 23)]
    assert [band[:3] for band in cuts(scores[:5], 3)] == [(0, 5, 3)]
    assert len(cuts([1 - place / 1000 for place in range(1000)], 1000)) == 10


def test_equal_scores_are_in_one_band():
    # Bands would end at 50 and 100; the first 70 have one score, so the cutoff 0.9 has them all.
    assert cuts([0.9] * 70 + [0.5] * 30, 40) == [(0, 70, 28, 0.9), (70, 100, 12, 0.5)]
    assert cuts([0.9] * 100, 100) == [(0, 100, 100, 0.9)]
    # Of one match of another score none would be drawn, so it is no band.
    assert cuts([0.9] * 99 + [0.5], 40) == [(0, 100, 40, 0.5)]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=150), st.integers(1, 200))
def test_bands_hold_every_match_once_and_spend_the_budget_evenly(numbers: list[int], budget: int):
    scores = -np.sort(-np.array(numbers, dtype=np.float64))
    bands = match_bands(scores, budget)
    assert bands[0].start == 0
    assert bands[-1].stop == len(scores)
    assert all(one.stop == other.start for one, other in pairwise(bands))
    assert all(scores[one.stop - 1] > scores[one.stop] for one in bands[:-1])
    spent = min(budget, len(scores))
    assert sum(band.drawn for band in bands) == spent
    assert all(1 <= band.drawn <= band.size for band in bands)
    assert all(abs(band.drawn - spent * band.size / len(scores)) <= 1 for band in bands)


def test_answers_are_counted_by_band():
    bands = match_bands(np.linspace(1, 0, 40), 40)
    labels = np.array([YES, NO, UNSURE, YES, OPEN, NO], dtype=np.uint8)
    found = count_answers_by_band(bands, np.array([0, 19, 5, 20, 30, 39]), labels)
    assert found == (BandAnswers(20, 1, 1), BandAnswers(20, 1, 1))


# (shares of right matches, matches of a band, drawn of a band, chance of an answer): all right but for the last ones;
# nearly all right; the hardest case for a stratified sample, no band better than another; and hard ones unanswered.
SIMULATED = [
    ((1, 1, 0.98, 0.9, 0.5), 1000, 20, (1, 1, 1, 1, 1)),
    ((0.99, 0.99, 0.97), 200, 40, (1, 1, 1)),
    ((0.5, 0.5, 0.5, 0.5, 0.5), 40, 20, (1, 1, 1, 1, 1)),
    ((0.7,), 60, 30, (1,)),
    ((1, 1, 0.98, 0.9, 0.5), 1000, 20, (1, 1, 1, 0.9, 0.5)),
]


@pytest.mark.parametrize(("shares", "size", "drawn", "answered"), SIMULATED)
def test_the_interval_covers_the_truth(shares, size, drawn, answered, monkeypatch):
    monkeypatch.setattr("al_ray.metrics.audit.false_positives.DRAWS", 1000)
    right = [round(share * size) for share in shares]
    truth, covered = sum(right) / (size * len(right)), 0
    for seed in range(400):
        rng = generator(seed, "people")
        numbers = [max(1, int(rng.binomial(drawn, chance))) for chance in answered]
        yes = [int(rng.hypergeometric(own, size - own, number)) for own, number in zip(right, numbers, strict=True)]
        bands = [BandAnswers(size, own, number - own) for own, number in zip(yes, numbers, strict=True)]
        found = match_precision(bands, rng)
        assert found is not None
        covered += found.low <= truth <= found.high
    # 95% of 400 are 380; less than 366 would come with odds of 1 to 1,000.
    assert covered >= 366


def test_the_estimate_is_unbiased():
    # The truth falls with the score, and bands are of unequal size, for 60 matches have the same score.
    scores = np.sort(np.concatenate([np.full(60, 0.7), np.linspace(0.2, 1, 140)]))[::-1]
    right = np.where(generator(0, "truth").random(200) < scores, YES, NO).astype(np.uint8)
    bands = match_bands(scores, 60)
    assert len({band.size for band in bands}) == len(bands) == 3
    found: list[Fraction] = []
    for seed in range(2000):
        cut = [draw_ranks((band.start, band.stop), band.drawn, generator(seed, f"b-{band.start}")) for band in bands]
        places = np.concatenate(cut)
        found.append(expected_matches(count_answers_by_band(bands, places, right[places])) / 200)
    values = np.array(found, dtype=np.float64)
    assert values.std() > 0.02
    assert abs(values.mean() - (right == YES).mean()) < 4 * values.std() / 2000**0.5
