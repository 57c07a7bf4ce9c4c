"""The services that the loop calls. Each has an implementation on Ray or on files, and one in memory for tests."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from al_ray.core.candidates import Candidates, Order
from al_ray.core.labels import Answers, Batch, Labelled, Model, State
from al_ray.core.pairs import Keys, Pairs, Rows
from al_ray.core.scorer import Labels
from al_ray.metrics.error_examples import Examples
from al_ray.metrics.evaluation import Evaluation


class Retriever(Protocol):
    """Searches the training pool for candidates (cluster/pool/sharded_retriever.py)."""

    def least(self, model: Model, order: Order, count: int, labelled: Keys) -> Candidates:
        """Return the `count` pairs of least cost that are not in `labelled`.

        labelled: (k,) sorted keys. Pairs come in order of cost, equal costs in order of key; fewer when they run out.
        """
        ...


class Trainer(Protocol):
    """Trains an encoder and its scorer (cluster/training_group.py)."""

    def untrained(self) -> Model:
        """Return the pre-trained encoder, which has no scorer."""
        ...

    def train(self, labelled: Labelled, number: int, start: Model) -> Model:
        """Train the model of round `number` on decided labels, from the weights of `start`.

        Raises TrainingFailed when no try gives a usable model.
        """
        ...


class Evaluator(Protocol):
    """Evaluates a model over all pairs of a split (cluster/pool/sharded_evaluator.py)."""

    def evaluate(self, model: Model, split: str) -> Evaluation:
        """Compute or estimate average precision and the other metrics of a split."""
        ...

    def examples(self, model: Model, split: str) -> Examples:
        """Return the highest negatives, the lowest positives and the pairs nearest the boundary of a split."""
        ...


class Oracle(Protocol):
    """Labels pairs: people, a function, a cross-encoder, or the task's own labels (al_ray/oracles)."""

    def label(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
        """Label the rows `missing` (k,) of the batch of round `number`.

        Yields answers in pieces; the caller stores each piece before it asks for the next one. Raises LabelsAwaited
        when people have yet to answer, OracleFailed or CostReached when no more labels can be had.
        """
        ...


class Ledger(Protocol):
    """Stores batches and their labels (runs/ledger.py), so that no label is paid for twice."""

    def batch(self, number: int) -> Batch | None:
        """Return the batch of a round; None if the round has none yet."""
        ...

    def add_batch(self, number: int, batch: Batch) -> None:
        """Store the batch of a round that has none yet."""
        ...

    def labels(self, number: int) -> Labels:
        """Return the (n,) labels of a round's batch; OPEN where there is none yet."""
        ...

    def corrected(self, labelled: Labelled) -> Labelled:
        """Return labelled pairs with the corrections made so far: people may correct labels while the run goes on."""
        ...

    def add_answers(self, number: int, answers: Answers) -> None:
        """Store answers durably: they survive a crash of this process."""
        ...

    def seal(self, number: int) -> None:
        """Write the label table of a round whose pairs all have labels; do nothing if it is there."""
        ...

    def sealed(self, number: int) -> bool:
        """Return whether the label table of a round is written: its labels are final, and no more are requested."""
        ...


class Journal(Protocol):
    """Stores the state of a run (runs/run_folder.py), so that an interrupted run continues where it stopped."""

    @property
    def ledger(self) -> Ledger:
        """The batches and labels of the run."""
        ...

    def record_round(self, state: State, evaluations: Mapping[str, Evaluation], examples: Examples | None) -> None:
        """Store a complete round: its labels, model, metrics by split, and examples."""
        ...


class DevSampler(Protocol):
    """Draws pairs of dev for labels, and estimates from them how good a model is (cluster/score_sample.py)."""

    @property
    def ledger(self) -> Ledger:
        """The drawn pairs and their labels, by the round whose model they were drawn for."""
        ...

    @property
    def oracle(self) -> Oracle:
        """Labels pairs of dev."""
        ...

    def draw(self, number: int, model: Model) -> None:
        """Draw the pairs for the model of a complete round, and store them as the round's batch of the ledger."""
        ...

    def estimate(self) -> None:
        """Store the estimates that are missing of rounds whose drawn pairs all have labels."""
        ...


class RunServices(Protocol):
    """All services of a run, and a timer."""

    @property
    def retriever(self) -> Retriever:
        """Searches the pool."""
        ...

    def spread(self, count: int, excluded: Keys) -> Candidates:
        """Return `count` candidates of a matcher, spread over a ranking without labels, without the sorted excluded."""
        ...

    def explain(self, number: int, pairs: Pairs, model: Model) -> None:
        """Store why the (n, 2) pairs of round `number` have their p by a matcher, if people may ask."""
        ...

    @property
    def trainer(self) -> Trainer:
        """Trains models."""
        ...

    @property
    def evaluator(self) -> Evaluator:
        """Evaluates models."""
        ...

    @property
    def oracle(self) -> Oracle:
        """Labels pairs."""
        ...

    @property
    def dev(self) -> DevSampler | None:
        """Measures by labels of drawn dev pairs; None if no such labels are asked for."""
        ...

    @property
    def journal(self) -> Journal:
        """Stores the run."""
        ...

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Record the seconds of a stage (search, label, train, evaluate or examples), less those spent on embedding.

        The seconds spent on embedding texts are recorded as the stage "embed".
        """
        ...
