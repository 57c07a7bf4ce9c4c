"""Products of pairs of vectors, and what is kept of an array."""

import gc

import numpy as np
import pytest

from al_ray.search import paired_products as module
from al_ray.search.paired_products import Kept, paired_products


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
@pytest.mark.parametrize(("kind", "writeable"), [(np.float32, True), (np.float32, False), (np.float16, True)])
def test_products_of_pairs_are_those_of_float64_but_for_rounding(monkeypatch, device, kind, writeable):
    monkeypatch.setattr(module, "COPIED", 16)
    monkeypatch.setattr(module, "GATHERED", 16 * 5)
    rng = np.random.default_rng(0)
    ones, others = (rng.integers(-9, 9, (count, 5)).astype(kind) for count in (30, 90))
    others.flags.writeable = ones.flags.writeable = writeable
    for pairs in (0, 1, 50, 200):
        left, right = rng.integers(30, size=pairs), rng.integers(90, size=pairs)
        found = paired_products(ones, left, others, right, device)
        assert found.dtype == np.float32
        # Integers: nothing is rounded.
        assert found.tolist() == (ones[left].astype(int) * others[right].astype(int)).sum(axis=1).tolist()


def test_what_is_made_of_an_array_is_kept_as_long_as_the_array():
    made = list[int]()

    def double(array: np.ndarray, add: int) -> np.ndarray:
        made.append(add)
        return 2 * array + add

    kept, first, second = Kept(double), np.arange(3), np.arange(3)
    assert kept.of(first, 1) is kept.of(first, 1)
    assert kept.of(first, 2).tolist() == [2, 4, 6]
    # An equal array is another one.
    assert kept.of(second, 2).tolist() == [2, 4, 6]
    assert made == [1, 2, 2]
    kept.of(second, 2)
    assert made == [1, 2, 2]
    del second
    gc.collect()
    assert kept.empty
    kept.of(first, 1)
    kept.release()
    assert kept.empty
