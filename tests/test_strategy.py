"""Strategies as orders and draws: costs, ties and shares, by hand and by law."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.config import RunConfig
from al_ray.core.errors import BadOption
from al_ray.core.pairs import NO_KEYS
from al_ray.core.records import Model
from al_ray.core.scoring import Scorer
from al_ray.core.strategy import HIGHEST, NOTHING, Candidates, Order, drawn, found, order_of, stated
from al_ray.core.task import Split

RUN = RunConfig(task="task", first_batch=10, rounds=2)
COSINES = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0])
CENTRES = st.sampled_from([-inf, -0.5, 0.3, 0.5, inf])


@st.composite
def candidates(draw, most: int = 30) -> Candidates:
    """Distinct keys in any order, with few different cosines, so that many are equal."""
    keys = draw(st.lists(st.integers(0, 60), unique=True, max_size=most))
    # A pair's cosine is the same wherever it is found.
    cosines = [((key * 7) % 9 - 4) / 4 for key in keys]
    return Candidates(np.array(keys, dtype=np.int64), np.array(cosines, dtype=np.float64))


def test_the_cost_is_the_distance_to_the_centre():
    assert Order(0.5).cost(np.array([0.25, 0.5, 1.0])).tolist() == [0.25, 0.0, 0.5]
    # The boundary may lie outside of what a cosine can be.
    assert Order(2.0).cost(np.array([0.25, 1.0])).tolist() == [1.75, 1.0]


def test_an_infinite_centre_is_the_highest_or_the_lowest_first():
    cosines = np.array([0.2, 0.9, -0.4], dtype=np.float32)
    assert np.argsort(Order(inf).cost(cosines)).tolist() == [1, 0, 2]
    assert np.argsort(Order(-inf).cost(cosines)).tolist() == [2, 0, 1]


@given(st.lists(st.floats(-1, 1, width=16), min_size=2, max_size=10, unique=True))
def test_an_infinite_centre_is_the_limit_of_a_far_one(cosines):
    # So few bits that the difference to 8 keeps them all.
    exact = np.array(cosines, dtype=np.float32)
    for sign in (1, -1):
        far = np.argsort(Order(sign * 8.0).cost(exact), kind="stable")
        assert np.argsort(Order(sign * inf).cost(exact), kind="stable").tolist() == far.tolist()


def test_only_a_trained_model_has_a_boundary():
    trained = Model("", "", Scorer(weight=20.0, bias=-12.0))
    assert order_of("uncertainty", trained).centre == pytest.approx(0.6)
    assert order_of("uncertainty", Model("", "")) == HIGHEST
    assert order_of("adaptive", trained) == HIGHEST
    assert order_of("static", Model("", "")) == HIGHEST
    assert order_of("uncertainty", Model("", "", Scorer(weight=0.0, bias=-1.0))).centre == inf


@given(candidates(), CENTRES, st.integers(0, 35))
def test_the_least_are_the_first_by_cost_then_key(every, centre, count):
    order = Order(centre)
    triples = zip(order.cost(every.cosines).tolist(), every.keys.tolist(), every.cosines.tolist(), strict=True)
    wanted = sorted(triples)[:count]
    least = every.least(order, count)
    assert least.keys.tolist() == [key for _, key, _ in wanted]
    assert least.cosines.tolist() == [cosine for _, _, cosine in wanted]


@given(candidates(), candidates(), CENTRES, st.integers(1, 20))
def test_the_least_of_parts_joined_are_the_least_of_all(one, other, centre, count):
    order = Order(centre)
    whole = one.joined(other).least(order, count)
    parts = one.least(order, count).joined(other.least(order, count)).least(order, count)
    assert parts.keys.tolist() == whole.keys.tolist()
    assert set(one.joined(other).keys.tolist()) == set(one.keys.tolist()) | set(other.keys.tolist())
    assert len(one.joined(one)) == len(one) == len(one.joined(NOTHING))


def test_found_pairs_are_distinct_and_new():
    keys = np.array([7, 3, 7, 5, 3])
    fresh = found(keys, np.array([0.7, 0.3, 0.7, 0.5, 0.3], dtype=np.float32), labelled=np.array([1, 5, 9]))
    assert fresh.keys.tolist() == [3, 7]
    assert fresh.cosines == pytest.approx([0.3, 0.7])
    assert fresh.cosines.dtype == np.float64


def test_random_takes_its_share_of_what_is_left(task):
    split, config = task.split("train"), replace(RUN, strategy="random")
    keys = drawn(config, split, 1, NO_KEYS)
    assert keys is not None
    # 10 + 15, all in one round.
    assert len(set(keys.tolist())) == 25
    assert split.space.holds(split.space.pairs(keys)).all()
    every = np.sort(split.space.at(np.arange(split.space.total)))
    rest = drawn(config, split, 1, every[3:])
    assert rest is not None
    assert sorted(rest.tolist()) == every[:3].tolist()
    nothing = drawn(config, split, 1, every)
    assert nothing is not None
    assert len(nothing) == 0


def test_random_by_rounds_is_one_draw_without_repeats(task):
    """Over many seeds every pair is as likely as any other, in the first round, the second, and both together."""
    split, config = task.split("train"), replace(RUN, strategy="random", train_every_budget=True)
    counts = np.zeros((2, split.space.total))
    every = np.sort(split.space.at(np.arange(split.space.total)))
    for seed in range(400):
        first = drawn(replace(config, seed=seed), split, 1, NO_KEYS)
        assert first is not None
        second = drawn(replace(config, seed=seed), split, 2, np.sort(first))
        assert second is not None
        assert (len(first), len(second)) == (10, 15)
        assert len(np.unique(np.concatenate([first, second]))) == 25
        for number, keys in enumerate((first, second)):
            counts[number, np.searchsorted(every, keys)] += 1
    for times, size in ((counts[0], 10), (counts[1], 15), (counts.sum(axis=0), 25)):
        share = size / split.space.total
        # A count is binomial: its squares are 1 on average, of 780 pairs by 0.05 (standard error).
        spread = np.mean((times - 400 * share) ** 2) / (400 * share * (1 - share))
        assert 0.75 < spread < 1.25


def test_random_draws_are_named_by_the_seed(task):
    split, config = task.split("train"), replace(RUN, strategy="random")
    one, again, other = (drawn(replace(config, seed=seed), split, 1, NO_KEYS) for seed in (0, 0, 1))
    assert one is not None
    assert again is not None
    assert other is not None
    assert one.tolist() == again.tolist() != other.tolist()


def test_stated_takes_every_stated_pair_once_whatever_the_budget(task):
    split = task.split("train")
    keys = drawn(replace(RUN, strategy="stated", first_batch=1), split, 1, NO_KEYS)
    assert keys is not None
    wanted = {tuple(pair) for pair in [*split.positives.tolist(), *split.stated_negatives.tolist()]}
    assert len(keys) == len(wanted)
    assert {tuple(pair) for pair in split.space.pairs(keys).tolist()} == wanted


def test_stated_seeding_draws_the_first_batch_alone(task):
    split, config = task.split("train"), replace(RUN, seeding="stated")
    keys = drawn(config, split, 1, NO_KEYS)
    assert keys is not None
    assert len(set(keys.tolist())) == 10
    assert set(keys.tolist()) < set(stated(split).tolist())
    assert drawn(config, split, 2, np.sort(keys)) is None
    more = drawn(replace(config, first_batch=10**6), split, 1, NO_KEYS)
    assert more is not None
    assert sorted(more.tolist()) == stated(split).tolist()


@pytest.mark.parametrize("strategy", ["static", "random", "stated"])
def test_stated_seeding_of_what_has_no_rounds_is_refused(strategy):
    with pytest.raises(BadOption, match=f"--strategy {strategy} asks none"):
        replace(RUN, strategy=strategy, seeding="stated")


@pytest.mark.parametrize("strategy", ["uncertainty", "adaptive", "static"])
def test_what_asks_a_model_draws_nothing(task, strategy):
    assert drawn(replace(RUN, strategy=strategy), task.split("train"), 1, NO_KEYS) is None


def parts_of(split: Split, keys) -> tuple[set[int], set[int]]:
    """The positives and the negatives of drawn keys, none of which comes twice."""
    assert len(set(keys.tolist())) == len(keys)
    positive = np.isin(keys, split.positive_keys)
    assert split.space.holds(split.space.pairs(keys)).all()
    return set(keys[positive].tolist()), set(keys[~positive].tolist())


def test_stratified_match_draws_so_many_positives_and_so_many_negatives(task):
    split, config = task.split("train"), replace(RUN, strategy="stratified-match", matched=(7, 20))
    assert config.batches == (27,)
    positives, negatives = parts_of(split, drawn(config, split, 1, NO_KEYS))
    assert (len(positives), len(negatives)) == (7, 20)
    others = parts_of(split, drawn(replace(config, seed=1), split, 1, NO_KEYS))
    assert others != (positives, negatives)
    with pytest.raises(BadOption, match=rf"asks for 9,999 positives, and train has {len(split.positives):,}"):
        drawn(replace(config, matched=(9_999, 20)), split, 1, NO_KEYS)


@pytest.mark.parametrize("positive", [True, False])
def test_stratified_draws_are_uniform_among_each_kind(task, positive):
    split, config = task.split("train"), replace(RUN, strategy="stratified-match", matched=(7, 20))
    counts: dict[int, int] = {}
    for seed in range(400):
        for key in parts_of(split, drawn(replace(config, seed=seed), split, 1, NO_KEYS))[0 if positive else 1]:
            counts[key] = counts.get(key, 0) + 1
    size = len(split.positives) if positive else split.space.total - len(split.positives)
    share = (7 if positive else 20) / size
    times = np.array([*counts.values(), *[0] * (size - len(counts))])
    assert 0.7 < np.mean((times - 400 * share) ** 2) / (400 * share * (1 - share)) < 1.4


@pytest.mark.parametrize("first_batch", [1, 80])
def test_stratified_all_takes_all_positives_and_the_rest_of_the_budget_or_as_many_negatives(task, first_batch):
    split, config = task.split("train"), replace(RUN, strategy="stratified-all", first_batch=first_batch)
    positives, negatives = parts_of(split, drawn(config, split, 1, NO_KEYS))
    assert positives == set(split.positive_keys.tolist())
    rest = sum(config.batches) - len(positives)
    assert (rest > len(positives)) == (first_batch == 80), "both of the paper's cases"
    assert len(negatives) == max(rest, len(positives))
