"""The number of pairs above a cutoff from those of sampled texts: exact for all texts, by hand, and by simulation."""

import numpy as np
import pytest

from al_ray.apps.matching.estimate import SAMPLE, PairEstimate, draw_texts, estimate_pairs


def test_counts_of_all_texts_give_the_number_itself():
    # Three texts that all pair with each other, and one without a pair: each of the three pairs is counted twice.
    found = estimate_pairs(np.array([2, 2, 2, 0]), 4, symmetric=True, seed=0)
    assert (found.low, found.pairs) == (3, 3)
    assert found.describe("texts") == "3 pairs"
    assert estimate_pairs(np.array([1999, 0]), 2, symmetric=False, seed=0).describe("texts") == "1,999 pairs"


def test_texts_with_equally_many_pairs_leave_no_doubt():
    found = estimate_pairs(np.full(10, 3), 1000, symmetric=False, seed=0)
    assert (found.low, found.pairs) == (3000, 3000)


def test_one_text_with_all_pairs_may_be_absent_from_the_sample():
    # A replicate of ten texts lacks it with probability 0.9^10 = 0.35, so only its own pairs are sure.
    found = estimate_pairs(np.array([500] + [0] * 9), 10**6, symmetric=False, seed=0)
    assert found.pairs == pytest.approx(50 * 10**6)
    assert found.low == 500


def test_a_large_part_of_all_texts_gives_a_close_low_end():
    counts = np.arange(100)
    small, large = (estimate_pairs(counts, texts, symmetric=False, seed=0) for texts in (10**6, 400))
    width = [(found.pairs - found.low) / found.pairs for found in (small, large)]
    # sqrt(1 - 100 / 400) of what it is without the correction.
    assert width[1] / width[0] == pytest.approx(np.sqrt(0.75), abs=1e-4)


def heavy_tail(rng: np.random.Generator) -> np.ndarray:
    return np.floor(rng.lognormal(0, 1.5, 20_000)).astype(np.int64)


def few_hubs(rng: np.random.Generator) -> np.ndarray:
    """50 of 100,000 texts have half of all pairs: most samples have none of them, and no bound above would hold."""
    return np.where(np.arange(100_000) < 50, 20_000, rng.poisson(10, 100_000))


@pytest.mark.parametrize("draw", [heavy_tail, few_hubs])
def test_low_ends_are_safe(draw):
    rng = np.random.default_rng(1)
    counts, above = draw(rng), 0
    for seed in range(200):
        found = estimate_pairs(rng.choice(counts, SAMPLE, replace=False), len(counts), False, seed)
        above += found.low > counts.sum()
    # What refuses: a low end above the truth, 2.5% of the time or less.
    assert above <= 0.025 * 200


def test_the_sample_depends_on_the_seed_alone():
    rows = np.arange(5, 5005)
    assert draw_texts(rows, 1).tolist() == draw_texts(rows, 1).tolist() != draw_texts(rows, 2).tolist()
    assert len(set(draw_texts(rows, 1).tolist()) & set(rows.tolist())) == SAMPLE
    assert draw_texts(rows[:7], 1).tolist() == rows[:7].tolist()


@pytest.mark.parametrize(
    ("estimate", "words"),
    [
        (
            PairEstimate(12_449.7, 9_804, 1000, 50_000),
            "about 12,400 pairs (at least 9,800; estimated from 1,000 of 50,000 left texts, drawn at random)",
        ),
        (
            PairEstimate(0, 0, 1000, 50_000),
            "about 0 pairs (estimated from 1,000 of 50,000 left texts, drawn at random, none of which has such a pair)",
        ),
        (PairEstimate(12_449, 12_449, 50, 50), "12,449 pairs"),
    ],
)
def test_an_estimate_is_said_in_words(estimate, words):
    assert estimate.describe("left texts") == words
