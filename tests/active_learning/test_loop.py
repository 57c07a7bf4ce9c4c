"""The loop in memory: one contract over every strategy, and stops between any two steps."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from al_ray.active_learning import loop
from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.round_request import RoundRequest
from al_ray.active_learning.strategies import STRATEGIES, Strategy, stated
from al_ray.core.candidates import HIGHEST, Candidates, Order
from al_ray.core.config.sections import SearchConfig, TrainingConfig
from al_ray.core.errors import LabelsAwaited, TrainingFailed
from al_ray.core.labels import UNSURE, YES, Answers, Batch, Labelled, Model, State, make_answers
from al_ray.core.pairs import NO_KEYS, Pairs, Rows, as_pairs
from al_ray.core.scorer import Scorer
from al_ray.core.task import Split, Task
from al_ray.oracles.simulated import SimulatedOracle
from tests.active_learning.plain_world import BOUNDARY, RUN, Plain, cosine, states_of


def variants() -> Iterator[dict[str, Any]]:
    """The options of every strategy in the registry, with all that it can be told."""
    for name, strategy in STRATEGIES.items():
        plain: dict[str, Any] = {"strategy": name, **({"matched": (3, 20)} if strategy.matches else {})}
        told = [plain]
        if strategy.uses_model:
            told.append({**plain, "seeding": "stated"})
        elif strategy.by_rounds:
            told.append({**plain, "train_every_budget": True})
        yield from told
        yield from ({**one, "choose_ahead": True} for one in told)
        if strategy.searches:
            yield from ({**one, "search": SearchConfig(ordered_pairs=True)} for one in told)


EVERY = list(variants())


def labels_wanted(config: RunConfig, split: Split) -> list[int]:
    """The labels of each round of a run whose candidates do not run out."""
    sizes = list(config.batches)
    if STRATEGIES[config.strategy].takes_all_stated:
        # All there are, with the last round.
        return [*sizes[:-1], len(stated(split)) - sum(sizes[:-1])]
    if config.strategy == "stratified-all":
        return [max(sum(sizes), 2 * len(split.positives))]
    return sizes


def config_of(changes: dict) -> RunConfig:
    return replace(RUN, **changes)


def same(one: Labelled, other: Labelled) -> bool:
    arrays = ((one.pairs, other.pairs), (one.labels, other.labels), (one.rounds, other.rounds))
    return one.sources == other.sources and all(np.array_equal(a, b) for a, b in arrays)


@pytest.mark.parametrize("changes", EVERY)
def test_a_round_gets_the_pairs_it_asks_for_each_once_with_its_label(task, changes):
    config = config_of(changes)
    world = Plain(config, task)
    states = states_of(config, world)
    last, split = states[-1], world.split
    wanted = labels_wanted(config, split)
    # 8 + 12 + 18, or all at once.
    assert np.bincount(last.labelled.rounds)[1:].tolist() == wanted
    assert [state.round for state in states] == world.journal.complete_rounds == list(range(1, len(wanted) + 1))
    assert world.oracle.labels_given == len(last.labelled) == sum(wanted)
    assert len({tuple(pair) for pair in last.labelled.pairs.tolist()}) == len(last.labelled)
    assert split.space.holds(last.labelled.pairs).all()
    positives = {frozenset(pair) if task.symmetric else tuple(pair) for pair in split.positives.tolist()}
    for pair, label in zip(last.labelled.pairs.tolist(), last.labelled.labels.tolist(), strict=True):
        assert label == ((frozenset(pair) if task.symmetric else tuple(pair)) in positives)
    assert world.trainer.trained == [(n + 1, sum(wanted[: n + 1])) for n in range(len(wanted))]
    bought = np.concatenate([batch.pairs for batch in world.journal.batches.values()])
    assert np.array_equal(bought, last.labelled.pairs)


@pytest.mark.parametrize("changes", EVERY)
@pytest.mark.parametrize("stop", [1, 2])
def test_a_run_gone_on_with_equals_the_unbroken_one(task, changes, stop):
    config = config_of(changes)
    unbroken = states_of(config, Plain(config, task))[-1]
    world = Plain(config, task)
    assert list(islice(loop.run(config, world.split, world, State()), stop))
    states = states_of(config, world, world.journal.last)
    assert len(states) == max(0, len(config.batches) - stop)
    assert same(world.journal.last.labelled, unbroken.labelled)
    assert world.oracle.labels_given == len(unbroken.labelled)


@pytest.mark.parametrize("changes", EVERY)
def test_a_batch_that_was_bought_is_not_bought_again(task, changes):
    config = config_of(changes)
    unbroken = states_of(config, Plain(config, task))[-1]
    broken = Plain(config, task, breaks=len(config.batches))
    with pytest.raises(KeyboardInterrupt):
        states_of(config, broken)
    assert broken.oracle.labels_given == len(unbroken.labelled), "the last batch was bought, and no model made of it"
    broken.trainer.breaks = 0
    states_of(config, broken, broken.journal.last)
    assert broken.oracle.labels_given == len(unbroken.labelled)
    assert same(broken.journal.last.labelled, unbroken.labelled)


@pytest.mark.parametrize(
    "changes",
    [
        *(changes for changes in EVERY if STRATEGIES[changes["strategy"]].searches),
        {"strategy": "random", "first_batch": 10**5},
    ],
)
def test_a_run_whose_candidates_run_out_takes_them_all_and_ends(task, changes):
    # The pairs of two left texts are fewer than 32 + 48 + 72; all pairs are fewer than 10^5.
    config = config_of({"first_batch": 32, **changes})
    world = Plain(config, task, known=2)
    states = states_of(config, world)
    candidates = world.split.space.total if config.strategy == "random" else len(world.retriever.pairs)
    last = states[-1]
    assert len(last.labelled) < sum(config.batches)
    assert (
        len({tuple(pair) for pair in last.labelled.pairs.tolist()}) == len(last.labelled) == world.oracle.labels_given
    )
    if config.seeding != "stated":
        assert len(last.labelled) == candidates
    for before, after in zip([State(), *states], states, strict=False):
        assert len(after.labelled) > len(before.labelled), "no round is complete without a label"
    # Asked again, it ends again, and neither buys nor trains.
    trained = list(world.trainer.trained)
    assert states_of(config, world, world.journal.last) == []
    assert world.trainer.trained == trained
    assert world.oracle.labels_given == len(last.labelled)


@pytest.mark.parametrize("search", [SearchConfig(), SearchConfig(ordered_pairs=True)])
def test_static_at_every_budget_buys_what_it_buys_at_once_in_the_same_order(task, search):
    config = replace(RUN, strategy="static", search=search)
    at_once, rounds = Plain(config, task), Plain(replace(config, train_every_budget=True), task)
    whole = states_of(config, at_once)[-1].labelled
    states = states_of(replace(config, train_every_budget=True), rounds)
    assert [len(state.labelled) for state in states] == [8, 20, 38]
    for state in states:
        assert np.array_equal(state.labelled.pairs, whole.pairs[: len(state.labelled)])
    assert np.array_equal(states[-1].labelled.labels, whole.labels)
    assert set(states[-1].labelled.sources) == {"static"}
    cosines = np.concatenate([batch.cosines for batch in rounds.journal.batches.values()])
    assert np.array_equal(cosines, at_once.journal.batches[1].cosines)
    assert rounds.trainer.trained == [(1, 8), (2, 20), (3, 38)]


@pytest.mark.parametrize("first_batch", [8, 60])
def test_stated_at_every_budget_buys_what_it_buys_at_once(task, first_batch):
    config = replace(RUN, strategy="stated", first_batch=first_batch, train_every_budget=True)
    world = Plain(config, task)
    states, every = states_of(config, world), stated(world.split)
    # Those that are stated end in the last round, and if they end earlier, so does the run.
    wanted = [min(sum(config.batches[:number]), len(every)) for number in (1, 2)]
    wanted = [*wanted, len(every)]
    assert [len(state.labelled) for state in states] == wanted[: wanted.index(len(every)) + 1]
    assert sorted(world.split.space.keys(states[-1].labelled.pairs).tolist()) == every.tolist()
    first = Plain(replace(RUN, seeding="stated", first_batch=first_batch), task)
    next(loop.run(replace(RUN, seeding="stated", first_batch=first_batch), first.split, first, State()))
    assert np.array_equal(first.journal.batches[1].pairs, world.journal.batches[1].pairs), "as stated seeding"


def picks(task: Task, config: RunConfig, cost: Callable[[float], float]) -> list[tuple[int, int]]:
    """The pairs of the second round by a loop over all pairs, from the first round's."""
    world = Plain(config, task)
    first = next(loop.run(config, world.split, world, State()))
    taken = {tuple(pair) for pair in first.labelled.pairs.tolist()}
    assert first.model is not None
    ranked = []
    for pair in world.retriever.pairs:
        if pair not in taken:
            key = int(world.retriever.space.keys(as_pairs([pair[0]], [pair[1]]))[0])
            ranked.append((cost(cosine(pair, first.model.digest)), key, pair))
    return [pair for _, _, pair in sorted(ranked)[: config.batches[1]]]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(
    ("strategy", "cost"), [("uncertainty", lambda c: abs(c - BOUNDARY)), ("adaptive", lambda c: -c)]
)
def test_a_round_buys_the_least_of_all_pairs_in_order(task, strategy, cost, ordered):
    config = replace(RUN, strategy=strategy, search=SearchConfig(ordered_pairs=ordered))
    world = Plain(config, task)
    states_of(config, world)
    batch = world.journal.batches[2]
    assert [tuple(pair) for pair in batch.pairs.tolist()] == picks(task, config, cost)
    assert batch.cosines.tolist() == [cosine((a, b), "w") for a, b in batch.pairs.tolist()]


