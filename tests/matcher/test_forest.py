"""A forest gives the same bits as ten lines of numpy, whatever the threads and blocks, and explains p exactly."""

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.ensemble import ExtraTreesClassifier

from al_ray.core.rng import generator
from al_ray.matcher import model as models
from al_ray.matcher.forest import Forest, fit_forest, from_sklearn

NAMES = ("cosine", "price: relative difference", "title: Jaro-Winkler")


def examples(count: int = 200, seed: int = 0) -> tuple[models.Features, npt.NDArray[np.int64]]:
    """Features with many equal values and missing ones (-1), and labels that mostly follow the first two."""
    rng = generator(seed, "examples")
    x = np.round(rng.random((count, len(NAMES))), 2).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = -1
    return x, (x[:, 0] + 0.3 * x[:, 1] + rng.normal(0, 0.1, count) > 0.6).astype(np.int64)


def fitted(count: int = 200, seed: int = 0) -> Forest:
    x, y = examples(count, seed)
    return fit_forest(x, y, np.ones(len(y)), NAMES, seed)


@pytest.fixture(scope="module")
def forest() -> Forest:
    return fitted()


def plain(forest: Forest, features: models.Features) -> npt.NDArray[np.float64]:
    """The format as others may read it: p in ten lines of numpy."""
    total = np.zeros(len(features))
    rows = np.arange(len(features))
    for start in forest.starts[:-1]:
        node = np.full(len(features), start)
        while (forest.feature[node] >= 0).any():
            inner = forest.feature[node] >= 0
            left = features[rows, forest.feature[node]] <= forest.threshold[node]
            node = np.where(inner, np.where(left, node + 1, forest.right[node]), node)
        total += forest.value[node]
    return total / (len(forest.starts) - 1)


def test_ten_lines_of_numpy_give_the_same_bits(forest: Forest):
    x, _ = examples(500, 1)
    # Among them rows that stand on a threshold, or one step beside it.
    cuts = forest.threshold[forest.feature == 0]
    on = np.repeat(x[:1], 3 * len(cuts), axis=0)
    on[:, 0] = np.concatenate([cuts, np.nextafter(cuts, np.float32(9)), np.nextafter(cuts, np.float32(-9))])
    both = np.concatenate([x, on])
    assert forest.probability(both).tobytes() == plain(forest, both).tobytes()


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("block", [1, 7, 4096])
def test_neither_threads_nor_blocks_change_a_bit(
    forest: Forest, threads: int, block: int, monkeypatch: pytest.MonkeyPatch
):
    x, _ = examples(300, 2)
    expected, explained = forest.probability(x), forest.contributions(x)
    monkeypatch.setattr(models, "BLOCK", block)
    assert forest.probability(x, threads).tobytes() == expected.tobytes()
    assert forest.contributions(x, threads).values.tobytes() == explained.values.tobytes()


def test_p_is_that_of_scikit_learn(forest: Forest):
    x, y = examples()
    seed = int(generator(0, "forest").integers(2**31))
    theirs = ExtraTreesClassifier(300, min_samples_leaf=2, random_state=seed).fit(x, y)
    other, _ = examples(500, 3)
    # Values are rounded to multiples of 2^-24.
    np.testing.assert_allclose(forest.probability(other), theirs.predict_proba(other)[:, 1], atol=2**-24)
    assert from_sklearn(theirs, NAMES).value.tobytes() == forest.value.tobytes()


def test_the_order_of_the_trees_changes_no_bit(forest: Forest):
    """Sums of multiples of 2^-24 are exact, so others may add the trees in any order."""
    x, _ = examples(300, 2)
    leaves = np.stack([value[tree.apply(x)] for tree, value in forest._walkers])
    shuffled = generator(0, "order").permutation(leaves)
    assert (shuffled.sum(axis=0) / 300).tobytes() == forest.probability(x).tobytes()


def test_the_same_seed_gives_the_same_bits_and_another_seed_another_forest():
    assert all(np.array_equal(one, other) for one, other in pairs_of(fitted(), fitted()))
    x, y = examples()
    assert not np.array_equal(fit_forest(x, y, np.ones(len(y)), NAMES, 1).value, fitted().value)


def pairs_of(one: Forest, other: Forest) -> list[tuple[Any, Any]]:
    return [(array, other.arrays()[name]) for name, array in one.arrays().items()]


def test_a_forest_travels_to_other_processes(forest: Forest):
    x, _ = examples(50, 4)
    expected = forest.probability(x)
    assert pickle.loads(pickle.dumps(forest)).probability(x).tobytes() == expected.tobytes()
