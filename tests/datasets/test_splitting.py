"""Closure and splits, against slow and obvious twins."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from al_ray.core.errors import BadOption
from al_ray.core.graph import components
from al_ray.core.pairs import as_pairs
from al_ray.core.rng import generator
from al_ray.core.task import SPLITS, Corpus
from al_ray.datasets.splitting import deal, hold_out, pairs_within, symmetric_task, unseen

TEXTS = 12
EDGES = st.lists(
    st.tuples(st.integers(0, TEXTS - 1), st.integers(0, TEXTS - 1)).filter(lambda e: e[0] != e[1]), max_size=14
)


def pairs_of(edges):
    return np.array(edges, dtype=np.int64).reshape(-1, 2)


def closure_by_walking(edges):
    """Twin: join what two known pairs have in common until nothing new comes."""
    known = {frozenset(edge) for edge in edges}
    while fresh := {a ^ b for a in known for b in known if len(a & b) == 1} - known:
        known |= fresh
    return sorted(tuple(sorted(pair)) for pair in known)


@given(EDGES)
@settings(deadline=None)
def test_pairs_within_components_are_the_transitive_closure(edges):
    found = pairs_within(components(TEXTS, pairs_of(edges)))
    assert [tuple(pair) for pair in found.tolist()] == closure_by_walking(edges)


def test_a_chain_of_four_closes_to_six_pairs():
    found = pairs_within(components(5, as_pairs([0, 1, 4], [1, 4, 3])))
    # 0-1-4-3 is a chain, 2 is alone: 4 * 3 / 2 = 6 pairs, in order of key.
    assert found.tolist() == [[0, 1], [0, 3], [0, 4], [1, 3], [1, 4], [3, 4]]


@given(
    EDGES, st.integers(0, 5), st.sampled_from([(0.5, 0.25, 0.25), (1.0, 0.0, 0.0), (0.0, 0.5, 0.5), (0.2, 0.2, 0.6)])
)
@settings(deadline=None)
def test_no_component_crosses_splits_and_no_share_of_nothing_is_filled(edges, seed, shares):
    component = components(TEXTS, pairs_of(edges))
    split_of = deal(component, shares, generator(seed, "split"))
    assert all(len(set(split_of[component == c].tolist())) == 1 for c in set(component.tolist()))
    assert all(shares[split] > 0 for split in set(split_of.tolist()))


@given(st.integers(0, 20))
@settings(max_examples=20, deadline=None)
def test_shares_are_met_when_components_are_small(seed):
    component = np.arange(1000) // 3
    filled = np.bincount(deal(component, (0.5, 0.25, 0.25), generator(seed, "split")), minlength=3)
    assert np.abs(filled - [500, 250, 250]).max() <= 6


@given(st.integers(0, 20))
@settings(max_examples=20, deadline=None)
def test_a_giant_component_goes_to_the_largest_share(seed):
    # 45 of 100 texts hang together: more than dev's or test's 25.
    component = np.concatenate([np.zeros(45, dtype=np.int64), np.arange(1, 56)])
    split_of = deal(component, (0.25, 0.25, 0.5), generator(seed, "split"))
    assert np.bincount(split_of).tolist() == [25, 25, 50]
    assert split_of[0] == 2


def test_the_seed_decides_the_split():
    component = np.arange(200)
    one, again, other = (deal(component, (0.5, 0.25, 0.25), generator(seed, "split")) for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.5, 0.25, 0.3), (1.5, -0.5, 0.0), (float("nan"),) * 3])
def test_shares_that_are_no_shares_are_refused(shares):
    with pytest.raises(BadOption, match=r"`split` is .*add up to 1"):
        deal(np.arange(4), shares, generator(0, "split"))


@given(EDGES, EDGES, st.integers(0, 3))
@settings(deadline=None)
def test_a_symmetric_task_holds_the_closure_and_the_negatives_outside_it(positive, negative, seed):
    corpus = Corpus(tuple(map(str, range(TEXTS))), tuple("abcdefghijkl"))
    whole = components(TEXTS, pairs_of(positive + negative))
    split_of = deal(whole, (0.5, 0.25, 0.25), generator(seed, "split"))
    task = symmetric_task("t", corpus, components(TEXTS, pairs_of(positive)), pairs_of(negative), split_of)
    closure = closure_by_walking(positive)
    stated = sorted({tuple(sorted(pair)) for pair in negative} - set(closure))
    for number, name in enumerate(SPLITS):
        split = task.splits[name]
        rows = [row for row in range(TEXTS) if split_of[row] == number]
        inside = set(combinations(rows, 2))
        assert split.space.left.tolist() == rows
        assert [tuple(p) for p in split.positives.tolist()] == [pair for pair in closure if pair in inside]
        assert [tuple(p) for p in split.stated_negatives.tolist()] == [pair for pair in stated if pair in inside]
    assert sum(len(task.splits[name].positives) for name in SPLITS) == len(closure), "no positive crosses splits"


def test_pairs_that_cross_splits_belong_to_none():
    corpus = Corpus(("0", "1", "2", "3"), tuple("abcd"))
    task = symmetric_task("t", corpus, np.array([0, 0, 0, 1]), as_pairs([3, 3], [0, 2]), np.array([0, 0, 1, 0]))
    assert task.splits["train"].positives.tolist() == [[0, 1]]
    assert task.splits["train"].stated_negatives.tolist() == [[0, 3]]
    assert len(task.splits["dev"].positives) == len(task.splits["dev"].stated_negatives) == 0


@given(st.lists(st.integers(1, 6), min_size=1, max_size=60), st.integers(0, 9), st.sampled_from([1, 2, 10, 30, 60]))
def test_dev_and_test_hold_out_as_many_pairs_as_asked_in_whole_components(sizes, seed, count):
    component = np.repeat(np.arange(len(sizes)), sizes)
    pairs = {number: size * (size - 1) // 2 for number, size in enumerate(sizes)}
    small = [some for some in pairs.values() if 0 < some <= max(1, count / 10)]
    try:
        split_of = hold_out(component, count, generator(seed, "held-out"))
    except BadOption:
        assert sum(small) < 2 * count + 2 * max(1, count / 10)
        return
    homes = {number: set(split_of[component == number].tolist()) for number in pairs}
    assert all(len(home) == 1 for home in homes.values())
    for split in (1, 2):
        own = [pairs[number] for number, home in homes.items() if home == {split}]
        assert max(own) <= max(1, count / 10)
        # Without one of them, that which came last, there were fewer than asked.
        assert count <= sum(own) < count + max(own)
    assert any(home == {0} and pairs[number] for number, home in homes.items())
    assert all(home == {0} for number, home in homes.items() if not pairs[number])


def test_which_components_are_held_out_is_left_to_chance():
    component = np.repeat(np.arange(10), 2)
    homes = np.array([hold_out(component, 2, generator(seed, "held-out"))[::2] for seed in range(300)])
    assert (np.sort(homes, axis=1) == [0] * 6 + [1, 1, 2, 2]).all()
    # A fifth of 300 each, 60; six standard deviations are 42.
    assert all(18 < count < 102 for split in (1, 2) for count in (homes == split).sum(axis=0))


def test_a_held_out_text_that_occurs_in_train_is_in_no_split():
    # Texts: a a b c c; splits: train dev dev test dev. Only the second a occurs in train.
    found = unseen(np.array([0, 1, 1, 2, 1]), np.array([0, 0, 1, 2, 2]))
    assert found.tolist() == [0, -1, 1, 2, 1]
