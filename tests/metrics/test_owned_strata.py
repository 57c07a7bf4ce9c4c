"""The evaluation set that owners of pairs draw together, against make_evaluation_set of all pairs in one process."""

import tracemalloc
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.pair_rule import GroupCodes, PairRule
from al_ray.core.pairs import NO_KEYS, PairSpace
from al_ray.core.task import Split
from al_ray.metrics import owned_strata, pair_sampling
from al_ray.metrics.owned_strata import OwnedStrata, SampleCut, StrataRequest, cut_samples, merge_samples
from al_ray.metrics.strata import EvaluationSet, make_evaluation_set, split_by_cosine

EDGES = (0.8, 0.3)


def split_of(texts: int, symmetric: bool, ruled: bool, seed: int) -> Split:
    """A split of some rows of a task, with a tenth of its pairs as positives."""
    rng = np.random.default_rng(seed)
    left = np.sort(rng.permutation(2 * texts)[:texts])
    right = left if symmetric else np.sort(rng.permutation(2 * texts)[:texts])
    rule = None
    if ruled:
        codes = (np.arange(2 * texts) % 3).astype(np.int32)
        rule = PairRule(different=GroupCodes(("source",), codes, codes))
    space = PairSpace(left, right, 2 * texts, symmetric, rule)
    positives = np.sort(space.at(rng.permutation(space.total)[: space.total // 10]))
    return Split("dev", space, space.pairs(positives), space.pairs(NO_KEYS))


class Owners:
    """Owners of every text `owners`-th from the first that they answer for; the last one has no text."""

    def __init__(self, split: Split, near, cosines, edges, owners: int, seed: int) -> None:
        space = split.space
        request = StrataRequest("dev", split.positive_keys, edges, seed, space.width, space.symmetric)
        self.calls, self.owners, self.received = Counter(), list[OwnedStrata](), 0
        for owner in range(owners + 1):
            right = space.right[owner::owners] if owner < owners else NO_KEYS
            own = np.isin(near % space.width, right)
            self.owners.append(OwnedStrata.of(request, space, right, near[own], cosines[own]))

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        self.calls[method] += 1
        answers = [getattr(owner, method)(*arguments) for owner in self.owners]
        self.received += sum(len(answer[1] if isinstance(answer, tuple) else answer) for answer in answers)
        return answers

    def samples(self, cut: SampleCut) -> list[Any]:
        return [owner.sample(cut) for owner in self.owners]


def of_owners(
    split: Split, near, cosines, edges, owners: int, sizes: tuple[int | None, int], seed: int
) -> tuple[EvaluationSet, Owners]:
    them = Owners(split, near, cosines, edges, owners, seed)
    cuts = cut_samples(split, edges, [one.sizes() for one in them.owners], *sizes, them.ask)
    return merge_samples("dev", split.positive_keys, split.space.total, cuts, them.samples), them


def in_one_process(split: Split, near, cosines, edges, sizes: tuple[int | None, int], seed: int) -> EvaluationSet:
    return make_evaluation_set(split, split_by_cosine(near, cosines, edges), *sizes, seed)


def as_lists(evalset: EvaluationSet) -> list[Any]:
    strata = [(one.name, one.keys.dtype, one.keys.tolist(), one.population) for one in evalset.strata]
    return [evalset.split, strata, evalset.positives.tolist(), evalset.total_pairs]


@given(
    symmetric=st.booleans(), ruled=st.booleans(), edges=st.sampled_from([(), EDGES]), owners=st.integers(1, 5),
    share=st.sampled_from([0.0, 0.02, 0.3, 1.0]), most=st.sampled_from([None, 1, 7, 100]),
    random_pairs=st.sampled_from([0, 1, 30, 300, 10**6]), seed=st.integers(0, 5),
)  # fmt: skip
def test_owners_draw_the_set_of_one_process(symmetric, ruled, edges, owners, share, most, random_pairs, seed):
    split = split_of(30, symmetric, ruled, seed)
    every = np.sort(split.space.at(np.arange(split.space.total)))
    rng = np.random.default_rng(seed)
    near = every[rng.random(len(every)) < share]
    cosines, sizes = rng.random(len(near)), (most, random_pairs)
    evalset, _ = of_owners(split, near, cosines, edges, owners, sizes, seed)
    assert as_lists(evalset) == as_lists(in_one_process(split, near, cosines, edges, sizes, seed))


def test_an_owner_holds_its_near_pairs_once():
    count, pairs = 1_000_000, 2000
    space = PairSpace(np.arange(pairs), np.arange(pairs), pairs, symmetric=False)
    near, positives = np.arange(0, 2 * count, 2, dtype=np.int64), np.arange(0, count, 1000, dtype=np.int64)
    request = StrataRequest("dev", positives, (), 0, space.width, space.symmetric)
    tracemalloc.start()
    owned = OwnedStrata.of(request, space, np.arange(pairs), near, np.empty(0))
    sizes, (below, window) = owned.sizes(), owned.hashes("near", 2**62, 2**62 + 2**54)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sizes.tolist() == [count - len(positives), count]
    assert below == pytest.approx(count / 4, rel=0.02)
    assert 500 < len(window) < 1500
    # A copy without the positives, which are among them, and some hashes at a time: 8 bytes a pair and less than 40 MB.
    assert peak < 8 * count + 40e6


def test_what_owners_return_grows_with_few_hashes_and_neither_with_the_pool_nor_with_the_sample():
    received = {}
    for texts in (200, 800):
        split = split_of(texts, False, False, 0)
        near = np.sort(split.space.at(np.arange(0, split.space.total, 20)))
        split = Split("dev", split.space, split.positives[:50], split.stated_negatives)
        evalset, them = of_owners(split, near, np.empty(len(near)), (), 4, (100, 500), 0)
        assert [stratum.size for stratum in evalset.strata] == [100, 500]
        assert dict(them.calls) == {"hashes": 1, "rejected": 1}
        received[texts] = them.received
    # 120 hashes more or less, and the rejected ones of some 700 draws.
    assert all(50 < each < 300 for each in received.values())


@pytest.mark.parametrize("count", [3, 300])
def test_a_window_that_misses_the_cut_is_widened(count, monkeypatch):
    # Standard deviations of 0: the first window is one hash wide or two.
    monkeypatch.setattr(owned_strata, "sqrt", lambda _: 0)
    split = split_of(40, True, False, 1)
    near = np.sort(split.space.at(np.arange(0, split.space.total, 2)))
    monkeypatch.setattr(owned_strata, "ceil", lambda _: 1)
    evalset, them = of_owners(split, near, np.empty(len(near)), (), 3, (count, 10), 1)
    assert as_lists(evalset) == as_lists(in_one_process(split, near, np.empty(0), (), (count, 10), 1))
    assert them.calls["hashes"] > 1


def test_too_few_draws_are_repeated_with_more(monkeypatch):
    split = split_of(40, False, False, 2)
    wanted = in_one_process(split, NO_KEYS, np.empty(0), (), (None, 300), 2)
    monkeypatch.setattr(owned_strata, "likely_draws", lambda *sizes: 301)
    monkeypatch.setattr(pair_sampling, "BLOCK", 64)
    evalset, them = of_owners(split, NO_KEYS, np.empty(0), (), 3, (None, 300), 2)
    assert as_lists(evalset) == as_lists(wanted)
    assert them.calls["rejected"] == 2
