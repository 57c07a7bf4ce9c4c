"""Two stages: by hand, and by sorting every pair."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.candidates import HIGHEST, Candidates
from al_ray.core.pairs import PairSpace, as_pairs
from al_ray.core.rng import generator
from al_ray.core.task import Split
from al_ray.metrics.estimator import CountRequest, NegativeCounts, count_sample
from al_ray.metrics.two_stage import evaluate_reranking, ranks_above_cosines


def split_of(left: int, right: int, positives, symmetric: bool = False) -> Split:
    rows = np.arange(left)
    space = PairSpace(rows, rows if symmetric else np.arange(right), left if symmetric else right, symmetric)
    pairs = space.pairs(np.sort(np.array(positives, dtype=np.int64)))
    return Split("dev", space, pairs, as_pairs([], []))


def evaluated(split: Split, keys, cosines, top: Candidates, scores):
    """Both stages over all `keys` with their cosines, the negatives counted one by one."""
    negative = ~np.isin(keys, split.positive_keys)

    def count(request: CountRequest) -> NegativeCounts:
        pairs = split.space.pairs(keys[negative])
        return count_sample(request, keys[negative], pairs, cosines[negative], None, 1.0)

    own = cosines[np.searchsorted(keys, split.space.keys(split.positives))]
    return evaluate_reranking(split, top, scores, own, count, generator(0, "interval"))


def slow_average_precision(ranks, positive) -> float:
    """Ranks, the highest first, equal ones together; AP as the sum over distinct ranks of recall gained x precision."""
    total, found, seen = 0.0, 0, 0
    for rank in sorted(set(ranks), reverse=True):
        here = [bool(p) for r, p in zip(ranks, positive, strict=True) if r == rank]
        found, seen = found + sum(here), seen + len(here)
        total += sum(here) / sum(positive) * found / seen
    return total


def test_retrieved_pairs_are_in_the_scorers_order_and_the_others_behind_in_the_bi_encoders():
    # Pairs 0..5 of 2 x 3, cosines 0.9 0.8 0.7 0.6 0.5 0.4; 1 and 4 are positive; the first 3 are scored -5, 3, -7.
    # So the order is 1 0 2 | 3 4 5, the positives are 1st and 5th: (1/1 + 2/5) / 2.
    split, keys = split_of(2, 3, [1, 4]), np.arange(6)
    cosines = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    made = evaluated(split, keys, cosines, Candidates(keys[:3], cosines[:3]), np.array([-5.0, 3.0, -7.0]))
    assert made.average_precision.value == pytest.approx((1 + 2 / 5) / 2)
    assert made.exact
    assert made.total_pairs == 6
    # Without a second stage they are 2nd and 5th.
    alone = evaluated(split, keys, cosines, Candidates(keys[:0], cosines[:0]), np.empty(0))
    assert alone.average_precision.value == pytest.approx((1 / 2 + 2 / 5) / 2)


def test_places_keep_order_and_ties_and_lie_above_every_cosine():
    assert ranks_above_cosines(np.array([-3.0, 8.0, -3.0, 0.5])).tolist() == [2.0, 4.0, 2.0, 3.0]


@given(st.integers(0, 2**32 - 1), st.booleans(), st.integers(0, 40))
def test_both_stages_are_what_sorting_every_pair_gives(seed, symmetric, top):
    rng = np.random.default_rng(seed)
    left, right = int(rng.integers(2, 8)), int(rng.integers(2, 7))
    bare = split_of(left, right, [0], symmetric).space
    keys = np.sort(bare.at(np.arange(bare.total)))
    positives = rng.choice(keys, int(rng.integers(1, len(keys) + 1)), replace=False)
    split = split_of(left, right, positives, symmetric)
    # Few distinct values: ties within a stage, and across the cut.
    cosines = rng.integers(-3, 4, len(keys)) / 4
    found = Candidates(keys, cosines).least(HIGHEST, top)
    scores = rng.integers(-2, 3, len(found)).astype(float)
    made = evaluated(split, keys, cosines, found, scores)
    score_of = dict(zip(found.keys.tolist(), scores.tolist(), strict=True))
    ranks = [
        (1, score_of[key]) if key in score_of else (0, cosine)
        for key, cosine in zip(keys.tolist(), cosines.tolist(), strict=True)
    ]
    assert made.average_precision.value == pytest.approx(slow_average_precision(ranks, np.isin(keys, positives)))
