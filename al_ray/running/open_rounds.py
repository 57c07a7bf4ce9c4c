"""Rounds that an earlier session left open: pairs that still need labels, and dev pairs that no longer do."""

import logging
from contextlib import suppress
from dataclasses import replace

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.labelling import label_batch_and_dev, measure
from al_ray.active_learning.ports import Oracle
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.core.config.oracle import oracle_kind
from al_ray.core.errors import LabelsAwaited, WrongFolder
from al_ray.core.labels import IMPORTED, OPEN, State
from al_ray.core.naming import Code, call, option
from al_ray.oracles.people import FileOracle
from al_ray.oracles.registry import OracleRequest, make_oracle
from al_ray.running.dev_sampler import FolderDevSampler
from al_ray.runs.ledger import Ledger
from al_ray.runs.run_folder import RunFolder

logger = logging.getLogger(__name__)


def ask_pending(request: OracleRequest, oracle: Oracle | None, dev: Oracle | None, state: State) -> None:
    """Have the pairs that an earlier session chose labelled; LabelsAwaited if people have yet to answer.

    oracle, dev: label pairs of a round and of dev; None if no more of them are to be labelled.
    """
    config, journal, number = request.config, request.journal, state.round + 1
    finish_earlier_dev(request, state)
    sampler = None if dev is None else FolderDevSampler(config, journal, dev)
    pending = journal.ledger.batch(number) if oracle is not None else None
    if oracle is not None and pending is not None:
        # A batch for which no pair was left holds no source.
        by_others = len(pending.pairs) > 0 and pending.source != config.strategy
        if by_others and not STRATEGIES[config.strategy].uses_model:
            strategy = option("strategy", config.strategy)
            raise WrongFolder(f"{journal.path} has imported labels, and {strategy} takes no seed set")
        if pending.source == IMPORTED and OPEN in journal.ledger.labels(number):
            # Those labels exist, and must not be requested.
            fix = f"import the same labels again ({call('import_labels', run=journal.path, labels=Code('LABELS'))})"
            raise WrongFolder(f"round {number} of {journal.path} is an import that was interrupted; {fix}")
        label_batch_and_dev(number, journal.ledger, oracle, sampler)
    elif sampler is not None and (oracle is None or oracle_kind(config.oracle).people):
        measure(sampler, state.round)  # A language model is first checked on pairs of the next round.


def finish_earlier_dev(request: OracleRequest, state: State) -> None:
    """Read answers of people to drawn dev pairs that this session does not ask for, and log what remains open.

    They are the last ones that were drawn, and --dev-labels is 0, or pairs will be drawn for a later round. In the
    latter case their round is closed, with answers that wait for a second one: its other pairs may be drawn again.
    So is an open round before that of the last ones, with the answers in the ledger: those were drawn knowing no more.
    """
    config, journal, dev = request.config, request.journal, request.journal.dev_labels
    ledger, number = dev.ledger, dev.ledger.rounds
    for earlier in range(1, number):
        if not ledger.sealed(earlier):
            _close_dev(ledger, earlier, number)
    if not number or ledger.sealed(number) or (config.dev_labels and number == state.round):
        return
    sheet = ""
    if oracle_kind(config.oracle).people:
        sheet = f"; answers in {ledger.round(number) / 'batch.csv'} are read when the run is resumed"
        sampler = FolderDevSampler(config, journal, make_oracle(replace(request, split="dev", page=False)))
        with suppress(LabelsAwaited):
            measure(sampler, number)
            return
        batch = ledger.batch(number)
        assert batch is not None
        if config.dev_labels:
            for answers in FileOracle(ledger).label_without_second(number, batch):
                ledger.add_answers(number, answers)
    if config.dev_labels:
        _close_dev(ledger, number, state.round)
    else:
        logger.info("%s; they are stored, and `dev_labels` counts them%s", _known_dev(ledger, number), sheet)


def _close_dev(ledger: Ledger, number: int, later: int) -> None:
    """Close a round of dev pairs, because those of a later round are drawn."""
    known = _known_dev(ledger, number)
    # Without a label, too: otherwise people would go on being asked for pairs that nobody reads.
    ledger.close(number, without_labels=True)
    logger.info("%s; the others leave it, because pairs are drawn for the model of round %d", known, later)


def _known_dev(ledger: Ledger, number: int) -> str:
    labels = ledger.labels(number)
    return f"round {number}, dev: {int((labels != OPEN).sum()):,} of {len(labels):,} pairs have a label"


def close_command(config: RunConfig, journal: RunFolder) -> str:
    """Return how to train on the labels of an open round, for the message of a cost limit; "" if it has none.

    Nor if dev pairs have no label yet: the run would ask for these first.
    """
    number, dev = journal.last + 1, journal.dev_labels.ledger
    open_dev = config.dev_labels and dev.rounds and not dev.sealed(dev.rounds)
    if open_dev or journal.ledger.batch(number) is None or not (journal.ledger.labels(number) != OPEN).any():
        return ""
    return f", or first close the round to train on what is labelled: {call('close_round', run=journal.path)}"
