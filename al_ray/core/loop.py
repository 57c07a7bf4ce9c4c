"""Active learning in one reading (paper, section 4): choose, buy labels, train, measure; and again."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from al_ray.core.config import RunConfig
from al_ray.core.pairs import Pairs
from al_ray.core.ports import World
from al_ray.core.records import Batch, State
from al_ray.core.scoring import Labels
from al_ray.core.strategy import drawn, order_of
from al_ray.core.task import Split


def run(config: RunConfig, split: Split, world: World, state: State) -> Iterator[State]:
    """Every round after `state`, as it is complete. A pool without fresh candidates ends the run before its budget."""
    for number in range(state.round + 1, len(config.batches) + 1):
        kept = world.journal.bought(number)
        batch, labels = kept or _bought(config, split, world, state, number)
        if not len(labels):
            return
        labelled = state.labelled.extended(batch.pairs, labels, number, batch.source)
        with world.stage("train"):
            model = world.trainer.train(labelled, number)
        world.embed(model, config.evaluation.splits)
        with world.stage("evaluate"):
            evaluations = {name: world.evaluator.evaluate(model, name) for name in config.evaluation.splits}
        state = State(number, labelled, model)
        world.journal.complete(state, batch, evaluations)
        yield state


def _bought(config: RunConfig, split: Split, world: World, state: State, number: int) -> tuple[Batch, Labels]:
    batch = choose(config, split, world, state, number)
    with world.stage("label"):
        labels = world.oracle.labels(batch.pairs)
        world.journal.buy(number, batch, labels)
    return batch, labels


def choose(config: RunConfig, split: Split, world: World, state: State, number: int) -> Batch:
    """The pairs of round `number`: a draw, or the least in the strategy's order under the latest model (4.2.2, 4.2.3).

    Of a draw (`random`, `stated`) or of a search's candidates, fewer than the round's share may be left: then those are
    the batch.
    """
    space = replace(split.space, symmetric=split.space.symmetric and not config.search.ordered_pairs)
    labelled = np.sort(space.keys(state.labelled.pairs))
    keys = drawn(config, split, number, labelled)
    if keys is not None:
        source = config.strategy if config.strategy in ("random", "stated") else "stated-seed"
        return Batch(split.space.pairs(keys), np.full(len(keys), np.nan), source)
    model = state.model or world.trainer.untrained()
    order = order_of(config.strategy, model)
    world.embed(model, [split.name])
    with world.stage("search"):
        found = world.retriever.least(model, order, config.batches[number - 1], labelled)
    return Batch(
        space.pairs(found.keys),
        found.cosines,
        "seed" if state.model is None and config.strategy != "static" else config.strategy,
    )


class ImputedOracle:
    """Knows the positives of a split and calls every other pair a negative (paper, 3.1.2); counts what it sold."""

    def __init__(self, split: Split) -> None:
        """Nothing sold yet."""
        self.split = split
        self.sold = 0

    def labels(self, pairs: Pairs) -> Labels:
        """(n, 2) pairs -> (n,) 1 where the pair is a positive."""
        self.sold += len(pairs)
        return np.isin(self.split.space.keys(pairs), self.split.positive_keys).astype(np.uint8)
