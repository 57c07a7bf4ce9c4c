"""Draws by hash: known values, no dependence on company, no bias, and other streams for other names."""

import numpy as np
import pytest
from scipy import stats

from al_ray.core.hashing import hash_keys, mix, uniform_at

GAMMA = 0x9E3779B97F4A7C15


def test_mix_is_splitmix64():
    # The first three outputs of the reference implementation with seed 0, whose state grows by GAMMA.
    states = np.array([0, GAMMA, 2 * GAMMA % 2**64], dtype=np.uint64)
    before = states.copy()
    assert [f"{hashed:x}" for hashed in mix(states).tolist()] == [
        "e220a8397b1dcdaf",
        "6e789e6aa1b965f4",
        "6c45d188009454f",
    ]
    assert states.tolist() == before.tolist()


def test_a_hash_depends_on_its_key_seed_and_purpose_alone():
    keys = np.array([0, 1, 2**62, 7])
    hashes = hash_keys(keys, 3, "near")
    assert [int(hash_keys(keys[[place]], 3, "near")[0]) for place in range(4)] == hashes.tolist()
    for seed, purpose in ((4, "near"), (3, "random"), (33, "near")):
        assert not np.isin(hash_keys(keys, seed, purpose), hashes).any()


def test_bits_of_hashes_of_neighbouring_keys_are_those_of_coins():
    bits = np.unpackbits(hash_keys(np.arange(20_000), 0, "coins").view(np.uint8).reshape(-1, 8), axis=1).astype(float)
    # Deviations of 64 means of 20,000 coins, and of all correlations of bits with bits and with those of the next key.
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(len(bits))
    both = np.corrcoef(np.concatenate([bits[:-1], bits[1:]], axis=1), rowvar=False)
    assert np.abs(both[np.triu_indices(128, 1)]).max() < 5 / np.sqrt(len(bits))


def test_draws_are_those_of_their_numbers_whoever_makes_them():
    whole = uniform_at(np.arange(1000), 5, "p", 10**12 + 1)
    parts = np.empty_like(whole)
    for shard in range(3):
        parts[shard::3] = uniform_at(np.arange(shard, 1000, 3), 5, "p", 10**12 + 1)
    assert parts.tolist() == whole.tolist()
    assert uniform_at(np.arange(1000), 6, "p", 10**12 + 1).tolist() != whole.tolist()
    assert uniform_at(np.arange(5), 5, "p", 1).tolist() == [0] * 5


@pytest.mark.parametrize("total", [2, 97, 256, 1000])
def test_draws_are_uniform(total):
    counts = np.bincount(uniform_at(np.arange(200_000), 0, "p", total), minlength=total)
    assert len(counts) == total
    assert 0.001 < stats.chisquare(counts).pvalue < 0.999


def test_draws_have_no_bias_where_the_hashes_hold_a_broken_number_of_totals():
    # 2^64 is 2 2/3 times this total: without rejection the lower two thirds would be drawn three times in four.
    total = 3 * 2**61
    positions = uniform_at(np.arange(100_000), 0, "p", total)
    assert 0 <= positions.min() <= positions.max() < total
    assert np.mean(positions < 2**62) == pytest.approx(2 / 3, abs=5 * np.sqrt(2 / 9 / 100_000))
