"""Bands of scores by hand: their edges, which pair is in which, and which examples are shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.apps.matching.folder import Matches
from al_ray.apps.matching.page.bands import counts_between, round_edges, score_bands, spaced
from al_ray.core.scored_pairs import ScoredPairs


def matches(scores: list[float], by_label: list[bool] | None = None, p: list[float] | None = None) -> Matches:
    """Matches with these scores, the best first, of texts 0 and 1, 2 and 3, ..."""
    array = np.array(scores, dtype=np.float64)
    pairs = np.arange(2 * len(scores)).reshape(-1, 2)
    own = np.zeros(len(scores), dtype=bool) if by_label is None else np.array(by_label)
    return Matches(ScoredPairs(pairs, array), None if p is None else np.array(p), own, own & ~own)


@pytest.mark.parametrize(
    ("low", "high", "most", "edges"),
    [
        # 0.27 / 8 = 0.034, so 0.05 is the least width; 0.72 is in the band from 0.70.
        (0.72, 0.99, 8, [0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 1.00]),
        # 0.4 / 4 = 0.1 would do, but 0.35 to 0.75 needs five bands of 0.1.
        (0.35, 0.75, 4, [0.2, 0.4, 0.6, 0.8]),
        # A cosine of 1.0000001 needs no band above 1.
        (0.8, 1.0000001, 2, [0.8, 0.9, 1.0]),
        # Scores of --scoring.neighbourhood can be negative.
        (-0.31, 0.12, 8, [-0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2]),
        # Equal scores: one band of the least width.
        (0.87, 0.87, 8, [0.870, 0.871]),
        (1.0, 1.0, 8, [1.000, 1.001]),
    ],
)
def test_edges_are_round_and_cover_the_scores(low, high, most, edges):
    assert round_edges(low, high, most).tolist() == edges


@given(st.floats(-2, 2), st.floats(-2, 2), st.integers(1, 40))
def test_there_are_never_more_bands_than_asked_for_and_no_score_is_outside(one, other, most):
    low, high = sorted((one, other))
    edges = round_edges(low, high, most)
    assert 1 <= len(edges) - 1 <= most
    width = edges[1] - edges[0]
    assert edges[0] <= low + 2e-6 * width
    assert high <= edges[-1] + 2e-6 * width
    assert (np.diff(edges) > 0).all()


def test_a_score_at_an_edge_is_in_the_band_above_and_the_highest_in_the_last():
    edges = np.array([0.2, 0.4, 0.6])
    # 0.2 and 0.3 in the first; 0.4, 0.5 and 0.6 in the last.
    assert counts_between(edges, np.array([0.2, 0.3, 0.4, 0.5, 0.6])).tolist() == [2, 3]


def test_bands_have_the_matches_in_order_and_empty_bands_are_left_out():
    # The model's matches are from 0.71 to 0.95; with three bands the width is 0.1.
    found = score_bands(matches([0.99, 0.95, 0.94, 0.75, 0.71], [True, False, False, False, False]), 3)
    assert [(band.low, band.high, band.start, band.end, band.by_label) for band in found] == [
        (0.9, 1.0, 0, 3, 1),
        (0.7, 0.8, 3, 5, 0),
    ]
    assert [len(band) for band in found] == [3, 2]


def test_a_labelled_pair_below_all_of_the_model_widens_no_band():
    found = score_bands(matches([0.99, 0.91, -0.2, -0.5], [False, False, True, True]), 5)
    # 0.91 to 0.99 in bands of 0.02.
    assert [(band.low, band.high, len(band)) for band in found] == [(0.98, 1.0, 1), (0.9, 0.92, 1), (None, 0.9, 2)]
    assert [band.by_label for band in found] == [0, 0, 2]


def test_the_mean_probability_is_of_the_matches_of_the_model():
    found = score_bands(matches([0.96, 0.94, 0.92, 0.1], [True, False, False, True], [0.99, 0.8, 0.6, 0.01]), 1)
    # (0.8 + 0.6) / 2; of the labelled pair below there is none.
    assert [band.probability for band in found] == [pytest.approx(0.7), None]


def test_without_matches_there_is_no_band_and_with_labelled_ones_alone_theirs():
    assert score_bands(matches([]), 8) == []
    (band,) = score_bands(matches([0.3, 0.3], [True, True]), 8)
    assert (band.low, band.high, len(band)) == (0.3, 0.301, 2)


@pytest.mark.parametrize(
    ("count", "most", "places"),
    [(0, 5, []), (1, 5, [0]), (3, 5, [0, 1, 2]), (9, 5, [0, 2, 4, 6, 8]), (100, 3, [0, 50, 99]), (7, 1, [0])],
)
def test_examples_are_evenly_spaced_with_the_first_and_the_last(count, most, places):
    assert spaced(count, most).tolist() == places
