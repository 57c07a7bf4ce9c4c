"""Strategies: one contract over all of the registry, the draws by hand and by law, and all that derives from it."""

from dataclasses import replace
from math import inf
from typing import get_args, get_type_hints

import numpy as np
import pytest

from al_ray.active_learning import loop
from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.method import Method
from al_ray.active_learning.round_request import RoundRequest
from al_ray.active_learning.strategies import (
    STRATEGIES,
    Strategy,
    StrategyName,
    stated,
    stated_seed,
    strategies_help,
)
from al_ray.apps.grid.spec import NEEDS, Axes
from al_ray.apps.reporting.plots.learning_curves import LOOKS
from al_ray.core.candidates import Candidates
from al_ray.core.config.serialization import from_dict
from al_ray.core.errors import BadOption
from al_ray.core.labels import Labelled, Model, State
from al_ray.core.pairs import NO_KEYS, Keys
from al_ray.core.scorer import Scorer
from al_ray.core.task import Split, Task
from tests.active_learning.plain_world import Plain

RUN = RunConfig(task="task", first_batch=10, rounds=2)
TRAINED = Model("", "w", Scorer(weight=20.0, bias=-12.0))


def request_of(config: RunConfig, task: Task, number: int, labelled: Keys, model: Model | None) -> RoundRequest:
    """The request of a round in which these pairs are labelled, each as no match."""
    world = Plain(config, task)
    pairs = world.split.space.pairs(labelled)
    bought = Labelled().extended(pairs, np.zeros(len(pairs), dtype=np.uint8), 1, "before")
    return loop.make_request(config, world.split, world, State(number - 1, bought, model), number)


def chosen(config: RunConfig, task: Task, number: int = 1, labelled: Keys = NO_KEYS) -> Candidates:
    """What a strategy chooses for a round; under a trained model where it uses one."""
    strategy = STRATEGIES[config.strategy]
    return strategy.choose(request_of(config, task, number, labelled, TRAINED if strategy.uses_model else None))


def drawn(config: RunConfig, task: Task, number: int = 1, labelled: Keys = NO_KEYS) -> Keys:
    """The keys of what a strategy chooses."""
    return chosen(config, task, number, labelled).keys


def config_of(name: str, **changes) -> RunConfig:
    """A run whose budget of 150 pairs suffices for all stated pairs, and for all positives and as many negatives."""
    matched = (7, 20) if STRATEGIES[name].matches else None
    return replace(RUN, strategy=name, first_batch=60, matched=matched, **changes)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_chooses_at_most_what_is_asked_each_once_and_nothing_that_is_labelled(task, name):
    split, config = task.split("train"), config_of(name)
    first = chosen(config, task)
    assert 0 < len(first) <= config.batches[0]
    if not STRATEGIES[name].takes_all_stated:
        assert len(first) == config.batches[0]
    assert len(first.cosines) == len(np.unique(first.keys)) == len(first)
    assert split.space.holds(split.space.pairs(first.keys)).all()
    assert np.isnan(first.cosines).all() == (not STRATEGIES[name].searches)
    assert np.array_equal(chosen(config, task).keys, first.keys), "equal for equal seeds"
    if config.once:
        return
    second = chosen(config, task, 2, np.sort(first.keys))
    assert len(second) == config.batches[1]
    assert not set(second.keys.tolist()) & set(first.keys.tolist())


@pytest.mark.parametrize("name", [name for name, one in STRATEGIES.items() if one.uses_model or one.by_rounds])
def test_a_strategy_takes_what_is_left_and_then_nothing(task, name):
    split, config = task.split("train"), replace(RUN, strategy=name, train_every_budget=True)
    every = np.sort(split.space.at(np.arange(split.space.total)))
    every = stated(split) if STRATEGIES[name].takes_all_stated else every
    rest = chosen(config, task, 2, every[3:])
    assert sorted(rest.keys.tolist()) == every[:3].tolist()
    assert len(chosen(config, task, 2, every)) == 0


