"""How many texts have some score with each of a few, against a double loop in float64."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.pairs import NO_KEYS
from al_ray.core.vectors import Block
from al_ray.core.vectors import cosines as unit_cosines
from al_ray.search.join import partner_counts
from al_ray.search.join.forbidden_pairs import ForbiddenPairs
from al_ray.search.join.partner_counts import count_partners
from tests.search.join.test_best_of_each import offset_of, parts, pools, space


def scores_by_loops(left: Block, right: Block, symmetric: bool, excluded, rule) -> list[list[float]]:
    """The scores of each left text with the right ones that are a pair with it."""
    found: list[list[float]] = []
    for a, x in zip(left.rows.tolist(), left.vectors, strict=True):
        found.append([])
        for b, y in zip(right.rows.tolist(), right.vectors, strict=True):
            pair = np.array([[a, b]])
            key = int(space(symmetric).keys(pair)[0])
            if not ((symmetric and a == b) or key in excluded or (rule and not rule.allows(pair)[0])):
                found[-1].append(float(unit_cosines(x[None], y[None])[0] - offset_of(left, a, b)))
    return found


@given(pools(), st.integers(1, 15), st.integers(0, 10**6), st.sampled_from([0.0, 1e-12, -1e-12, 0.1]))
def test_counts_are_those_of_a_double_loop_however_the_texts_are_divided(pool, size, chosen, beside):
    symmetric, left, right, excluded, rule = pool
    scores = scores_by_loops(left, right, symmetric, excluded, rule)
    every = sorted(sum(scores, [0.5]))
    # A score of one of the pairs, so that those equal to it decide, or one just beside it.
    score = every[chosen % len(every)] + beside
    forbidden = ForbiddenPairs.of(space(symmetric), excluded, rule)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partner_counts, "TILE", (2, 3))
        counts = [count_partners(left, part, score, forbidden) for part in parts(right, size)]
    wanted = [sum(one >= score for one in of_text) for of_text in scores]
    assert np.sum([np.zeros(len(left.rows), dtype=np.int64), *counts], axis=0).tolist() == wanted


def test_a_pair_exactly_at_the_score_counts():
    # 0.6 * 0.8 twice is 0.96 in exact arithmetic; the float64 product of the float32 vectors is the score.
    one, other = np.array([[0.6, 0.8]], dtype=np.float32), np.array([[0.8, 0.6]], dtype=np.float32)
    left, right = Block(np.array([3]), one), Block(np.array([5]), other)
    score, forbidden = float(unit_cosines(one, other)[0]), ForbiddenPairs.of(space(False), NO_KEYS, None)
    assert count_partners(left, right, score, forbidden).tolist() == [1]
    assert count_partners(left, right, np.nextafter(score, 2), forbidden).tolist() == [0]
