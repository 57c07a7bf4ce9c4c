"""Active learning in one reading (paper, section 4): choose, buy labels, train, measure; and again."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from al_ray.core.config import ONCE, RunConfig
from al_ray.core.errors import TrainingFailed
from al_ray.core.examples import Examples, first_of
from al_ray.core.pairs import Rows
from al_ray.core.ports import Ledger, Oracle, World
from al_ray.core.records import OPEN, Answers, Batch, Model, State, answers
from al_ray.core.scoring import Labels
from al_ray.core.strategy import drawn, order_of
from al_ray.core.task import Split


def run(config: RunConfig, split: Split, world: World, state: State) -> Iterator[State]:
    """Every round after `state`, as it is complete. A pool without fresh candidates ends the run before its budget."""
    ledger = world.journal.ledger
    for number in range(state.round + 1, len(config.batches) + 1):
        if ledger.chosen(number) is None:
            ledger.choose(number, choose(config, split, world, state, number))
        with world.stage("label"):
            batch, labels = bought(number, ledger, world.oracle)
        if not len(labels):
            return
        labelled = state.labelled.extended(batch.pairs, labels, number, batch.source)
        if not len(labelled.told):
            raise TrainingFailed(
                f"round {number}: no label says yes or no; answer more than unsure, or give more labels"
            )
        with world.stage("train"):
            start = state.model if config.training.start == "previous" else None
            model = world.trainer.train(labelled.told, number, start)
        world.embed(model, config.evaluation.splits)
        with world.stage("evaluate"):
            evaluations = {name: world.evaluator.evaluate(model, name) for name in config.evaluation.splits}
        with world.stage("examples"):
            examples = shown(config, world, model)
        state = State(number, labelled, model)
        world.journal.complete(state, evaluations, examples)
        yield state


def bought(number: int, ledger: Ledger, oracle: Oracle) -> tuple[Batch, Labels]:
    """The batch of a round that was chosen, and all its labels: those that are missing are bought, and no other."""
    batch = ledger.chosen(number)
    assert batch is not None
    missing = np.flatnonzero(ledger.labels(number) == OPEN)
    if len(missing):
        for piece in oracle.sell(number, batch, missing):
            ledger.keep(number, piece)
    ledger.seal(number)
    return batch, ledger.labels(number)


def choose(config: RunConfig, split: Split, world: World, state: State, number: int) -> Batch:
    """The pairs of round `number`: a draw, or the least in the strategy's order under the latest model (4.2.2, 4.2.3).

    Of a draw (`random`, `stated`) or of a search's candidates, fewer than the round's share may be left: then those are
    the batch.
    """
    space = replace(split.space, symmetric=split.space.symmetric and not config.search.ordered_pairs)
    labelled = np.sort(space.keys(state.labelled.pairs))
    keys = drawn(config, split, number, labelled)
    if keys is not None:
        source = config.strategy if config.strategy in ONCE else "stated-seed"
        return Batch(split.space.pairs(keys), np.full(len(keys), np.nan), source)
    latest = None if config.strategy == "static" else state.model
    model = latest or world.trainer.untrained()
    order = order_of(config.strategy, model)
    world.embed(model, [split.name])
    with world.stage("search"):
        found = world.retriever.least(model, order, config.batches[number - 1], labelled)
    return Batch(
        space.pairs(found.keys),
        found.cosines,
        "seed" if state.model is None and config.strategy != "static" else config.strategy,
    )


def shown(config: RunConfig, world: World, model: Model) -> Examples | None:
    """What people look at of a round, of the split that the run is told by; None where none is asked or measured."""
    split = first_of(config.evaluation.splits)
    if split is None or not config.evaluation.examples:
        return None
    return world.evaluator.examples(model, split)


class ImputedOracle:
    """Knows the positives of a split and calls every other pair a negative (paper, 3.1.2); counts what it sold."""

    def __init__(self, split: Split) -> None:
        """Nothing sold yet."""
        self.split = split
        self.sold = 0

    def sell(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
        """All at once."""
        self.sold += len(missing)
        keys = self.split.space.keys(batch.pairs[missing])
        yield answers(missing, np.isin(keys, self.split.positive_keys).astype(np.uint8), "simulated")
