"""Run active learning from the state of its folder to the end, on workers that are passed in (cluster/run.py)."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from al_ray.active_learning import loop
from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.labelling import measure_last
from al_ray.active_learning.ports import Oracle, RunServices
from al_ray.active_learning.stopping import NEVER, StopConfig, end_reason, limit_reached
from al_ray.active_learning.strategies import STRATEGIES, stated
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.config.trackers import NO_TRACKERS, TrackerOptions
from al_ray.core.errors import BadOption, CostReached, LabellingStopped, MissingSplit
from al_ray.core.labels import Answers, Batch, State
from al_ray.core.naming import option
from al_ray.core.pairs import Rows
from al_ray.core.progress import OnProgress
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task
from al_ray.encoders.encoder import check_frozen_layers, check_prompts
from al_ray.oracles.registry import OracleRequest, make_dev_oracle, make_oracle
from al_ray.running.open_rounds import ask_pending, close_command
from al_ray.runs.auto_matcher import without_auto
from al_ray.runs.limits import in_force, write_limits
from al_ray.runs.place import check_lasting_path, check_outside_task
from al_ray.runs.run_folder import RunFolder, opened
from al_ray.runs.trackers.registry import tracking
from al_ray.storage.uri import StoragePath, storage_path

OnRound = Callable[[dict[str, Any]], None]
"""Callback that receives the metrics of each completed round."""
Peaks = dict[str, int | None]
"""Peak memory in bytes of the driver, and the highest of shards and trainers, or of the one process; None: unknown."""
PageContext = Callable[[RunFolder], AbstractContextManager[None]]
OnEnd = Callable[[RunFolder, Peaks], None]
"""Callback at the end of a run, before its folder is released; without peaks if no actor was started."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunSpec:
    """All options of a run: config, Ray resources, oracle, stopping, and trackers.

    page: serves the page on which people label while its context is open (--oracle page): while the folder is locked.
    """

    config: RunConfig
    cluster: ClusterConfig
    oracle_options: OracleConfig = field(default_factory=OracleConfig)
    stop: StopConfig = NEVER
    trackers: TrackerOptions = NO_TRACKERS
    on_end: OnEnd | None = None
    page: PageContext | None = None


class DeployedServices(RunServices, Protocol):
    """The services of a run on its workers."""

    def peak_memory(self) -> Peaks:
        """Return the peak memory of the processes."""
        ...


class Workers(Protocol):
    """Where the workers of a run are: in this process or on Ray (cluster/run.py)."""

    def check_task_fits(self, config: RunConfig, task: Task) -> None:
        """Raise BadOption if workers cannot search the task as the options say."""
        ...

    def session(self, trainers: int) -> AbstractContextManager[None]:
        """Provide workers until the context ends. trainers: how many must train at the same time."""
        ...

    def deploy(
        self, config: RunConfig, request: OracleRequest, oracle: Oracle, dev: Oracle | None
    ) -> AbstractContextManager[DeployedServices]:
        """Start the workers of a run, in a session; they end with the context. dev: labels pairs of dev, if any."""
        ...


def run_on(
    workers: Workers, work: RunSpec, out: StoragePath, watch: OnProgress, on_round: OnRound, patience: float = 0.0
) -> RunFolder:
    """Run to the last round or an early stop, continuing from the folder; LabelsAwaited when people are to label.

    `RunFolder.end_reason` tells why a run stopped early. patience: seconds to wait for the lock of the folder.
    """
    track = tracking(work.trackers, lambda folder, _: folder.path / "events")
    config, task = _read(work, out)
    workers.check_task_fits(config, task)
    with opened(out, task, patience) as journal:
        oracle_options, stop = in_force(out, work.oracle_options, work.stop)
        stop.check_measured(config)
        # Before the oracle is loaded: for another run or a changed task, an error of loading would mislead.
        journal.check_same_run(config)
        request = OracleRequest(config, oracle_options, journal, watch, page=work.page is not None)
        oracle = make_oracle(request)
        dev = make_dev_oracle(request, oracle) if config.dev_labels else None
        journal.bind(config)
        write_limits(journal.path, oracle_options, stop)

        def completed() -> list[dict[str, Any]]:
            """Report the round that is complete now; return the metrics of all."""
            lines = journal.metrics()
            on_round(lines[-1])
            track(journal, "")
            return lines

        early, peaks = None, Peaks()
        with nullcontext() if work.page is None else work.page(journal):
            try:
                peaks = _Session(replace(work, config=config, stop=stop), request, oracle, dev, workers).run(completed)
            except CostReached as limit:
                early = f"{limit}{close_command(config, journal)}"
            except LabellingStopped as reason:
                early = str(reason)
            journal.end(early or end_reason(config, stop, journal.complete_rounds()))
        track(journal, "")
        if work.on_end:
            work.on_end(journal, peaks)
    return journal


class _Release(Exception):
    """Raised in place of labels, so that the actors end before labels are requested."""


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
    workers: Workers

    def run(self, completed: Callable[[], list[dict[str, Any]]]) -> Peaks:
        """Run what is left of the run; return the peak memory of its processes. completed: called after each round."""
        journal = self.request.journal
        state = journal.state()
        journal.check_weights_exist(state.round)
        if self._rounds_left(state):
            journal.end(None)
        # Before any actor is started, because people may not have labelled yet.
        self._ask_pending(state)
        if not self._work_left(state):
            return {}
        peaks, released = Peaks(), True
        with self.workers.session(self.work.config.trainers):
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
        with self.workers.deploy(config, self.request, oracle, dev) as world:
            split, released = journal.task.split("train"), False
            try:
                for _ in loop.run(config, split, world, state) if self._rounds_left(state) else ():
                    if limit_reached(self.work.stop, completed()) is not None:
                        break
                if dev is not None:
                    measure_last(world, journal.state())
            except _Release:
                released = True
            return released, world.peak_memory() if self.work.on_end else {}


def _read(work: RunSpec, out: StoragePath) -> tuple[RunConfig, Task]:
    """Return the config with `auto` replaced, and the task; an error if they do not go together or with the folder."""
    check_lasting_path(out)
    work.stop.check_measured(work.config)
    check_outside_task(out, texts := storage_path(work.config.task))
    task = read_task(texts)
    config = without_auto(work.config, task, out)
    check_task_fits(config, task)
    return config, task


def check_task_fits(config: RunConfig, task: Task) -> None:
    """Raise MissingSplit or BadOption if the task lacks what the options need."""
    for name in config.evaluation.splits:
        task.measurable(name)
    if config.dev_labels and ("dev" not in task.splits or not task.splits["dev"].space.total):
        raise MissingSplit(
            f"task {task.name!r} has no dev pairs to label; leave out `dev_labels`, or prepare the task with a share "
            "for dev (`OwnTexts.split`)"
        )
    check_prompts(config.encoding, task.symmetric)
    check_frozen_layers(config.encoding, config.training.frozen_layers)
    strategy = STRATEGIES[config.strategy]
    if (strategy.takes_all_stated or config.seeding == "stated") and not len(stated(task.split("train"))):
        raise MissingSplit(f"no pair is stated in {config.task}/train; choose another `strategy` or `seeding`")
    if strategy.matches and config.matched is None:
        raise BadOption(
            f"{option('strategy', config.strategy)} draws as many positives and negatives as a run; give `match=RUN`"
        )
