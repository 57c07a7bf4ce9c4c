"""The simulated oracle of the study of cascades: its errors, and what it makes of candidates."""

import numpy as np

from al_ray.apps.matching.assignment import BY_MODEL, CandidateEdges
from al_ray.apps.matching.cascade.band import Band
from al_ray.core.pairs import as_pairs
from al_ray.core.scored_pairs import ScoredPairs
from studies.cascade import Candidates, Simulated, _cascade

BAND = Band(0.05, 0.95, 0.5, ("", ""))


def candidates() -> Candidates:
    """Sure, then uncertain: a false match at 0.9, a match at 0.4, one at 0.3; a fourth match is no candidate."""
    scores = np.array([0.99, 0.9, 0.4, 0.3])
    rows = np.arange(4)
    edges = CandidateEdges(ScoredPairs(as_pairs(rows, rows), scores), False, np.full(4, BY_MODEL, dtype=np.uint8))
    return Candidates(edges, rows, np.array([True, False, True, True]), 4)


def test_f1_rises_with_the_budget_of_an_oracle_without_errors():
    def figures(budget: int) -> list[float]:
        found = _cascade(candidates(), BAND, "all", Simulated("0,0", budget, 0))
        return [round(found[name], 6) for name in ("precision", "recall", "f1")]

    # Of the matches of the model one of two is right, and one of four is found: F1 = 2 / (2 + 4).
    assert figures(0) == [50.0, 25.0, round(200 / 6, 6)]
    # 0.4 is asked first (chance 0.4), then 0.3, then 0.9 (1 - 0.9).
    assert figures(1) == [round(200 / 3, 6), 50.0, round(400 / 7, 6)]
    assert figures(9) == [100.0, 75.0, round(600 / 7, 6)]


def test_an_oracle_errs_at_its_rates_and_gives_a_pair_the_same_answer():
    true = np.arange(20_000) % 2 == 0
    said = Simulated("10,20", 5, 1).answers(true)
    # Standard deviations are 0.3 and 0.4 points.
    assert abs((~said[true]).mean() - 0.1) < 0.015
    assert abs(said[~true].mean() - 0.2) < 0.02
    assert np.array_equal(said, Simulated("10,20", 300, 1).answers(true))
    assert not np.array_equal(said, Simulated("10,20", 5, 2).answers(true))
