"""Pairs, keys and the space of all pairs: laws, small spaces in full, huge spaces at chosen places."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, chisquare

from al_ray.core.errors import BadOption
from al_ray.core.pair_rule import GroupCodes, PairRule
from al_ray.core.pairs import NO_KEYS, PairSpace, as_pairs, distinct, is_in

KEYS = st.lists(st.integers(0, 60), max_size=40).map(lambda keys: np.array(keys, dtype=np.int64))


def symmetric(rows, width: int = 50) -> PairSpace:
    rows = np.array(rows, dtype=np.int64)
    return PairSpace(rows, rows, width, symmetric=True)


def crossed(left, right, width: int = 50) -> PairSpace:
    return PairSpace(np.array(left, dtype=np.int64), np.array(right, dtype=np.int64), width, symmetric=False)


@st.composite
def rules(draw, is_symmetric: bool, texts: int = 50):
    """Rules of a few groups, or none."""

    def codes(column: str):
        if not draw(st.booleans()):
            return None
        left, right = np.random.default_rng(draw(st.integers(0, 999))).integers(0, 4, (2, texts)).astype(np.int32)
        return GroupCodes((column,), left, left if is_symmetric else right)

    rule = PairRule(codes("country"), codes("source"))
    return rule if rule.conditions else None


@st.composite
def spaces(draw):
    """Spaces of a few of 50 rows, some of them empty, of all pairs or of those that a rule allows."""
    rows = st.sets(st.integers(0, 49), max_size=12).map(sorted)
    space = symmetric(draw(rows)) if draw(st.booleans()) else crossed(draw(rows), draw(rows))
    return replace(space, rule=draw(rules(space.symmetric)))


class AllRows(np.ndarray):
    """np.arange(length) without its memory: row number i is i."""

    length: int

    def __new__(cls, length: int) -> "AllRows":
        rows = super().__new__(cls, 0, dtype=np.int64)
        rows.length = length
        return rows

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index):
        return index


def every_pair(space: PairSpace) -> set[tuple[int, int]]:
    """The slow, obvious twin of a space."""
    return {
        (left, right)
        for left in space.left.tolist()
        for right in space.right.tolist()
        if (left < right or not space.symmetric) and can_match(space.rule, left, right)
    }


def can_match(rule: PairRule | None, left: int, right: int) -> bool:
    """The slow, obvious twin of a rule."""
    same, different = (None, None) if rule is None else (rule.same, rule.different)
    return (same is None or same.left[left] == same.right[right]) and (
        different is None or different.left[left] != different.right[right]
    )


def as_set(pairs) -> set[tuple[int, int]]:
    return {(left, right) for left, right in pairs.tolist()}


def test_a_key_is_left_times_width_plus_right():
    # 3 * 10 + 7; unordered, (7, 3) is the same pair; ordered, it is 7 * 10 + 3.
    assert symmetric(range(10), width=10).keys(as_pairs([3, 7], [7, 3])).tolist() == [37, 37]
    assert crossed(range(10), range(10), width=10).keys(as_pairs([3, 7], [7, 3])).tolist() == [37, 73]


@given(spaces())
def test_at_is_a_bijection_onto_the_space(space):
    keys = space.at(np.arange(space.total, dtype=np.int64))
    assert len(keys) == space.total == len(every_pair(space))
    assert as_set(space.pairs(keys)) == every_pair(space)


@given(spaces())
def test_keys_and_pairs_are_each_others_inverse(space):
    pairs = as_pairs(*np.array(sorted(every_pair(space)), dtype=np.int64).reshape(-1, 2).T)
    assert np.array_equal(space.pairs(space.keys(pairs)), pairs)
    assert len(np.unique(space.keys(pairs))) == len(pairs)
    if space.symmetric:
        assert np.array_equal(space.pairs(space.keys(pairs[:, ::-1])), pairs)


@given(spaces())
def test_a_space_holds_its_pairs_and_no_others(space):
    grid = as_pairs(*np.divmod(np.arange(50 * 50), 50))
    wanted = every_pair(space) | {(b, a) for a, b in every_pair(space) if space.symmetric}
    assert as_set(grid[space.holds(grid)]) == wanted


@given(st.data(), st.booleans())
def test_a_rule_says_the_same_of_pairs_and_of_a_table(data, is_symmetric):
    rule = data.draw(rules(is_symmetric))
    if rule is None:
        return
    left, right = np.arange(3, 20), np.arange(10, 50)
    table = rule.table(left, right)
    assert table.tolist() == [[can_match(rule, a, b) for b in right.tolist()] for a in left.tolist()]
    assert (
        rule.allows(as_pairs(np.repeat(left, len(right)), np.tile(right, len(left)))).tolist() == table.ravel().tolist()
    )
    unreachable = np.setdiff1d(np.arange(len(right)), rule.reachable(left, right))
    assert not table[:, unreachable].any()


@pytest.mark.parametrize("texts", [2_000_000_000, 100_000_001, 141_422, 3, 2])
def test_at_finds_the_place_of_a_pair_among_10_to_the_16(texts):
    # Pair (c, r), c < r, is number r * (r - 1) / 2 + c: at the ends of some rows r, in exact Python integers. Roots in
    # floats are first wrong a little above 10^8 texts, hence the 2 * 10^9.
    space = PairSpace(AllRows(texts), AllRows(texts), texts, symmetric=True)
    rng = np.random.default_rng(0)
    high = sorted({1, 2, texts - 1, texts - 2} | set(rng.integers(1, texts, 2000).tolist()))
    high = [r for r in high if 0 < r < texts]
    places = [(r * (r - 1) // 2 + c, c, r) for r in high for c in {0, r // 2, r - 1}]
    assert places[-1][0] < space.total == texts * (texts - 1) // 2
    index = np.array([place for place, _, _ in places])
    assert np.array_equal(space.pairs(space.at(index)), [[c, r] for _, c, r in places])


def test_at_finds_the_place_of_a_pair_among_10_to_the_16_of_two_sides():
    space = PairSpace(AllRows(10**8), AllRows(10**8), 10**8, symmetric=False)
    index = np.concatenate([[0, space.total - 1], np.random.default_rng(0).integers(0, space.total, 1000)])
    assert space.total == 10**16
    assert space.at(index).tolist() == index.tolist()


@given(KEYS, KEYS)
def test_is_in_and_distinct_are_those_of_sets(keys, known):
    known = distinct(known)
    assert known.tolist() == sorted(set(known.tolist()))
    assert distinct(keys).tolist() == sorted(set(keys.tolist()))
    assert is_in(keys, known).tolist() == [key in set(known.tolist()) for key in keys.tolist()]


@given(spaces(), st.data())
def test_a_draw_is_distinct_of_the_space_and_never_of_the_excluded(space, data):
    every = np.sort(space.at(np.arange(space.total, dtype=np.int64)))
    excluded = every[
        np.array(data.draw(st.lists(st.booleans(), min_size=space.total, max_size=space.total)), dtype=bool)
    ]
    count = data.draw(st.integers(0, space.total - len(excluded)))
    drawn = space.draw(count, excluded, np.random.default_rng(0))
    assert len(set(drawn.tolist())) == len(drawn) == count
    assert set(drawn.tolist()) <= set(every.tolist()) - set(excluded.tolist())


def test_a_draw_of_more_than_there_is_names_what_is_left():
    space = symmetric(range(5))
    with pytest.raises(BadOption, match=r"only 8 of 10 are left"):
        space.draw(9, space.at(np.arange(2)), np.random.default_rng(0))


@pytest.mark.parametrize("share", ["few", "most"])
def test_a_draw_is_uniform_in_what_it_takes_and_in_its_order(share):
    # 40 texts have 780 pairs; with every seventh excluded 668 are left. Few: by rejection; most: by a permutation.
    space = symmetric(range(40))
    every = np.sort(space.at(np.arange(space.total)))
    excluded, free = every[::7], np.delete(every, np.arange(0, 780, 7))
    count, draws = {"few": (100, 600), "most": (400, 200)}[share]
    rng = np.random.default_rng(1)
    drawn = np.array([space.draw(count, excluded, rng) for _ in range(draws)])
    assert np.array_equal(np.unique(drawn), free)
    # What is taken: every free pair as often. Draws without repeats vary less than chi-square expects: 1 - count/668.
    taken = np.searchsorted(free, drawn)
    statistic, _ = chisquare(np.bincount(taken.ravel(), minlength=668))
    assert chi_square_p(statistic / (1 - count / 668), 667) > 1e-3
    # Its order: what stands first is uniform over the free pairs too (in 12 bands of them), and so is what stands last.
    for place in (0, -1):
        assert chisquare(np.bincount(taken[:, place] * 12 // 668, minlength=12)).pvalue > 1e-3


def chi_square_p(statistic: float, freedom: int):
    """Smaller tail of chi-square, doubled: too even is as wrong as too uneven."""
    return 2 * min(chi2.sf(statistic, freedom), chi2.cdf(statistic, freedom))


def test_a_draw_is_the_same_for_the_same_seed():
    space = symmetric(range(40))
    first, second = (space.draw(50, NO_KEYS, np.random.default_rng(3)) for _ in range(2))
    assert first.tolist() == second.tolist() != sorted(first.tolist())
