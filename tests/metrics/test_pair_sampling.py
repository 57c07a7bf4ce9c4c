"""Samples by hash: every sample equally likely, and the same sample whoever draws its parts."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from al_ray.core.pairs import NO_KEYS, PairSpace, is_in
from al_ray.metrics import pair_sampling
from al_ray.metrics.pair_sampling import DrawnPairs, draw_pairs, draws_needed, likely_draws, sample_pairs, thin


def space_of(texts: int, symmetric: bool = False) -> PairSpace:
    return PairSpace(np.arange(texts), np.arange(texts), texts, symmetric)


def every_sample_is_as_likely(samples, keys, count: int) -> bool:
    """Whether the sampled sets are uniform over all sets of `count` keys."""
    numbers = Counter(tuple(sample.tolist()) for sample in samples)
    sets = list(combinations(keys.tolist(), count))
    assert set(numbers) <= set(sets)
    return 0.001 < stats.chisquare([numbers[each] for each in sets]).pvalue < 0.999


def test_of_many_keys_those_of_least_hash_stay_and_every_sample_is_as_likely():
    keys = np.array([3, 4, 5, 90, 91, 10**12, 2**62])
    assert every_sample_is_as_likely([thin(keys, 3, seed, "near") for seed in range(7000)], keys, 3)
    assert thin(keys[::-1], 7, 0, "near").tolist() == keys.tolist()
    assert thin(keys, 0, 0, "near").tolist() == []


@pytest.mark.parametrize("most", [1, 40, 399, 1000])
@pytest.mark.parametrize("shards", [1, 3, 8])
def test_samples_of_parts_merge_to_that_of_the_whole(most, shards):
    keys = np.random.default_rng(0).permutation(5000)[:1000]
    parts = [thin(keys[shard::shards], most, 3, "near") for shard in range(shards)]
    assert thin(np.concatenate(parts), most, 3, "near").tolist() == thin(keys, most, 3, "near").tolist()


# Twelve pairs of which two are excluded: of ten, two and four are few (drawn), six are many (the least hashes of all).
@pytest.mark.parametrize("count", [2, 4, 6, 10])
def test_every_random_sample_is_as_likely_and_has_no_excluded_pair(count):
    space = PairSpace(np.arange(4), np.arange(3), 3, False)
    excluded = np.array([2, 7])
    free = np.setdiff1d(np.arange(12), excluded)
    samples = [sample_pairs(space, count, excluded, seed, "random") for seed in range(6000)]
    assert count == 10 or every_sample_is_as_likely(samples, free, count)
    assert all(sample.tolist() == sorted(set(sample.tolist()) - {2, 7}) and len(sample) == count for sample in samples)


def test_a_sample_of_a_large_space_is_uniform_over_it():
    space = space_of(10**5, symmetric=True)
    sample = sample_pairs(space, 50_000, NO_KEYS, 0, "random")
    pairs = space.pairs(sample)
    assert len(np.unique(sample)) == 50_000
    assert space.holds(pairs).all()
    # A row of a pair's larger text has as many pairs as texts before it: its square is uniform.
    assert stats.kstest((pairs[:, 1] / 10**5) ** 2, "uniform").pvalue > 0.001
    assert stats.kstest(pairs[:, 0] / pairs[:, 1], "uniform").pvalue > 0.001


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("owners", [1, 2, 5])
def test_owners_of_left_texts_draw_the_sample_of_one_process(owners, symmetric, monkeypatch):
    monkeypatch.setattr(pair_sampling, "BLOCK", 70)
    space, count = space_of(40, symmetric), 200
    excluded = np.sort(space.at(np.arange(0, space.total, 9)))
    whole = sample_pairs(space, count, excluded, 1, "random")

    def of_owner(owner: int, draws: int) -> DrawnPairs:
        def is_owned(keys):
            return keys // 40 % owners == owner

        return draw_pairs(space, draws, 1, "random", lambda keys: is_in(keys, excluded), is_owned)

    for draws in (320, 500):
        parts = [of_owner(owner, draws) for owner in range(owners)]
        rejected = np.sort(np.concatenate([part.rejected for part in parts]))
        # Pairs are excluded, and some are drawn again.
        assert len(rejected) > draws / 9
        needed = draws_needed(count, rejected)
        assert needed <= draws
        assert np.sort(np.concatenate([part.first(needed) for part in parts])).tolist() == whole.tolist()
        numbers = np.concatenate([*(part.numbers for part in parts), rejected])
        assert np.sort(numbers).tolist() == list(range(draws))


def test_draws_are_made_until_enough_are_accepted():
    # Draws 0, 3, 4 and 9 are rejected: 1, 2, 5 and 6 are the first four accepted ones.
    rejected = np.array([0, 3, 4, 9])
    assert [draws_needed(count, rejected) for count in (0, 1, 2, 3, 4, 6, 7)] == [0, 2, 3, 6, 7, 9, 11]
    assert draws_needed(5, NO_KEYS) == 5


def test_too_few_draws_are_repeated_with_more(monkeypatch):
    space, excluded = space_of(40), np.arange(100)
    wanted = sample_pairs(space, 300, excluded, 2, "random")
    monkeypatch.setattr(pair_sampling, "likely_draws", lambda *sizes: 310)
    assert sample_pairs(space, 300, excluded, 2, "random").tolist() == wanted.tolist()


def test_the_likely_number_of_draws_suffices_and_is_little_more():
    # 300 of 1,500 free pairs of 1,600, each new with a probability from 15/16 to 3/4.
    space, excluded = space_of(40), np.arange(100)
    likely = likely_draws(300, 1500, 1600)
    for seed in range(200):
        drawn = draw_pairs(space, likely, seed, "random", lambda keys: is_in(keys, excluded))
        assert likely / 2 < draws_needed(300, drawn.rejected) <= likely
    assert likely_draws(10**7, 10**12, 10**12) < 1.01 * 10**7
    assert likely_draws(0, 0, 0) == 0