@pytest.mark.parametrize("name", STRATEGIES)
def test_facts_of_a_strategy_do_not_contradict_each_other(name):
    one = STRATEGIES[name]
    assert one.searches or not one.uses_model, "a model is only of use to a search"
    assert not (one.uses_model and one.knows_positives)
    assert one.matches is None or one.matches in STRATEGIES
    assert one.summary
    assert one.choose.__doc__


def test_whoever_names_strategies_names_those_of_the_registry(monkeypatch):
    assert get_args(StrategyName) == get_args(get_type_hints(RunConfig)["strategy"]) == tuple(STRATEGIES)
    assert set(LOOKS) <= set(STRATEGIES)
    assert NEEDS == {"stratified-match": "uncertainty"}
    # As the paper's Tables 3 and 5 have them; a strategy that is not the paper's may stand anywhere.
    paper = ["random", "stated", "static", "stratified-match", "stratified-all", "adaptive", "uncertainty"]
    assert sorted(paper, key=lambda name: Method(name).rank) == paper
    for name, one in STRATEGIES.items():
        assert ("(oracle)" in Method(name).words()) == one.knows_positives
    for name, one in STRATEGIES.items():
        assert f"{name}: {one.summary}" in strategies_help()
    monkeypatch.setitem(STRATEGIES, "likely", Strategy(STRATEGIES["adaptive"].choose, "likely pairs", uses_model=True))
    assert "; likely: likely pairs" in strategies_help()
    assert Method("likely").words() == "likely"
    assert Method("likely").rank > Method("uncertainty").rank
    assert RunConfig(task="t", strategy="likely").batches == RunConfig(task="t").batches
    assert Axes(("likely",), (0,), ("e",)).strategies == ("likely",)


def test_a_name_without_an_implementation_is_refused_wherever_it_comes_in():
    known = ", ".join(STRATEGIES)
    with pytest.raises(BadOption, match=f"`strategy` is 'likely'; give one of {known}"):
        RunConfig(task="t", strategy="likely")
    with pytest.raises(BadOption, match=f"`strategies` has likely; give some of {known}"):
        Axes(("likely",), (0,), ("e",))
    with pytest.raises(BadOption, match="strategy is 'likely'"):
        from_dict(RunConfig, {"task": "t", "strategy": "likely"})


def test_only_the_boundary_of_a_trained_model_is_asked_for(task):
    asked = request_of(replace(RUN, strategy="uncertainty"), task, 2, NO_KEYS, TRAINED)
    # -b/w
    assert asked.boundary == pytest.approx(0.6)
    assert replace(asked, model=Model("", "", Scorer(weight=0.0, bias=-1.0))).boundary == inf
    with pytest.raises(AssertionError):
        _ = replace(asked, model=None).boundary


def test_random_takes_its_share_of_what_is_left(task):
    split, config = task.split("train"), replace(RUN, strategy="random")
    keys = drawn(config, task)
    # 10 + 15, all in one round.
    assert len(set(keys.tolist())) == 25
    assert split.space.holds(split.space.pairs(keys)).all()
    every = np.sort(split.space.at(np.arange(split.space.total)))
    rest = drawn(config, task, 1, every[3:])
    assert sorted(rest.tolist()) == every[:3].tolist()
    nothing = drawn(config, task, 1, every)
    assert len(nothing) == 0


def test_random_by_rounds_is_one_draw_without_repeats(task):
    """Over many seeds every pair is as likely as any other, in the first round, the second, and both together."""
    split, config = task.split("train"), replace(RUN, strategy="random", train_every_budget=True)
    counts = np.zeros((2, split.space.total))
    every = np.sort(split.space.at(np.arange(split.space.total)))
    for seed in range(400):
        first = drawn(replace(config, seed=seed), task)
        second = drawn(replace(config, seed=seed), task, 2, np.sort(first))
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
    config = replace(RUN, strategy="random")
    one, again, other = (drawn(replace(config, seed=seed), task) for seed in (0, 0, 1))
    assert one.tolist() == again.tolist() != other.tolist()


