"""Have the pairs of a round labelled, and the dev pairs by which the model of the round before is measured."""

import numpy as np

from al_ray.active_learning.ports import DevSampler, Ledger, Oracle, RunServices
from al_ray.core.errors import CostReached, LabelsAwaited
from al_ray.core.labels import OPEN, Batch, State
from al_ray.core.scorer import Labels


def label_round(services: RunServices, state: State, number: int) -> tuple[Batch, Labels]:
    """Have the batch of round `number` labelled, and dev pairs for the model of `state`, if any are asked for."""
    draw_dev(services, state)
    with services.stage("label"):
        return label_batch_and_dev(number, services.journal.ledger, services.oracle, services.dev)


def label_batch_and_dev(number: int, ledger: Ledger, oracle: Oracle, dev: DevSampler | None) -> tuple[Batch, Labels]:
    """Have the batch of round `number` labelled, and the dev pairs for the model of the round before.

    dev: asked only if its pairs are drawn. LabelsAwaited if people have yet to answer either; both are asked first.
    """
    waits, labelled = list[str](), None
    # The round comes first, because a language model is checked on its pairs before it labels others.
    try:
        labelled = label_batch(number, ledger, oracle)
    except LabelsAwaited as wait:
        waits.append(str(wait))
    if dev is not None:
        try:
            measure(dev, number - 1)
        except LabelsAwaited as wait:
            waits.append(str(wait))
    if labelled is None or waits:
        raise LabelsAwaited("\n".join(waits))
    return labelled


def draw_dev(services: RunServices, state: State) -> None:
    """Draw the dev pairs for the model of the last complete round, unless an interrupted run has drawn them."""
    dev = services.dev
    if dev is not None and state.model is not None and dev.ledger.batch(state.round) is None:
        with services.stage("search"):
            dev.draw(state.round, state.model)


def measure_last(services: RunServices, state: State) -> None:
    """Measure the model of the last round by labels of dev pairs; those of earlier rounds are asked with a batch."""
    draw_dev(services, state)
    if services.dev is not None and state.model is not None:
        with services.stage("label"):
            measure(services.dev, state.round)


def measure(dev: DevSampler, number: int) -> None:
    """Have the dev pairs drawn for the model of round `number` labelled, if any, and estimate how good it is."""
    if dev.ledger.batch(number) is None:
        return
    try:
        label_batch(number, dev.ledger, dev.oracle)
    except CostReached as limit:
        raise CostReached(f"{limit} (these pairs are of dev; `RunConfig.dev_labels=0` goes on without them)") from limit
    dev.estimate()


def label_batch(number: int, ledger: Ledger, oracle: Oracle) -> tuple[Batch, Labels]:
    """Have the oracle label those rows of a round's batch that have no label yet; return the batch and all its labels.

    The batch must be in the ledger. Labels are (n,) NO, YES or UNSURE. Of a round that was closed before all its pairs
    were labelled, only the labelled pairs are returned. Raises what Oracle.label raises.
    """
    batch = ledger.batch(number)
    assert batch is not None
    labels = ledger.labels(number)
    missing = np.flatnonzero(labels == OPEN)
    if not ledger.sealed(number):
        if len(missing):
            for piece in oracle.label(number, batch, missing):
                ledger.add_answers(number, piece)
        ledger.seal(number)
        labels = ledger.labels(number) if len(missing) else labels
    done = labels != OPEN
    return Batch(batch.pairs[done], batch.cosines[done], batch.source), labels[done]
