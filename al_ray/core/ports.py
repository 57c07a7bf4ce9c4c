"""What the loop asks of the world. Each has two implementations: cluster/ or data/, and a plain one in the tests."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from al_ray.core.metrics import Evaluation
from al_ray.core.pairs import Keys, Pairs
from al_ray.core.records import Batch, Labelled, Model, State
from al_ray.core.scoring import Labels
from al_ray.core.strategy import Candidates, Order


class Retriever(Protocol):
    """Finds pairs of the training pool."""

    def least(self, model: Model, order: Order, count: int, labelled: Keys) -> Candidates:
        """The `count` pairs of least cost, ties by key, none of the sorted `labelled`; fewer when they run out."""
        ...


class Trainer(Protocol):
    """Trains from the pre-trained weights."""

    def untrained(self) -> Model:
        """The pre-trained encoder, which has no scorer."""
        ...

    def train(self, labelled: Labelled, number: int) -> Model:
        """A model of round `number`."""
        ...


class Evaluator(Protocol):
    """Measures a model over all pairs."""

    def evaluate(self, model: Model, split: str) -> Evaluation:
        """Average precision and the rest on a split."""
        ...


class Oracle(Protocol):
    """Sells labels."""

    def labels(self, pairs: Pairs) -> Labels:
        """(n, 2) pairs -> (n,) labels in {0, 1}."""
        ...


class Journal(Protocol):
    """Keeps what was bought and made; what it has is never bought or made again."""

    def bought(self, number: int) -> tuple[Batch, Labels] | None:
        """The batch of a round and its labels, if they were bought before an interruption."""
        ...

    def buy(self, number: int, batch: Batch, labels: Labels) -> None:
        """Keep labels; from here on they cannot be lost."""
        ...

    def complete(self, state: State, batch: Batch, evaluations: Mapping[str, Evaluation]) -> None:
        """Keep a round; from here on it is not done again."""
        ...


class World(Protocol):
    """All of them, and a stopwatch."""

    @property
    def retriever(self) -> Retriever:
        """Finds pairs."""
        ...

    @property
    def trainer(self) -> Trainer:
        """Trains models."""
        ...

    @property
    def evaluator(self) -> Evaluator:
        """Measures them."""
        ...

    @property
    def oracle(self) -> Oracle:
        """Sells labels."""
        ...

    @property
    def journal(self) -> Journal:
        """Keeps all of it."""
        ...

    def embed(self, model: Model, splits: Iterable[str]) -> None:
        """Have the vectors of these splits at hand, before they are asked for."""
        ...

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Count the seconds of a stage: embed, search, label, train or evaluate."""
        ...
