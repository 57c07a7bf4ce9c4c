"""What the loop asks of the world. Each has two implementations: cluster/ or data/, and a plain one in the tests."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from al_ray.core.evaluation import Evaluation
from al_ray.core.examples import Examples
from al_ray.core.pairs import Keys, Pairs, Rows
from al_ray.core.records import Answers, Batch, Labelled, Model, State
from al_ray.core.scoring import Floats, Labels
from al_ray.core.strategy import Candidates, Order
from al_ray.core.task import Split


class Retriever(Protocol):
    """Finds pairs of the training pool."""

    def least(self, model: Model, order: Order, count: int, labelled: Keys) -> Candidates:
        """The `count` pairs of least cost, ties by key, none of the sorted `labelled`; fewer when they run out."""
        ...


class Trainer(Protocol):
    """Trains an encoder and its scorer."""

    def untrained(self) -> Model:
        """The pre-trained encoder, which has no scorer."""
        ...

    def train(self, labelled: Labelled, number: int, start: Model | None) -> Model:
        """A model of round `number`, trained from the weights of `start`; from the pre-trained ones without it."""
        ...


class Evaluator(Protocol):
    """Measures a model over all pairs."""

    def evaluate(self, model: Model, split: str) -> Evaluation:
        """Average precision and the rest on a split."""
        ...

    def examples(self, model: Model, split: str) -> Examples:
        """The pairs of a split that people want to look at."""
        ...


class PairScorer(Protocol):
    """Scores pairs, one by one: a bi-encoder's cosines, a cross-encoder's logits, a language model's grades."""

    def scores(self, split: Split, pairs: Pairs) -> Floats:
        """(n, 2) pairs of a split -> (n,) scores, no NaN; the higher, the likelier a match. Equal ones are a tie."""
        ...

    def logits(self, scores: Floats) -> Floats | None:
        """(n,) scores -> (n,) log-odds of a match; None when it gives none, as the untrained encoder."""
        ...


class Oracle(Protocol):
    """Sells labels."""

    def sell(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
        """Answers for the rows `missing` of the batch of round `number`, piece by piece: each is kept before the next.

        LabelsAwaited when people have yet to answer, OracleFailed or CostReached when no more can be had.
        """
        ...


class Ledger(Protocol):
    """Keeps what was chosen and bought; what it has is never bought again."""

    def chosen(self, number: int) -> Batch | None:
        """The batch of a round, if it was chosen before an interruption."""
        ...

    def choose(self, number: int, batch: Batch) -> None:
        """Keep a batch; from here on these are the pairs of the round."""
        ...

    def labels(self, number: int) -> Labels:
        """(n,) what is said so far of the batch of a round; OPEN where nothing is."""
        ...

    def keep(self, number: int, answers: Answers) -> None:
        """Keep answers; from here on they cannot be lost."""
        ...

    def seal(self, number: int) -> None:
        """Close a round of which every pair is answered."""
        ...


class Journal(Protocol):
    """Keeps what was made; what it has is never made again."""

    @property
    def ledger(self) -> Ledger:
        """What was bought."""
        ...

    def complete(self, state: State, evaluations: Mapping[str, Evaluation], examples: Examples | None) -> None:
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
        """Count the seconds of a stage: embed, search, label, train, evaluate or examples."""
        ...
