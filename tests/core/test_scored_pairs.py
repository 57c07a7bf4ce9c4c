"""Pairs with scores: those that are taken keep what belongs to them."""

import numpy as np

from al_ray.core.pairs import as_pairs
from al_ray.core.scored_pairs import NO_SCORED_PAIRS, ScoredPairs

PAIRS = as_pairs([0, 1, 2], [5, 4, 3])


def test_pairs_are_taken_by_place_and_by_mask_with_their_scores_and_cosines():
    scored = ScoredPairs(PAIRS, np.array([0.9, 0.8, 0.7]), np.array([0.3, 0.2, 0.1]))
    one, other = scored.at(np.array([2, 0])), scored.at(np.array([True, False, True]))
    assert (one.pairs.tolist(), one.scores.tolist(), one.cosines.tolist()) == ([[2, 3], [0, 5]], [0.7, 0.9], [0.1, 0.3])
    assert (other.pairs.tolist(), other.cosines.tolist(), len(other)) == ([[0, 5], [2, 3]], [0.3, 0.1], 2)


def test_scores_are_the_cosines_unless_others_are_given():
    scored = ScoredPairs(PAIRS, np.array([0.9, 0.8, 0.7]))
    assert scored.cosines is scored.scores
    assert scored.at(np.array([1])).other is None
    assert len(NO_SCORED_PAIRS) == len(NO_SCORED_PAIRS.cosines) == 0
