"""The loop in memory: one contract over every strategy, and stops between any two steps."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import pytest

from al_ray.core import loop
from al_ray.core.config import EvaluationConfig, RunConfig, SearchConfig
from al_ray.core.loop import ImputedOracle
from al_ray.core.metrics import Counts, Evaluation, Extent, evaluation
from al_ray.core.pairs import Keys, Pairs, as_pairs
from al_ray.core.records import Batch, Labelled, Model, State
from al_ray.core.scoring import Labels, Scorer
from al_ray.core.strategy import Candidates, Order, stated
from al_ray.core.task import Split, Task

BOUNDARY = 0.3
RUN = RunConfig(task="task", first_batch=8, rounds=3, evaluation=EvaluationConfig(splits=("dev", "train")))
EVERY = [
    {"strategy": "uncertainty"},
    {"strategy": "adaptive"},
    {"strategy": "uncertainty", "seeding": "stated"},
    {"strategy": "uncertainty", "search": SearchConfig(ordered_pairs=True)},
    {"strategy": "static"},
    {"strategy": "random"},
    {"strategy": "stated"},
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

    def untrained(self) -> Model:
        return Model("", "base")

    def train(self, labelled: Labelled, number: int) -> Model:
        if number == self.breaks:
            raise KeyboardInterrupt
        self.trained.append((number, len(labelled)))
        return Model(f"round-{number}", "w" * number, Scorer(10.0, -10.0 * BOUNDARY))


class Flat:
    """An evaluator that says the same of every model."""

    def evaluate(self, model: Model, split: str) -> Evaluation:
        counts = Counts(np.array([0.5]), np.array([1]), np.array([[1]]))
        return evaluation(split, counts, [Extent("all", 1, 1)], None, np.random.default_rng(0))


@dataclass
class Memory:
    """A journal that forgets nothing."""

    batches: dict[int, tuple[Batch, Labels]] = field(default_factory=dict)
    complete_rounds: list[int] = field(default_factory=list)
    last: State = field(default_factory=State)

    def bought(self, number: int) -> tuple[Batch, Labels] | None:
        return self.batches.get(number)

    def buy(self, number: int, batch: Batch, labels: Labels) -> None:
        assert number not in self.batches
        self.batches[number] = batch, labels

    def complete(self, state: State, batch: Batch, evaluations: Mapping[str, Evaluation]) -> None:
        assert list(evaluations) == ["dev", "train"]
        assert np.array_equal(batch.pairs, self.batches[state.round][0].pairs)
        self.complete_rounds.append(state.round)
        self.last = state


class Plain:
    """A world in memory."""

    def __init__(self, config: RunConfig, task: Task, known: int = 10**6, breaks: int = 0) -> None:
        self.split = task.split("train")
        self.retriever = Table(self.split, task.symmetric, config.search.ordered_pairs, known)
        self.trainer, self.evaluator = Fixed(breaks), Flat()
        self.oracle, self.journal = ImputedOracle(self.split), Memory()

    def embed(self, model: Model, splits: Iterable[str]) -> None:
        pass

    def stage(self, name: str) -> nullcontext[None]:
        assert name in ("embed", "search", "label", "train", "evaluate")
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
    wanted = (len(stated(split)),) if config.strategy == "stated" else config.batches
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
    bought = np.concatenate([batch.pairs for batch, _ in world.journal.batches.values()])
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
    batch, _ = world.journal.batches[2]
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
        assert [batch.source for batch, _ in world.journal.batches.values()] == sources
    config = config_of({"seeding": "stated"})
    world = Plain(config, task)
    states_of(config, world)
    assert [batch.source for batch, _ in world.journal.batches.values()] == ["stated-seed", *["uncertainty"] * 2]
    assert np.isnan(world.journal.batches[1][0].cosines).all()


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
    assert oracle.labels(asked).tolist() == [1, 1, 1, 0, 0]
    assert oracle.labels(asked[:1]).dtype == np.uint8
    assert oracle.sold == 6
    assert len(oracle.labels(asked[:0])) == 0
