"""A world of the loop in memory, without Ray, files or encoders: made-up cosines and a trainer that trains nothing."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from al_ray.active_learning import loop
from al_ray.active_learning.config import RunConfig
from al_ray.core.candidates import HIGHEST, Candidates, Order
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.labels import OPEN, Answers, Batch, Labelled, Model, State
from al_ray.core.pairs import Keys, Pairs
from al_ray.core.scorer import Labels, Scorer
from al_ray.core.task import Split, Task
from al_ray.metrics.average_precision import Counts, StratumSummary
from al_ray.metrics.error_examples import Examples
from al_ray.metrics.evaluation import Evaluation, evaluate_counts
from al_ray.oracles.simulated import SimulatedOracle

BOUNDARY = 0.3
RUN = RunConfig(task="task", first_batch=8, rounds=3, evaluation=EvaluationConfig(splits=("dev", "train"), examples=0))


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
        return evaluate_counts(split, counts, [StratumSummary("all", 1, 1)], None, np.random.default_rng(0))

    def examples(self, model: Model, split: str) -> Examples:
        raise AssertionError("nobody asked for examples")


@dataclass
class Memory:
    """A journal and its ledger that forget nothing."""

    batches: dict[int, Batch] = field(default_factory=dict)
    said: dict[int, Labels] = field(default_factory=dict)
    sealed_rounds: list[int] = field(default_factory=list)
    complete_rounds: list[int] = field(default_factory=list)
    last: State = field(default_factory=State)

    @property
    def ledger(self) -> "Memory":
        return self

    def batch(self, number: int) -> Batch | None:
        return self.batches.get(number)

    def add_batch(self, number: int, batch: Batch) -> None:
        assert number not in self.batches
        self.batches[number] = batch
        self.said[number] = np.full(len(batch.pairs), OPEN, dtype=np.uint8)

    def labels(self, number: int) -> Labels:
        return self.said[number].copy()

    def corrected(self, labelled: Labelled) -> Labelled:
        return labelled

    def add_answers(self, number: int, answers: Answers) -> None:
        assert (self.said[number][answers.rows] == OPEN).all(), "a label is bought twice"
        self.said[number][answers.rows] = answers.labels

    def sealed(self, number: int) -> bool:
        return number in self.sealed_rounds

    def seal(self, number: int) -> None:
        assert not (self.said[number] == OPEN).any()
        self.sealed_rounds.append(number)

    def record_round(self, state: State, evaluations: Mapping[str, Evaluation], examples: Examples | None) -> None:
        assert examples is None
        assert list(evaluations) == ["dev", "train"]
        assert state.round in self.sealed_rounds
        self.complete_rounds.append(state.round)
        self.last = state


class Plain:
    """A world in memory."""

    def __init__(self, config: RunConfig, task: Task, known: int = 10**6, breaks: int = 0) -> None:
        self.split = task.split("train")
        self.retriever = Table(self.split, task.symmetric, config.search.ordered_pairs, known)
        self.trainer, self.evaluator = Fixed(breaks), Flat()
        self.journal = Memory()
        self.dev: Any = None
        self.oracle: Any = SimulatedOracle(self.split)

    def spread(self, count: int, excluded: Keys) -> Candidates:
        """Every pair, the highest first, as if all ranked so without labels: pairs at equal distances."""
        every = self.retriever.least(self.trainer.untrained(), HIGHEST, 10**9, excluded)
        return every.at(np.linspace(0, len(every) - 1, min(count, len(every))).astype(np.int64))

    def explain(self, number: int, pairs: Pairs, model: Model) -> None:
        assert number not in self.journal.batches, "why is stored before the batch"

    def stage(self, name: str) -> nullcontext[None]:
        assert name in ("search", "label", "train", "evaluate", "examples")
        return nullcontext()


def states_of(config: RunConfig, world: Plain, state: State | None = None) -> list[State]:
    return list(loop.run(config, world.split, world, state or State()))
