"""The loop in memory: one contract over every strategy, and stops between any two steps."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from al_ray.core import loop
from al_ray.core.config import EvaluationConfig, RunConfig, SearchConfig, TrainingConfig
from al_ray.core.errors import LabelsAwaited, TrainingFailed
from al_ray.core.evaluation import Evaluation, evaluation
from al_ray.core.examples import Examples
from al_ray.core.loop import ImputedOracle
from al_ray.core.metrics import Counts, Extent
from al_ray.core.pairs import Keys, Pairs, Rows, as_pairs
from al_ray.core.records import OPEN, UNSURE, YES, Answers, Batch, Labelled, Model, State, answers
from al_ray.core.scoring import Labels, Scorer
from al_ray.core.strategy import Candidates, Order, stated
from al_ray.core.task import Split, Task

BOUNDARY = 0.3
RUN = RunConfig(task="task", first_batch=8, rounds=3, evaluation=EvaluationConfig(splits=("dev", "train"), examples=0))
EVERY = [
    {"strategy": "uncertainty"},
    {"strategy": "adaptive"},
    {"strategy": "uncertainty", "seeding": "stated"},
    {"strategy": "uncertainty", "search": SearchConfig(ordered_pairs=True)},
    {"strategy": "static"},
    {"strategy": "random"},
    {"strategy": "stated"},
    {"strategy": "static", "train_every_budget": True},
    {"strategy": "static", "train_every_budget": True, "search": SearchConfig(ordered_pairs=True)},
    {"strategy": "random", "train_every_budget": True},
    {"strategy": "stated", "train_every_budget": True},
]


def cosine(pair: tuple[int, int], weights: str) -> float:
    """A made-up cosine of two texts under some weights: equal either way round, with many ties."""
    a, b = sorted(pair)
    return ((a * 31 + b * 17 + len(weights) * 5) % 41 - 20) / 20


class Table:
    """A retriever that looks at every pair of the first `known` left texts."""

    def __init__(self, split: Split, symmetric: bool, ordered: bool, known: int) -> None:
        self.space, self.known = replace(split.space, symmetric=symmetric and not ordered), known
        self.pairs = [
            (a, b)
            for a in split.space.left.tolist()[:known]
            for b in split.space.right.tolist()
            if not symmetric or (a != b if ordered else a < b)
        ]

    def least(self, model: Model, order: Order, count: int, labelled: Keys) -> Candidates:
        pairs = np.array(self.pairs).reshape(-1, 2)
        every = Candidates(self.space.keys(pairs), np.array([cosine(pair, model.digest) for pair in self.pairs]))
        fresh = ~np.isin(every.keys, labelled)
        return Candidates(every.keys[fresh], every.cosines[fresh]).least(order, count)


class Fixed:
    """A trainer whose models all have the same boundary; it may break down at a round."""

    def __init__(self, breaks: int = 0) -> None:
        self.breaks, self.trained = breaks, list[tuple[int, int]]()
        self.starts = list[Model | None]()

    def untrained(self) -> Model:
        return Model("", "base")

    def train(self, labelled: Labelled, number: int, start: Model | None) -> Model:
        if number == self.breaks:
            raise KeyboardInterrupt
        self.starts.append(start)
        self.trained.append((number, len(labelled)))
        return Model(f"round-{number}", "w" * number, Scorer(10.0, -10.0 * BOUNDARY))


class Flat:
    """An evaluator that says the same of every model."""

    def evaluate(self, model: Model, split: str) -> Evaluation:
        counts = Counts(np.array([0.5]), np.array([1]), np.array([[1]]))
        return evaluation(split, counts, [Extent("all", 1, 1)], None, np.random.default_rng(0))

    def examples(self, model: Model, split: str) -> Examples:
        raise AssertionError("nobody asked for examples")


@dataclass
class Memory:
    """A journal and its ledger that forget nothing."""

    batches: dict[int, Batch] = field(default_factory=dict)
    said: dict[int, Labels] = field(default_factory=dict)
    sealed: list[int] = field(default_factory=list)
    complete_rounds: list[int] = field(default_factory=list)
    last: State = field(default_factory=State)

    @property
    def ledger(self) -> "Memory":
        return self

    def chosen(self, number: int) -> Batch | None:
        return self.batches.get(number)

    def choose(self, number: int, batch: Batch) -> None:
        assert number not in self.batches
        self.batches[number] = batch
        self.said[number] = np.full(len(batch.pairs), OPEN, dtype=np.uint8)

    def labels(self, number: int) -> Labels:
        return self.said[number].copy()

    def keep(self, number: int, answers: Answers) -> None:
        assert (self.said[number][answers.rows] == OPEN).all(), "a label is bought twice"
        self.said[number][answers.rows] = answers.labels

    def seal(self, number: int) -> None:
        assert not (self.said[number] == OPEN).any()
        self.sealed.append(number)

    def complete(self, state: State, evaluations: Mapping[str, Evaluation], examples: Examples | None) -> None:
        assert examples is None
        assert list(evaluations) == ["dev", "train"]
        assert state.round in self.sealed
        self.complete_rounds.append(state.round)
        self.last = state


class Plain:
    """A world in memory."""

    def __init__(self, config: RunConfig, task: Task, known: int = 10**6, breaks: int = 0) -> None:
        self.split = task.split("train")
        self.retriever = Table(self.split, task.symmetric, config.search.ordered_pairs, known)
        self.trainer, self.evaluator = Fixed(breaks), Flat()
        self.journal = Memory()
        self.oracle: Any = ImputedOracle(self.split)

    def embed(self, model: Model, splits: Iterable[str]) -> None:
        pass

    def stage(self, name: str) -> nullcontext[None]:
        assert name in ("embed", "search", "label", "train", "evaluate", "examples")
        return nullcontext()


def config_of(changes: dict) -> RunConfig:
    return replace(RUN, **changes)


def states_of(config: RunConfig, world: Plain, state: State | None = None) -> list[State]:
    return list(loop.run(config, world.split, world, state or State()))


def same(one: Labelled, other: Labelled) -> bool:
    arrays = ((one.pairs, other.pairs), (one.labels, other.labels), (one.rounds, other.rounds))
    return one.sources == other.sources and all(np.array_equal(a, b) for a, b in arrays)


@pytest.mark.parametrize("changes", EVERY)
def test_a_round_gets_the_pairs_it_asks_for_each_once_with_its_label(task, changes):
    config = config_of(changes)
    world = Plain(config, task)
    states = states_of(config, world)
    last, split = states[-1], world.split
    wanted = config.batches
    if config.strategy == "stated":
        # All there are, with the last round.
        wanted = (*wanted[:-1], len(stated(split)) - sum(wanted[:-1]))
    # 8 + 12 + 18, or all at once.
    assert np.bincount(last.labelled.rounds)[1:].tolist() == list(wanted)
    assert [state.round for state in states] == world.journal.complete_rounds == list(range(1, len(wanted) + 1))
    assert world.oracle.sold == len(last.labelled) == sum(wanted)
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
    assert world.oracle.sold == len(unbroken.labelled)


@pytest.mark.parametrize("changes", EVERY)
def test_a_batch_that_was_bought_is_not_bought_again(task, changes):
    config = config_of(changes)
    unbroken = states_of(config, Plain(config, task))[-1]
    broken = Plain(config, task, breaks=len(config.batches))
    with pytest.raises(KeyboardInterrupt):
        states_of(config, broken)
    assert broken.oracle.sold == len(unbroken.labelled), "the last batch was bought, and no model made of it"
    broken.trainer.breaks = 0
    states_of(config, broken, broken.journal.last)
    assert broken.oracle.sold == len(unbroken.labelled)
    assert same(broken.journal.last.labelled, unbroken.labelled)


@pytest.mark.parametrize("changes", [*EVERY[:5], {"strategy": "random", "first_batch": 10**5}])
def test_a_run_whose_candidates_run_out_takes_them_all_and_ends(task, changes):
    # The pairs of two left texts are fewer than 32 + 48 + 72; all pairs are fewer than 10^5.
    config = config_of({"first_batch": 32, **changes})
    world = Plain(config, task, known=2)
    states = states_of(config, world)
    candidates = world.split.space.total if config.strategy == "random" else len(world.retriever.pairs)
    last = states[-1]
    assert len(last.labelled) < sum(config.batches)
    assert len({tuple(pair) for pair in last.labelled.pairs.tolist()}) == len(last.labelled) == world.oracle.sold
    if config.seeding != "stated":
        assert len(last.labelled) == candidates
    for before, after in zip([State(), *states], states, strict=False):
        assert len(after.labelled) > len(before.labelled), "no round is complete without a label"
    # Asked again, it ends again, and neither buys nor trains.
    trained = list(world.trainer.trained)
    assert states_of(config, world, world.journal.last) == []
    assert world.trainer.trained == trained
    assert world.oracle.sold == len(last.labelled)


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


def test_sources_say_how_a_pair_was_chosen(task):
    wanted = {
        "uncertainty": ["seed", "uncertainty", "uncertainty"],
        "adaptive": ["seed", "adaptive", "adaptive"],
        "static": ["static"],
        "random": ["random"],
        "stated": ["stated"],
    }
    for strategy, sources in wanted.items():
        config = config_of({"strategy": strategy})
        world = Plain(config, task)
        states_of(config, world)
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
    oracle = ImputedOracle(split)
    asked: Pairs = np.concatenate([split.positives[:3], split.stated_negatives[:2]])
    batch = Batch(asked, np.full(5, np.nan), "stated")
    (every,) = oracle.sell(1, batch, np.arange(5))
    assert (every.rows.tolist(), every.labels.tolist()) == ([0, 1, 2, 3, 4], [1, 1, 1, 0, 0])
    assert every.labels.dtype == np.uint8
    (some,) = oracle.sell(1, batch, np.array([4, 0]))
    assert (some.rows.tolist(), some.labels.tolist()) == ([4, 0], [0, 1])
    assert oracle.sold == 7


class Slow:
    """An oracle that sells three labels at a time, is unsure of every fifth pair, and may stop in between."""

    def __init__(self, split: Split, stops: int) -> None:
        self.whole, self.stops = ImputedOracle(split), stops

    def sell(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
        for start in range(0, len(missing), 3):
            if not self.stops:
                raise LabelsAwaited("later")
            self.stops -= 1
            rows = missing[start : start + 3]
            (told,) = self.whole.sell(number, batch, rows)
            yield answers(rows, np.where(rows % 5 == 4, UNSURE, told.labels).astype(np.uint8), "slow")


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
    assert stopped.oracle.whole.sold == quiet.oracle.whole.sold == 38
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
    told = labelled.told
    assert (len(told), UNSURE in told.labels, told.positives) == (32, False, labelled.positives)
    assert np.array_equal(told.pairs, labelled.pairs[~unsure])
    assert np.array_equal(told.rounds, labelled.rounds[~unsure])
    assert told.sources == ("seed",) * 7 + ("uncertainty",) * 25


def test_a_run_of_which_nothing_is_known_does_not_train(task):
    class Nobody:
        def sell(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
            yield answers(missing, np.full(len(missing), UNSURE, dtype=np.uint8), "nobody")

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
        assert world.trainer.starts == ([None] * 3 if start == "pretrained" else [None, *models[:-1]])