def half_and_half(request: RoundRequest) -> Candidates:
    """Half of the highest cosines, and of the rest those nearest the boundary: a batch by two orders."""
    highest = request.search(request.trained, HIGHEST, request.size // 2, request.labelled)
    taken = np.union1d(request.labelled, highest.keys)
    nearest = request.search(request.trained, Order(request.boundary), request.size - len(highest), taken)
    return Candidates(np.concatenate([highest.keys, nearest.keys]), np.concatenate([highest.cosines, nearest.cosines]))


def one_a_text(request: RoundRequest) -> Candidates:
    """Of the five times as many nearest the boundary, first the nearest of each left text: a diverse batch."""
    near = request.search(request.trained, Order(request.boundary), 5 * request.size, request.labelled)
    left = request.split.space.pairs(near.keys)[:, 0]
    again = np.ones(len(near), dtype=np.bool_)
    again[np.unique(left, return_index=True)[1]] = False
    chosen = np.argsort(again, kind="stable")[: request.size]
    return Candidates(near.keys[chosen], near.cosines[chosen])


def above_its_text(request: RoundRequest) -> Candidates:
    """The pairs whose cosine is highest above the mean of their left text's: an order with an offset of each text."""
    every = request.search(request.trained, HIGHEST, request.split.space.total, request.labelled)
    _, text, counts = np.unique(request.split.space.pairs(every.keys)[:, 0], return_inverse=True, return_counts=True)
    means = np.bincount(text, weights=every.cosines) / counts
    chosen = np.lexsort((every.keys, means[text] - every.cosines))[: request.size]
    return Candidates(every.keys[chosen], every.cosines[chosen])


@pytest.mark.parametrize("choose", [half_and_half, one_a_text, above_its_text])
def test_a_function_and_a_line_of_the_registry_make_a_strategy(task, monkeypatch, choose):
    monkeypatch.setitem(STRATEGIES, "mixed", Strategy(choose, "a batch of several kinds", uses_model=True))
    config = replace(RUN, strategy="mixed")
    world = Plain(config, task)
    unbroken = states_of(config, world)[-1].labelled
    assert np.bincount(unbroken.rounds)[1:].tolist() == [8, 12, 18]
    assert len({tuple(pair) for pair in unbroken.pairs.tolist()}) == 38
    assert [batch.source for batch in world.journal.batches.values()] == ["seed", "mixed", "mixed"]
    # It is no other strategy under a new name.
    for other in ("uncertainty", "adaptive"):
        told = replace(RUN, strategy=other)
        assert not np.array_equal(states_of(told, Plain(told, task))[-1].labelled.pairs, unbroken.pairs)
    again = Plain(config, task)
    assert list(islice(loop.run(config, again.split, again, State()), 1))
    states_of(config, again, again.journal.last)
    assert same(again.journal.last.labelled, unbroken)


@pytest.mark.parametrize("excluded", ["labelled", "nothing"])
def test_a_strategy_that_chooses_a_pair_twice_buys_nothing(task, monkeypatch, excluded):
    def careless(request: RoundRequest) -> Candidates:
        known = request.labelled if excluded == "labelled" else NO_KEYS
        half = request.search(request.untrained(), HIGHEST, request.size // 2, known)
        return Candidates(np.tile(half.keys, 2), np.tile(half.cosines, 2)) if excluded == "labelled" else half

    monkeypatch.setitem(STRATEGIES, "careless", Strategy(careless, "pairs that it chose before", uses_model=True))
    config = replace(RUN, strategy="careless")
    world = Plain(config, task)
    with pytest.raises(AssertionError, match="strategy careless chose a pair twice"):
        states_of(config, world)
    assert world.oracle.labels_given == 8


def test_a_mixed_batch_is_the_first_of_one_order_and_then_of_another(task, monkeypatch):
    monkeypatch.setitem(STRATEGIES, "mixed", Strategy(half_and_half, "half and half", uses_model=True))
    config = replace(RUN, strategy="mixed")
    world = Plain(config, task)
    states_of(config, world)
    bought = [tuple(pair) for pair in world.journal.batches[2].pairs.tolist()]
    assert bought[:6] == picks(task, config, lambda c: -c)[:6]
    # So large a second round has all pairs.
    nearest = picks(task, replace(config, growth=1000), lambda c: abs(c - BOUNDARY))
    assert bought[6:] == [pair for pair in nearest if pair not in bought[:6]][:6]


def test_sources_say_how_a_pair_was_chosen(task):
    for changes in EVERY:
        config = config_of(changes)
        world = Plain(config, task)
        states_of(config, world)
        sources = [config.strategy] * len(config.batches)
        if STRATEGIES[config.strategy].uses_model:
            first = "stated-seed" if config.seeding == "stated" else "seed"
            # What is chosen ahead in the first round knows no model either.
            without = 2 if config.choose_ahead else 1
            sources[:without] = [first] * without
        assert [batch.source for batch in world.journal.batches.values()] == sources
    config = config_of({"seeding": "stated"})
    world = Plain(config, task)
    states_of(config, world)
    assert [batch.source for batch in world.journal.batches.values()] == ["stated-seed", *["uncertainty"] * 2]
    assert np.isnan(world.journal.batches[1].cosines).all()


def test_ordered_pairs_are_bought_both_ways_with_one_label(make_task):
    task, config = make_task(True), config_of({"search": SearchConfig(ordered_pairs=True)})
    world = Plain(config, task)
    labelled = states_of(config, world)[-1].labelled
    label_of = dict(zip(map(tuple, labelled.pairs.tolist()), labelled.labels.tolist(), strict=True))
    both = [(a, b) for a, b in label_of if (b, a) in label_of]
    assert both
    assert all(label_of[a, b] == label_of[b, a] for a, b in both)


def test_the_oracle_counts_what_it_sells(task):
    split = task.split("train")
    oracle = SimulatedOracle(split)
    asked: Pairs = np.concatenate([split.positives[:3], split.stated_negatives[:2]])
    batch = Batch(asked, np.full(5, np.nan), "stated")
    (every,) = oracle.label(1, batch, np.arange(5))
    assert (every.rows.tolist(), every.labels.tolist()) == ([0, 1, 2, 3, 4], [1, 1, 1, 0, 0])
    assert every.labels.dtype == np.uint8
    (some,) = oracle.label(1, batch, np.array([4, 0]))
    assert (some.rows.tolist(), some.labels.tolist()) == ([4, 0], [0, 1])
    assert oracle.labels_given == 7


class Slow:
    """An oracle that sells three labels at a time, is unsure of every fifth pair, and may stop in between."""

    def __init__(self, split: Split, stops: int) -> None:
        self.whole, self.stops = SimulatedOracle(split), stops

    def label(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
        for start in range(0, len(missing), 3):
            if not self.stops:
                raise LabelsAwaited("later")
            self.stops -= 1
            rows = missing[start : start + 3]
            (told,) = self.whole.label(number, batch, rows)
            yield make_answers(rows, np.where(rows % 5 == 4, UNSURE, told.labels).astype(np.uint8), "slow")


def test_a_run_that_stops_at_every_piece_of_answers_equals_one_that_does_not(task):
    quiet, stopped = Plain(RUN, task), Plain(RUN, task)
    quiet.oracle, stopped.oracle = Slow(quiet.split, 10**6), Slow(quiet.split, 1)
    unbroken, waits = states_of(RUN, quiet)[-1].labelled, 0
    while stopped.journal.last.round < 3:
        try:
            states_of(RUN, stopped, stopped.journal.last)
        except LabelsAwaited:
            stopped.oracle.stops, waits = 1, waits + 1
    assert same(stopped.journal.last.labelled, unbroken)
    # 8, 12 and 18 labels are 3 + 4 + 6 pieces, and one of them a call.
    assert waits == 12
    assert stopped.oracle.whole.labels_given == quiet.oracle.whole.labels_given == 38
    assert stopped.trainer.trained == quiet.trainer.trained


def test_an_unsure_pair_is_kept_not_learnt_from_and_not_asked_again(task):
    world = Plain(RUN, task)
    world.oracle = Slow(world.split, 10**6)
    labelled = states_of(RUN, world)[-1].labelled
    unsure = labelled.labels == UNSURE
    # Rows 4 of 8; 4 and 9 of 12; 4, 9 and 14 of 18.
    assert unsure.sum() == 6
    assert len({tuple(pair) for pair in labelled.pairs.tolist()}) == len(labelled) == 38
    assert world.trainer.trained == [(1, 7), (2, 17), (3, 32)]
    assert labelled.positives == (labelled.labels == YES).sum()
    told = labelled.decided
    assert (len(told), UNSURE in told.labels, told.positives) == (32, False, labelled.positives)
    assert np.array_equal(told.pairs, labelled.pairs[~unsure])
    assert np.array_equal(told.rounds, labelled.rounds[~unsure])
    assert told.sources == ("seed",) * 7 + ("uncertainty",) * 25


def test_a_run_of_which_nothing_is_known_does_not_train(task):
    class Nobody:
        def label(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
            yield make_answers(missing, np.full(len(missing), UNSURE, dtype=np.uint8), "nobody")

    world = Plain(RUN, task)
    world.oracle = Nobody()
    with pytest.raises(TrainingFailed, match="no label says yes or no"):
        states_of(RUN, world)


def test_a_round_starts_from_the_pretrained_weights_or_from_those_of_the_round_before(task):
    for start in ("pretrained", "previous"):
        config = config_of({"rounds": 3, "training": TrainingConfig(start=start)})
        world = Plain(config, task)
        models = [state.model for state in states_of(config, world)]
        assert len(models) == 3
        base = world.trainer.untrained()
        assert world.trainer.starts == ([base] * 3 if start == "pretrained" else [base, *models[:-1]])


@pytest.mark.parametrize("strategy", ["uncertainty", "adaptive"])
def test_pairs_chosen_ahead_are_there_while_those_before_are_labelled_and_know_one_round_fewer(task, strategy):
    config = config_of({"strategy": strategy, "choose_ahead": True, "rounds": 4, "growth": 1.0})
    world, asked = Plain(config, task), dict[int, list[int]]()

    class Watched(SimulatedOracle):
        def label(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
            asked[number] = sorted(world.journal.batches)
            yield from super().label(number, batch, missing)

    world.oracle = Watched(world.split)
    states_of(config, world)
    assert asked == {1: [1, 2], 2: [1, 2, 3], 3: [1, 2, 3, 4], 4: [1, 2, 3, 4]}
    batches = world.journal.batches
    chosen = [world.split.space.keys(batches[number].pairs) for number in (1, 2, 3, 4)]
    for number in (3, 4):
        # By the model of two rounds before, without the pairs of all rounds before.
        model = Model("", "w" * (number - 2), Scorer(10.0, -10.0 * BOUNDARY))
        order = HIGHEST if strategy == "adaptive" else Order(BOUNDARY)
        wanted = world.retriever.least(model, order, config.first_batch, np.sort(np.concatenate(chosen[: number - 1])))
        assert chosen[number - 1].tolist() == wanted.keys.tolist()
