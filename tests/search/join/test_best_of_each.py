"""The best partner of every text against a double loop in float64, however the work is cut up."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.nearest_means import NearestMeans
from al_ray.core.pair_rule import GroupCodes, PairRule
from al_ray.core.pairs import NO_KEYS, Keys, PairSpace
from al_ray.core.vectors import Block
from al_ray.core.vectors import cosines as unit_cosines
from al_ray.search.join import best_of_each
from al_ray.search.join.best_of_each import BestOfEach, BestPartners, join_partners
from al_ray.search.join.exact_join import hosts

TEXTS = 40


def space(symmetric: bool) -> PairSpace:
    return PairSpace(NO_KEYS, NO_KEYS, TEXTS, symmetric)


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def block(rng: np.random.Generator, count: int, kinds: int, spread: float) -> Block:
    """Texts of a few kinds, so that many scores are equal; a small spread makes float32 products useless."""
    every = unit(np.eye(8)[0] + spread * rng.standard_normal((kinds, 8)))
    return Block(np.sort(rng.permutation(TEXTS)[:count]), every[rng.integers(0, kinds, count)])


def partners_by_loops(left: Block, right: Block, symmetric: bool, excluded: Keys, rule: PairRule | None) -> list[dict]:
    """Row -> (partner, score), for each side."""
    best: list[dict[int, tuple[int, float]]] = [{}, {}]
    ours = zip(left.rows.tolist(), left.vectors, strict=True)
    for (a, x), (b, y) in product(ours, zip(right.rows.tolist(), right.vectors, strict=True)):
        key = int(space(symmetric).keys(np.array([[a, b]]))[0])
        if (symmetric and a == b) or key in excluded or (rule and not rule.allows(np.array([[a, b]]))[0]):
            continue
        score = float(unit_cosines(x[None], y[None])[0] - offset_of(left, a, b))
        for side, (row, partner) in zip(best, ((a, b), (b, a)), strict=True):
            if row not in side or (-score, partner) < (-side[row][1], side[row][0]):
                side[row] = partner, score
    return best


def offset_of(left: Block, a: int, b: int) -> float:
    """What is subtracted from the cosine of two rows."""
    own = 0.0 if left.offsets is None else dict(zip(left.rows.tolist(), left.offsets.tolist(), strict=True))[a]
    return own if left.right_offsets is None else own + left.right_offsets.of(np.array([b]))[0]


def with_drawn_offsets(rng: np.random.Generator, left: Block, right: Block, both: bool) -> Block:
    """Left texts with offsets, some a little apart; of both sides they are the same for the same text of one set."""
    own, theirs = (rng.choice([0.3, 0.3 + 2**-40, -1.0], len(block.rows)) for block in (left, right))
    if not both:
        return replace(left, offsets=own)
    return replace(left, offsets=own, right_offsets=NearestMeans(right.rows, own if right is left else theirs))


def listed(found: BestPartners) -> dict[int, tuple[int, float]]:
    return dict(zip(found.rows.tolist(), zip(found.partners.tolist(), found.scores.tolist(), strict=True), strict=True))


@st.composite
def pools(draw: st.DrawFn) -> tuple[bool, Block, Block, Keys, PairRule | None]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds, spread = draw(st.sampled_from([1, 3, 50])), draw(st.sampled_from([1e-7, 1e-4, 1.0]))
    symmetric = draw(st.booleans())
    left = block(rng, draw(st.integers(0, 14)), kinds, spread)
    right = left if symmetric else block(rng, draw(st.integers(0, 14)), kinds, spread)
    sides = draw(st.integers(0, 2))
    if sides == 2 or (sides and not symmetric):
        left = with_drawn_offsets(rng, left, right, sides == 2)
        right = left if symmetric else right
    excluded, rule = NO_KEYS, None
    if draw(st.booleans()):
        pairs = rng.integers(0, TEXTS, (draw(st.integers(1, 300)), 2))
        excluded = np.unique(space(symmetric).keys(pairs[pairs[:, 0] != pairs[:, 1]]))
    if draw(st.booleans()):
        codes = rng.integers(0, 3, TEXTS).astype(np.int32)
        rule = PairRule(**{draw(st.sampled_from(["same", "different"])): GroupCodes(("country",), codes, codes)})
    return symmetric, left, right, excluded, rule


def parts(whole: Block, size: int) -> list[Block]:
    places = np.arange(len(whole.rows))
    return [whole.take(places[start : start + size]) for start in range(0, len(places), size)]


@given(pools(), st.integers(1, 15), st.integers(1, 3), st.integers(0, 99))
def test_partners_are_those_of_a_double_loop_however_the_work_is_cut(pool, size, workers, seed):
    symmetric, left, right, excluded, rule = pool
    ours, rng = parts(left, size), np.random.default_rng(seed)
    theirs = ours if symmetric else parts(right, size)
    meetings = (
        [(host, visitor) for visitor in range(len(ours)) for host in hosts(visitor, len(ours)).tolist()]
        if symmetric
        else list(product(range(len(ours)), range(len(theirs))))
    )
    searches = [BestOfEach(space(symmetric), TEXTS, excluded, rule=rule) for _ in range(workers)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best_of_each, "TILE", (2, 3))
        for number in rng.permutation(len(meetings)):
            one, other = meetings[number]
            searches[rng.integers(workers)].add(ours[one], theirs[other])
    found = [join_partners(list(side), TEXTS) for side in zip(*(search.results() for search in searches), strict=True)]
    wanted = partners_by_loops(left, right, symmetric, excluded, rule)
    assert [listed(side) for side in found] == wanted
