"""The exact join against a double loop in float64, bit for bit, however the work is cut up."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, inf

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from al_ray.core.candidates import HIGHEST, BestCandidates, Candidates, Order
from al_ray.core.pair_rule import GroupCodes, PairRule
from al_ray.core.pairs import NO_KEYS, Keys
from al_ray.core.vectors import Block
from al_ray.core.vectors import cosines as unit_cosines
from al_ray.search.join import exact_join as join
from al_ray.search.join import least_pairs
from al_ray.search.join.exact_join import ExactJoin, hosts
from al_ray.search.join.least_pairs import JoinQuery, LeastPairs
from al_ray.search.vector_files import single
from tests.search.join.test_best_of_each import offset_of, with_drawn_offsets

WIDTH = 1000
CENTRES = [inf, -inf, 0.0, 0.6, 1.0, 1.5, -3.0, 1e12]


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def texts(rng: np.random.Generator, count: int, kinds: int = 10**9, spread: float = 1.0, d: int = 16) -> Block:
    """Texts of a few kinds, so that many cosines are the same; a small spread leaves all of them nearly so."""
    every = unit(np.eye(d)[0] + spread * rng.standard_normal((min(kinds, count), d)))
    vectors = every[rng.integers(0, len(every), count)] if kinds < count else every
    vectors.setflags(write=False)
    return Block(np.sort(rng.permutation(WIDTH)[:count]), vectors)


def least_by_loops(wanted: JoinQuery, labelled: Keys, left: Block, right: Block) -> list[tuple[int, float]]:
    """The keys and their cosines."""
    seen: dict[int, float] = {}
    for (a, x), (b, y) in product(
        zip(left.rows.tolist(), left.vectors, strict=True), zip(right.rows.tolist(), right.vectors, strict=True)
    ):
        if wanted.symmetric and (a == b or (a > b and not wanted.ordered)):
            continue
        if (key := int(a) * WIDTH + int(b)) not in set(labelled.tolist()):
            seen[key] = float(unit_cosines(x[None], y[None])[0] - offset_of(left, a, b))
    cost = {key: float(wanted.order.cost(np.array([cosine]))[0]) for key, cosine in seen.items()}
    within = [key for key in seen if cost[key] <= wanted.limit]
    return [(key, seen[key]) for key in sorted(within, key=lambda key: (cost[key], key))[: wanted.count]]


def listed(found: Candidates) -> list[tuple[int, float]]:
    return list(zip(found.keys.tolist(), found.cosines.tolist(), strict=True))


@contextmanager
def small_tiles(tile: tuple[int, int] = (2, 3), spare: int = 1, rescored: int = 3) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join, "FIRST", tile)
        patch.setattr(join, "TILE", (tile[0] + 1, tile[1] + 2))
        patch.setattr(least_pairs, "SPARE", spare)
        patch.setattr(least_pairs, "RESCORED", rescored)
        yield


@dataclass(frozen=True)
class Cut:
    """One way to do the work: blocks of so many texts in any order, so many workers."""

    seed: int
    block: int
    workers: int
    half: bool = False
    room: int = 0

    def blocks(self, side: Block, rng: np.random.Generator) -> list[Block]:
        order = rng.permutation(len(side.rows))
        parts = [order[start : start + self.block] for start in range(0, len(order), self.block)]
        return [side.take(part) for part in [*parts, order[:0]]]

    def least(self, wanted: JoinQuery, labelled: Keys, left: Block, right: Block, share: bool = False) -> Candidates:
        """share: workers tell each other their bounds."""
        return self.least_of_each([wanted], [labelled], left, right, share)[0]

    def least_of_each(
        self, queries: list[JoinQuery], labelled: list[Keys], left: Block, right: Block, share: bool = False
    ) -> list[Candidates]:
        """The same by one join for several queries."""
        rng, kind = np.random.default_rng(self.seed), queries[0]
        ours = self.blocks(left, rng)
        theirs = ours if kind.symmetric else self.blocks(right, rng)
        meetings = circulant(len(ours)) if kind.unordered else list(product(range(len(ours)), range(len(theirs))))
        workers = [ExactJoin(queries, labelled, half=self.half) for _ in range(self.workers)]
        for worker in workers:
            worker.room = self.room
        for number in rng.permutation(len(meetings)):
            one, other = ours[meetings[number][0]], theirs[meetings[number][1]]
            turned = kind.unordered and rng.random() < 0.5
            worker = workers[rng.integers(self.workers)]
            if share:
                worker.tighten([min(bounds) for bounds in zip(*(each.bounds for each in workers), strict=True)])
            worker.add(*((other, one) if turned else (one, other)))
        best = [BestCandidates(query.order, query.count) for query in queries]
        for worker in workers:
            for of_query, found in zip(best, worker.results(), strict=True):
                of_query.add(found)
        return [of_query.result() for of_query in best]


def circulant(blocks: int) -> list[tuple[int, int]]:
    """Every meeting, as (host, visitor)."""
    return [(host, visitor) for visitor in range(blocks) for host in hosts(visitor, blocks).tolist()]


@st.composite
def asked(draw: st.DrawFn) -> tuple[JoinQuery, Keys, Block, Block]:
    """A small pool, what is wanted of it, and the sorted keys of labelled pairs."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds, spread = draw(st.sampled_from([1, 3, 10**9])), draw(st.sampled_from([1e-7, 1e-4, 1.0]))
    left = texts(rng, draw(st.integers(0, 14)), kinds, spread)
    symmetric, ordered = draw(st.sampled_from([(True, False), (True, True), (False, False)]))
    right = left if symmetric else texts(rng, draw(st.integers(0, 14)), kinds, spread)
    if not symmetric and draw(st.booleans()):
        # Of few kinds, so that scores of different texts may be equal, or differ by a rounding.
        offsets = rng.choice(draw(st.sampled_from([(0.7,), (0.3, 0.3 + 2**-40, -1.0)])), len(left.rows))
        left = replace(left, offsets=offsets)
    elif draw(st.booleans()):
        left = with_drawn_offsets(rng, left, right, both=True)
        right = left if symmetric else right
    count = draw(st.one_of(st.integers(0, 12), st.just(10_000)))
    wanted = JoinQuery(Order(draw(st.sampled_from(CENTRES))), count, WIDTH, symmetric, ordered)
    found = least_by_loops(replace(wanted, count=10_000), NO_KEYS, left, right)
    every = [key for key, _ in found]
    if found and draw(st.booleans()):
        # The cost of a pair, which is then within the limit.
        limit = float(wanted.order.cost(np.array([found[draw(st.integers(0, len(found) - 1))][1]]))[0])
        wanted = replace(wanted, limit=limit)
    labelled = every[: int(len(every) * draw(st.sampled_from([0, 0.3, 1])))]
    return wanted, np.array(sorted(labelled), dtype=np.int64), left, right