def test_stated_takes_every_stated_pair_once_whatever_the_budget(task):
    split = task.split("train")
    keys = drawn(replace(RUN, strategy="stated", first_batch=1), task)
    wanted = {tuple(pair) for pair in [*split.positives.tolist(), *split.stated_negatives.tolist()]}
    assert len(keys) == len(wanted)
    assert {tuple(pair) for pair in split.space.pairs(keys).tolist()} == wanted


def test_stated_seeding_draws_the_first_batch_of_the_stated_pairs(task):
    split, config = task.split("train"), replace(RUN, seeding="stated")
    keys = stated_seed(request_of(config, task, 1, NO_KEYS, None)).keys
    assert len(set(keys.tolist())) == 10
    assert set(keys.tolist()) < set(stated(split).tolist())
    more = stated_seed(request_of(replace(config, first_batch=10**6), task, 1, NO_KEYS, None)).keys
    assert sorted(more.tolist()) == stated(split).tolist()


@pytest.mark.parametrize("strategy", [name for name, one in STRATEGIES.items() if not one.uses_model])
def test_stated_seeding_of_what_has_no_rounds_is_refused(strategy):
    with pytest.raises(BadOption, match=f"`strategy='{strategy}'` asks none"):
        replace(RUN, strategy=strategy, seeding="stated")


def parts_of(split: Split, keys) -> tuple[set[int], set[int]]:
    """The positives and the negatives of drawn keys, none of which comes twice."""
    assert len(set(keys.tolist())) == len(keys)
    positive = np.isin(keys, split.positive_keys)
    assert split.space.holds(split.space.pairs(keys)).all()
    return set(keys[positive].tolist()), set(keys[~positive].tolist())


def test_stratified_match_draws_so_many_positives_and_so_many_negatives(task):
    split, config = task.split("train"), replace(RUN, strategy="stratified-match", matched=(7, 20))
    assert config.batches == (27,)
    positives, negatives = parts_of(split, drawn(config, task))
    assert (len(positives), len(negatives)) == (7, 20)
    others = parts_of(split, drawn(replace(config, seed=1), task))
    assert others != (positives, negatives)
    with pytest.raises(BadOption, match=r"`strategy='stratified-match'` draws as many .* give `match=RUN`"):
        drawn(replace(config, matched=None), task)
    with pytest.raises(BadOption, match=rf"asks for 9,999 positives, and train has {len(split.positives):,}"):
        drawn(replace(config, matched=(9_999, 20)), task)


@pytest.mark.parametrize("positive", [True, False])
def test_stratified_draws_are_uniform_among_each_kind(task, positive):
    split, config = task.split("train"), replace(RUN, strategy="stratified-match", matched=(7, 20))
    counts: dict[int, int] = {}
    for seed in range(400):
        for key in parts_of(split, drawn(replace(config, seed=seed), task))[0 if positive else 1]:
            counts[key] = counts.get(key, 0) + 1
    size = len(split.positives) if positive else split.space.total - len(split.positives)
    share = (7 if positive else 20) / size
    times = np.array([*counts.values(), *[0] * (size - len(counts))])
    assert 0.7 < np.mean((times - 400 * share) ** 2) / (400 * share * (1 - share)) < 1.4


@pytest.mark.parametrize("first_batch", [1, 80])
def test_stratified_all_takes_all_positives_and_the_rest_of_the_budget_or_as_many_negatives(task, first_batch):
    split, config = task.split("train"), replace(RUN, strategy="stratified-all", first_batch=first_batch)
    positives, negatives = parts_of(split, drawn(config, task))
    assert positives == set(split.positive_keys.tolist())
    rest = sum(config.batches) - len(positives)
    assert (rest > len(positives)) == (first_batch == 80), "both of the paper's cases"
    assert len(negatives) == max(rest, len(positives))
