"""Pool-based active learning of text pairs (paper, section 4): choose pairs, label, train, evaluate; repeat."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.labelling import label_round
from al_ray.active_learning.ports import RunServices
from al_ray.active_learning.round_request import RoundRequest
from al_ray.active_learning.strategies import STRATEGIES, stated_seed, static
from al_ray.core.candidates import Candidates, Order
from al_ray.core.errors import TrainingFailed
from al_ray.core.labels import Batch, Model, State
from al_ray.core.pairs import NO_PAIRS, Keys, Pairs, distinct, is_in
from al_ray.core.rng import generator
from al_ray.core.task import Split
from al_ray.metrics.error_examples import Examples, main_split


def run(config: RunConfig, split: Split, services: RunServices, state: State) -> Iterator[State]:
    """Run the rounds that follow `state` and yield the state after each.

    Stops after the last round, or earlier when the pool has no unlabelled candidate left. Every step is recorded before
    the next one starts, so a run that was interrupted continues where it stopped: nothing is labelled twice.
    """
    ledger = services.journal.ledger
    for number in range(state.round + 1, len(config.batches) + 1):
        # 1. Choose the pairs of the round, unless an interrupted run has chosen them already.
        if ledger.batch(number) is None:
            add_batch(config, split, services, state, number)
        if config.choose_ahead:
            add_next_batch(config, split, services, state, number)

        # 2. Ask the oracle for their labels.
        batch, labels = label_round(services, state, number)
        if not len(labels):
            return
        labelled = ledger.corrected(state.labelled).extended(batch.pairs, labels, number, batch.source)

        # 3. Train on all labels so far; pairs labelled "unsure" teach nothing.
        if not len(labelled.decided):
            raise TrainingFailed(
                f"round {number}: no label says yes or no; answer more than unsure, give more labels, or settle the "
                "pairs on which people disagree (`al-ray annotate`)"
            )
        with services.stage("train"):
            previous = state.model if config.training.start == "previous" else None
            model = services.trainer.train(labelled.decided, number, previous or services.trainer.untrained())

        # 4. Evaluate the model over all pairs of each split.
        with services.stage("evaluate"):
            evaluations = {name: services.evaluator.evaluate(model, name) for name in config.evaluation.splits}
        with services.stage("examples"):
            examples = collect_examples(config, services, model)

        # 5. Record the round. From here on it is complete.
        state = State(number, labelled, model)
        services.journal.record_round(state, evaluations, examples)
        yield state


def add_next_batch(config: RunConfig, split: Split, services: RunServices, state: State, number: int) -> None:
    """Choose the pairs of the round after `number`, which people label while the model of this one learns.

    They are chosen without the labels of this round, and none of them is a pair of it. An interrupted run
    may have chosen them already.
    """
    ledger = services.journal.ledger
    batch = ledger.batch(number)
    assert batch is not None
    if number < len(config.batches) and ledger.batch(number + 1) is None:
        add_batch(config, split, services, state, number + 1, batch.pairs)


def add_batch(
    config: RunConfig, split: Split, services: RunServices, state: State, number: int, pending: Pairs = NO_PAIRS
) -> None:
    """Choose the batch of a round and record it, after why its pairs were chosen, which people may ask at once."""
    batch = choose_batch(config, split, services, state, number, pending)
    if state.model is not None:
        with services.stage("search"):
            services.explain(number, batch.pairs, state.model)
    services.journal.ledger.add_batch(number, batch)


def choose_batch(
    config: RunConfig, split: Split, services: RunServices, state: State, number: int, pending: Pairs = NO_PAIRS
) -> Batch:
    """Choose the pairs of round `number`: the seed set (4.2.3) in the first round, else by the strategy.

    The batch is smaller than config.batches says, or empty, when fewer unlabelled candidates are left. pending: (n, 2)
    pairs that are chosen and not yet labelled.
    """
    strategy, request = STRATEGIES[config.strategy], make_request(config, split, services, state, number, pending)
    if state.model is not None or not strategy.uses_model:
        chosen, source = strategy.choose(request), config.strategy
    elif config.seeding == "stated":
        chosen, source = stated_seed(request), "stated-seed"
    elif request.spread is not None:
        # A matcher learns from both kinds, which the top alone may lack.
        found, source = request.spread(request.size, request.labelled), "spread-seed"
        # They are spread over a ranking whose scores are no cosines.
        chosen = Candidates(found.keys, np.full(len(found), np.nan))
    else:
        # Without a trained model there is no decision boundary: take the untrained encoder's highest cosines.
        chosen, source = static(request), "seed"
    # A strategy that searches several times can return a pair twice, and its label would be paid for twice.
    fresh = len(distinct(chosen.keys)) == len(chosen) and not is_in(chosen.keys, request.labelled).any()
    assert fresh, f"strategy {config.strategy} chose a pair twice; exclude what is chosen from its next search"
    return Batch(split.space.pairs(chosen.keys), chosen.cosines, source)


def make_request(
    config: RunConfig, split: Split, services: RunServices, state: State, number: int, pending: Pairs = NO_PAIRS
) -> RoundRequest:
    """Collect what a strategy may use to choose the pairs of round `number`. pending: pairs that wait for labels."""
    # With search.ordered_pairs, (a, b) and (b, a) are two candidates, also in a symmetric task.
    space = replace(split.space, symmetric=split.space.symmetric and not config.search.ordered_pairs)

    def search(model: Model, order: Order, count: int, excluded: Keys) -> Candidates:
        with services.stage("search"):
            return services.retriever.least(model, order, count, excluded)

    def spread(count: int, excluded: Keys) -> Candidates:
        with services.stage("search"):
            return services.spread(count, excluded)

    return RoundRequest(
        split=split,
        number=number,
        size=config.batches[number - 1],
        budget=sum(config.batches),
        once=config.once,
        last=number == len(config.batches),
        labelled=np.sort(space.keys(np.concatenate([state.labelled.pairs, pending]))),
        matched=config.matched,
        model=state.model,
        untrained=services.trainer.untrained,
        rng=partial(generator, config.seed),
        search=search,
        spread=spread if config.matcher == "on" else None,
    )


def collect_examples(config: RunConfig, services: RunServices, model: Model) -> Examples | None:
    """Return error examples of the main evaluated split; None if none are requested or no split is evaluated."""
    split = main_split(config.evaluation.splits)
    if split is None or not config.evaluation.examples:
        return None
    return services.evaluator.examples(model, split)