CUTS = st.builds(
    Cut, st.integers(0, 99), st.integers(1, 15), st.integers(1, 3), st.booleans(), st.sampled_from([0, 1000, 10**6])
)


@given(asked(), CUTS, st.booleans())
def test_the_least_are_those_of_a_double_loop_however_the_work_is_cut(pool, cut, share):
    with small_tiles():
        assert listed(cut.least(*pool, share=share)) == least_by_loops(*pool)


@given(asked(), CUTS, st.booleans(), st.lists(st.tuples(st.sampled_from(CENTRES), st.integers(0, 12)), max_size=3))
def test_several_queries_of_one_join_find_what_each_finds_alone(pool, cut, share, others):
    wanted, labelled, left, right = pool
    queries = [wanted, *(replace(wanted, order=Order(centre), count=count) for centre, count in others)]
    excluded = [labelled, *(labelled[number::2] for number in range(len(others)))]
    with small_tiles():
        found = cut.least_of_each(queries, excluded, left, right, share)
    for query, keys, candidates in zip(queries, excluded, found, strict=True):
        assert listed(candidates) == least_by_loops(query, keys, left, right)


def test_several_queries_share_each_product(monkeypatch):
    pool, products = texts(np.random.default_rng(8), 40), []
    monkeypatch.setattr(join, "rough_cosines", lambda x, y: (products.append(len(x)), x @ y.T)[1])
    for queries in (1, 3):
        products.clear()
        ExactJoin([JoinQuery(HIGHEST, 5, WIDTH, True)] * queries, [NO_KEYS] * queries).add(pool, pool)
        assert len(products) == 1


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_equal_costs_at_the_cut_are_settled_by_key(symmetric, half):
    # Ten texts of one kind: 45 pairs (or 100) at one cosine, so that the least are the least keys.
    rng = np.random.default_rng(0)
    one, other = texts(rng, 10, kinds=1), texts(rng, 10, kinds=1)
    wanted = JoinQuery(Order(0.3), 7, WIDTH, symmetric)
    right = one if symmetric else other
    keys = sorted(int(a) * WIDTH + int(b) for a, b in product(one.rows, right.rows) if not symmetric or a < b)
    for seed in range(10):
        with small_tiles():
            found = Cut(seed, 3, 2, half).least(wanted, NO_KEYS, one, right)
        assert found.keys.tolist() == keys[:7]
        assert len(set(found.cosines.tolist())) == 1


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("centre", [inf, 0.9999, -inf])
def test_what_the_rough_product_cannot_tell_apart_is_settled_in_float64(centre, half):
    # Cosines that differ by 1e-7 or so, at most; the rough ones are wrong by as much, or 1,000 times that.
    left = texts(np.random.default_rng(1), 60, spread=2e-5, d=384)
    wanted = JoinQuery(Order(centre), 40, WIDTH, True)
    expected = least_by_loops(wanted, NO_KEYS, left, left)
    rough = left.vectors.astype(np.float16).astype(np.float32) if half else left.vectors
    a, b = np.triu_indices(60, 1)
    by_product = Candidates(left.rows[a] * WIDTH + left.rows[b], (rough @ rough.T)[a, b].astype(np.float64))
    assert by_product.least(wanted.order, 40).keys.tolist() != [key for key, _ in expected]
    with small_tiles((8, 8)):
        assert listed(Cut(0, 25, 2, half).least(wanted, NO_KEYS, left, left)) == expected


