"""Run active learning on Ray from the state of its folder to the end: jobs.run, and each trial of a grid."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from al_ray.active_learning import loop
from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.ports import Oracle
from al_ray.active_learning.stopping import NEVER, StopConfig, end_reason, limit_reached
from al_ray.active_learning.strategies import STRATEGIES, stated
from al_ray.cluster.pool.score_fit import refuse_scores
from al_ray.cluster.pool.sharded_retriever import refuse_examples, refuse_index
from al_ray.cluster.score_sample import ShardedDevSampler
from al_ray.cluster.services import deploy_services
from al_ray.cluster.session import session
from al_ray.cluster.trial import Trial
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.oracle import OracleConfig, oracle_kind
from al_ray.core.errors import BadOption, BuyingStopped, CostReached, LabelsAwaited, MissingSplit, WrongFolder
from al_ray.core.labels import IMPORTED, OPEN, Answers, Batch, State
from al_ray.core.naming import Code, call, command, option
from al_ray.core.pairs import Rows
from al_ray.core.progress import OnProgress
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task
from al_ray.encoders.encoder import refuse_frozen_layers, refuse_prompts
from al_ray.oracles.people import FileOracle
from al_ray.oracles.registry import OracleRequest, make_dev_oracle, make_oracle
from al_ray.runs.auto_matcher import without_auto
from al_ray.runs.ledger import Ledger
from al_ray.runs.limits import in_force, write_limits
from al_ray.runs.place import refuse_inside, refuse_lost
from al_ray.runs.run_folder import RunFolder, opened
from al_ray.runs.trackers.mlflow import tracking
from al_ray.storage.uri import StoragePath, storage_path

OnRound = Callable[[dict[str, Any]], None]
"""Callback that receives the metrics of each completed round."""
Peaks = dict[str, int | None]
"""Peak memory in bytes of the driver, and the highest of shards and trainers, or of the one process; None: unknown."""
PageContext = Callable[[RunFolder], AbstractContextManager[None]]
OnEnd = Callable[[RunFolder, Peaks], None]
"""Callback at the end of a run, before its folder is released; without peaks if no actor was started."""
logger = logging.getLogger(__name__)
PATIENCE = 60.0  # Seconds that a restarted trial waits for the run's lock while its former process ends.


@dataclass(frozen=True)
class RunSpec:
    """All options of a run: config, Ray resources, oracle, stopping, and the URI of an MLflow tracking server.

    page: serves the page on which people label while its context is open (--oracle page): while the folder is locked.
    """

    config: RunConfig
    cluster: ClusterConfig
    oracle_options: OracleConfig = field(default_factory=OracleConfig)
    stop: StopConfig = NEVER
    mlflow: str | None = None
    on_end: OnEnd | None = None
    page: PageContext | None = None


def run(work: RunSpec, out: StoragePath, watch: OnProgress, on_round: OnRound, trial: Trial | None = None) -> RunFolder:
    """Run to the last round or an early stop, continuing from the folder; LabelsAwaited when people are to label.

    `RunFolder.end_reason` tells why a run stopped early. trial: the run's part of a grid, if any.
    """
    track = tracking(work.mlflow)
    config, task = _read(work, out)
    with opened(out, task, 0.0 if trial is None else PATIENCE) as journal:
        oracle_options, stop = in_force(out, work.oracle_options, work.stop)
        stop.refuse_unmeasured(config)
        # Before the oracle is loaded: of another run or a grown task, how it is loaded is not what is wrong.
        journal.refuse_other(config)
        request = OracleRequest(config, oracle_options, journal, watch, page=work.page is not None)
        oracle = make_oracle(request)
        dev = make_dev_oracle(request, oracle) if config.dev_labels else None
        journal.bind(config)
        write_limits(journal.path, oracle_options, stop)

        def completed() -> list[dict[str, Any]]:
            """Report the round that is complete now; return the metrics of all."""
            lines = journal.metrics()
            on_round(lines[-1])
            track(journal)
            return lines

        early, peaks = None, Peaks()
        with nullcontext() if work.page is None else work.page(journal):
            try:
                peaks = _Session(replace(work, config=config, stop=stop), request, oracle, dev, trial).run(completed)
            except CostReached as limit:
                early = f"{limit}{close_command(config, journal)}"
            except BuyingStopped as reason:
                early = str(reason)
            journal.end(early or end_reason(config, stop, journal.complete_rounds()))
        track(journal)
        if work.on_end:
            work.on_end(journal, peaks)
    return journal


class _Release(Exception):
    """Raised in place of labels, so that the actors end before labels are bought."""


class _ReleasingOracle:
    """The oracle of a run whose actors end while it is asked."""

    def label(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
        """Raise _Release."""
        raise _Release


@dataclass(frozen=True)
class _Session:
    """A run from the state of its folder on. work: with config and stop as they are in force."""

    work: RunSpec
    request: OracleRequest
    oracle: Oracle
    dev: Oracle | None
    trial: Trial | None

    def run(self, completed: Callable[[], list[dict[str, Any]]]) -> Peaks:
        """Run what is left of the run; return the peak memory of its processes. completed: called after each round."""
        journal = self.request.journal
        state = journal.state()
        journal.refuse_lost(state.round)
        if self._rounds_left(state):
            journal.end(None)
        # Before any actor is started, because people may not have labelled yet.
        self._ask_pending(state)
        if not self._work_left(state):
            return {}
        peaks, released = Peaks(), True
        with session(self.work.cluster, self.work.config.trainers):
            while released and self._work_left(state):
                released, latest = self._deployed(state, completed)
                peaks = {name: max(peaks.get(name) or 0, value or 0) or None for name, value in latest.items()}
                if released:
                    state, started = journal.state(), time.monotonic()
                    logger.info("after round %d: the actors are ended until pairs are labelled", state.round)
                    try:
                        self._ask_pending(state)
                    finally:
                        journal.add_seconds("label", time.monotonic() - started)
        return peaks

    def _rounds_left(self, state: State) -> bool:
        rounds = self.request.journal.complete_rounds()
        return state.round < len(self.work.config.batches) and limit_reached(self.work.stop, rounds) is None

    def _work_left(self, state: State) -> bool:
        """Whether there is work for actors: more rounds, or dev pairs to be drawn for the last model."""
        estimated = self.request.journal.dev_labels.estimated
        return self._rounds_left(state) or bool(self.dev and state.round and not estimated(state.round))

    def _ask_pending(self, state: State) -> None:
        ask_pending(self.request, self.oracle if self._rounds_left(state) else None, self.dev, state)

    def _deployed(self, state: State, completed: Callable[[], list[dict[str, Any]]]) -> tuple[bool, Peaks]:
        """Run what is left on new actors, or up to the next labels if the actors are to be released then.

        Returns whether they are, and the peak memory of the processes.
        """
        config, journal, oracle, dev = self.work.config, self.request.journal, self.oracle, self.dev
        if self.request.oracle_options.release_actors:
            oracle, dev = _ReleasingOracle(), dev and _ReleasingOracle()
        with deploy_services(config, self.work.cluster, journal, oracle, self.request.watch, self.trial, dev) as world:
            split, released = journal.task.split("train"), False
            try:
                for _ in loop.run(config, split, world, state) if self._rounds_left(state) else ():
                    if limit_reached(self.work.stop, completed()) is not None:
                        break
                if dev is not None:
                    loop.measure_last(world, journal.state())
            except _Release:
                released = True
            return released, world.peak_memory() if self.work.on_end else {}


def _read(work: RunSpec, out: StoragePath) -> tuple[RunConfig, Task]:
    """Return the config with `auto` replaced, and the task; an error if they do not go together or with the folder."""
    refuse_lost(out)
    work.stop.refuse_unmeasured(work.config)
    refuse_inside(out, texts := storage_path(work.config.task))
    task = read_task(texts)
    config = without_auto(work.config, task, out)
    refuse_unfit(config, task)
    return config, task


def ask_pending(request: OracleRequest, oracle: Oracle | None, dev: Oracle | None, state: State) -> None:
    """Buy the labels of pairs that an earlier session chose; LabelsAwaited if people have yet to answer.

    oracle, dev: label pairs of a round and of dev; None if no more of them are to be labelled.
    """
    config, journal, number = request.config, request.journal, state.round + 1
    finish_earlier_dev(request, state)
    sampler = None if dev is None else ShardedDevSampler(config, journal, dev, None)
    pending = journal.ledger.batch(number) if oracle is not None else None
    if oracle is not None and pending is not None:
        # A batch for which no pair was left holds no source.
        by_others = len(pending.pairs) > 0 and pending.source != config.strategy
        if by_others and not STRATEGIES[config.strategy].uses_model:
            strategy = option("strategy", config.strategy)
            raise WrongFolder(f"{journal.path} has imported labels, and {strategy} takes no seed set")
        if pending.source == IMPORTED and OPEN in journal.ledger.labels(number):
            # Those labels are there, and must not be bought.
            cure = f"import the same labels again ({call('import_labels', run=journal.path, labels=Code('LABELS'))})"
            raise WrongFolder(f"round {number} of {journal.path} is an import that was interrupted; {cure}")
        loop.buy_with_dev(number, journal.ledger, oracle, sampler)
    elif sampler is not None and (oracle is None or oracle_kind(config.oracle).people):
        loop.measure(sampler, state.round)  # A language model is first checked on pairs of the next round.


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
        sampler = ShardedDevSampler(config, journal, make_oracle(replace(request, split="dev", page=False)), None)
        with suppress(LabelsAwaited):
            loop.measure(sampler, number)
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
    return f", or first close the round to train on what is labelled: {command('labels close', run=journal.path)}"


def refuse_unfit(config: RunConfig, task: Task) -> None:
    """Raise MissingSplit or BadOption if the task lacks what the options need."""
    for name in config.evaluation.splits:
        task.measurable(name)
    if config.dev_labels and ("dev" not in task.splits or not task.splits["dev"].space.total):
        raise MissingSplit(
            f"task {task.name!r} has no dev pairs to label; leave out `dev_labels`, or prepare the task with a share "
            "for dev (`OwnTexts.split`)"
        )
    refuse_prompts(config.encoding, task.symmetric)
    refuse_frozen_layers(config.encoding, config.training.frozen_layers)
    refuse_index(config.search, task)
    refuse_examples(config, task)
    refuse_scores(config.scoring, task)
    strategy = STRATEGIES[config.strategy]
    if (strategy.takes_all_stated or config.seeding == "stated") and not len(stated(task.split("train"))):
        raise MissingSplit(f"no pair is stated in {config.task}/train; choose another `strategy` or `seeding`")
    if strategy.matches and config.matched is None:
        raise BadOption(
            f"{option('strategy', config.strategy)} draws as many positives and negatives as a run; give `match=RUN`"
        )