@given(asked(), st.integers(1, 15), st.integers(0, 99))
def test_a_product_as_wrong_as_its_error_allows_changes_nothing(pool, block, seed):
    rng = np.random.default_rng(seed)

    def wrong(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x @ y) + torch.from_numpy(0.05 * rng.choice([-1.0, 1.0], (len(x), y.shape[1]))).float()

    with small_tiles((8, 8)), pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExactJoin, "_error", lambda *_: 0.0501)
        patch.setattr(torch, "mm", wrong)
        found = Cut(seed, block, 1).least(*pool)
    assert listed(found) == least_by_loops(*pool)


@pytest.mark.parametrize("half", [False, True])
def test_blocks_that_share_no_group_have_no_pair(half):
    pool = texts(np.random.default_rng(3), 60)
    codes = np.arange(WIDTH, dtype=np.int32) // 100
    rule, wanted = PairRule(same=GroupCodes(("country",), codes, codes)), JoinQuery(HIGHEST, 2000, WIDTH, True)
    worker = ExactJoin([wanted], [NO_KEYS], half=half, rule=rule)
    blocks = [Block(pool.rows[start : start + 6], pool.vectors[start : start + 6]) for start in range(0, 60, 6)]
    for host, visitor in circulant(len(blocks)):
        worker.add(blocks[host], blocks[visitor])
    expected = [
        pair
        for pair in least_by_loops(wanted, NO_KEYS, pool, pool)
        if codes[pair[0] // WIDTH] == codes[pair[0] % WIDTH]
    ]
    assert 0 < len(expected) < 600
    assert listed(worker.results()[0]) == expected


def test_own_blocks_stay_on_the_device_as_long_as_there_is_room(monkeypatch):
    pool, loaded = texts(np.random.default_rng(5), 60), []
    held, visitors = ([Block(pool.rows[s : s + 10], pool.vectors[s : s + 10]) for s in range(0, 60, 10)] for _ in "ab")
    monkeypatch.setattr(join, "single", lambda vectors: (loaded.append(len(vectors)), single(vectors))[1])
    # A block has 10 vectors of 16 numbers of 4 bytes: all six stay, or two, or none.
    for room, times in ((10**6, 6 + 6), (1500, 6 + 2 + 6 * 4), (0, 6 + 36)):
        worker = ExactJoin([JoinQuery(HIGHEST, 50, WIDTH, False)], [NO_KEYS])
        worker.room = room
        loaded.clear()
        for visitor in visitors:
            for block in held:
                worker.add(visitor, block)
        assert len(loaded) == times
        assert len(worker.results()[0]) == 50


def test_what_stays_on_a_gpu_is_at_most_an_eighth_of_its_free_memory(monkeypatch):
    for free, room in ((2**33, 2**30), (2**40, join.RESIDENT)):
        monkeypatch.setattr(join, "free_memory", lambda _, free=free: free)
        assert ExactJoin([JoinQuery(HIGHEST, 1, WIDTH, False)], [NO_KEYS], "cuda:0").room == room
    monkeypatch.undo()
    assert ExactJoin([JoinQuery(HIGHEST, 1, WIDTH, False)], [NO_KEYS], "cpu").room == 0


def test_none_wanted_none_held():
    pool = texts(np.random.default_rng(7), 20)
    worker = ExactJoin([JoinQuery(HIGHEST, 0, WIDTH, True)], [NO_KEYS])
    worker.add(pool, pool)
    assert not len(worker.searches[0])
    assert not len(worker.results()[0])


def test_labelled_pairs_do_not_count_towards_the_bound():
    # The 30 best are labelled, and 5 wanted: a bound that counted labelled pairs would keep nothing.
    pool = texts(np.random.default_rng(2), 40)
    every = least_by_loops(JoinQuery(HIGHEST, 35, WIDTH, True), NO_KEYS, pool, pool)
    labelled = np.array(sorted(key for key, _ in every[:30]))
    wanted = JoinQuery(HIGHEST, 5, WIDTH, True)
    assert listed(Cut(0, 40, 1).least(wanted, labelled, pool, pool)) == every[30:]


@pytest.mark.parametrize("kinds", [1, 3, 10**9])
def test_few_candidates_are_held_even_where_all_cost_the_same(kinds, monkeypatch):
    most, settle = [], LeastPairs._settle
    monkeypatch.setattr(LeastPairs, "_settle", lambda self: (most.append(len(self)), settle(self)))
    pool = texts(np.random.default_rng(3), 500, kinds)
    wanted = JoinQuery(Order(0.2), 100, WIDTH, True)
    with small_tiles((64, 64), spare=50, rescored=128):
        worker = ExactJoin([wanted], [NO_KEYS])
        worker.add(pool, pool)
        assert 100 <= len(worker.searches[0]) < 175
        (found,) = worker.results()
    # At most count * 5/4 + SPARE, and then what was looked at together.
    assert 100 < max(most) < 125 + 50 + 128
    assert len(found) == 100
    if kinds == 1:
        keys = sorted(int(a) * WIDTH + int(b) for a, b in product(pool.rows, pool.rows) if a < b)
        assert found.keys.tolist() == keys[:100]


def looked_at(monkeypatch: pytest.MonkeyPatch, worker: ExactJoin, pool: Block) -> int:
    """How many pairs were looked at again, in float64."""
    seen = []
    monkeypatch.setattr(least_pairs, "exact_cosines", lambda x, y: (seen.append(len(x)), unit_cosines(x, y))[1])
    worker.add(pool, pool)
    monkeypatch.undo()
    return sum(seen)


@pytest.mark.parametrize("centre", [inf, 0.1])
def test_few_pairs_are_looked_at_again_and_fewer_with_a_bound_to_start_from(monkeypatch, centre):
    # 499,500 pairs. A running bound looks at about n (1 + ln(N / n)) = 5,265, a perfect one at 1,000.
    monkeypatch.setattr(least_pairs, "SPARE", 64)
    pool = texts(np.random.default_rng(4), 1000, spread=3.0, d=64)
    wanted = JoinQuery(Order(centre), 1000, WIDTH, True)
    alone = ExactJoin([wanted], [NO_KEYS])
    expected = 1000 * (1 + np.log(499_500 / 1000))
    assert looked_at(monkeypatch, alone, pool) < 1.5 * expected
    (found,) = alone.results()
    told = ExactJoin([wanted], [NO_KEYS])
    told.tighten(alone.bounds)
    assert looked_at(monkeypatch, told, pool) < 1100
    assert listed(told.results()[0]) == listed(found)


def test_the_rough_product_is_as_near_as_its_error_says():
    # Worst for a sum: all terms of one sign, as in a vector with itself.
    rng = np.random.default_rng(5)
    for d, half in product((1, 8, 384, 1024), (False, True)):
        vectors = unit(np.abs(rng.standard_normal((300, d))) + 0.01)
        block = Block(np.arange(300), vectors)
        worker = ExactJoin([JoinQuery(HIGHEST, 5, WIDTH, False)], [NO_KEYS], half=half)
        loaded = worker._load(block)
        exact = (vectors.astype(np.float64) @ vectors.T.astype(np.float64)).ravel()
        rough = torch.mm(loaded.rough, loaded.rough.T).double().numpy().ravel()
        error = worker._error(loaded, loaded)
        assert np.abs(rough - exact).max() <= error
        # And not so far that it would be of no use.
        assert error < (2e-3 if half else 1e-4)


@given(st.integers(0, 24))
@example(1)
@example(2)
def test_of_any_number_of_blocks_each_two_meet_once_and_none_leads_much_more_than_another(blocks):
    met = circulant(blocks)
    assert sorted(tuple(sorted(two)) for two in met) == [(a, b) for a in range(blocks) for b in range(a, blocks)]
    for side in (0, 1):
        visits = [sum(two[side] == block for two in met) for block in range(blocks)]
        assert not visits or max(visits) <= ceil((blocks + 1) / 2)
        assert not visits or max(visits) - min(visits) <= 1
    assert all((b - a) % blocks <= blocks // 2 for a, b in met)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("centre", [inf, 0.2])
def test_a_gpu_chooses_as_the_cpu_does(centre, half):
    pool = texts(np.random.default_rng(6), 1000, kinds=900, spread=2.0, d=384)
    wanted = JoinQuery(Order(centre), 3000, WIDTH, True)
    here, there = ExactJoin([wanted], [NO_KEYS]), ExactJoin([wanted], [NO_KEYS], "cuda:0", half)
    for worker in (here, there):
        worker.add(pool, pool)
    assert listed(there.results()[0]) == listed(here.results()[0])
