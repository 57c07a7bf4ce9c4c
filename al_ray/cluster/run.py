"""A whole run on Ray, from wherever its folder is to its end: what jobs.run does, and each trial of a grid."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from al_ray.cluster.pool import Watch
from al_ray.cluster.session import refuse_lost, session
from al_ray.cluster.teacher import ModelOracle
from al_ray.cluster.trial import Trial
from al_ray.cluster.world import deployed_world
from al_ray.core import loop
from al_ray.core.config import ONCE, ClusterConfig, RunConfig
from al_ray.core.errors import BadOption, MissingSplit, WrongFolder
from al_ray.core.limits import MODEL
from al_ray.core.loop import ImputedOracle
from al_ray.core.ports import Oracle
from al_ray.core.stopping import NEVER, StopConfig, ended, why_stop
from al_ray.core.strategy import stated
from al_ray.data.run_folder import RunFolder, opened, refuse_inside
from al_ray.data.tables import read_task
from al_ray.oracles.service import CallableOracle, OracleConfig
from al_ray.oracles.sheets import FileOracle
from al_ray.storage.places import Place, place

Told = Callable[[dict[str, Any]], None]
"""Hears a round's line of metrics.jsonl, once the round is complete."""
PATIENCE = 60.0  # Seconds that a trial waits for the lock of the one it takes the place of, whose process is ending.


@dataclass(frozen=True)
class Work:
    """All that the options of a run say: what it is to find out, where it works, how people are asked, when it ends."""

    config: RunConfig
    cluster: ClusterConfig
    asking: OracleConfig = field(default_factory=OracleConfig)
    stop: StopConfig = NEVER


def run(work: Work, out: Place, watch: Watch, told: Told, trial: Trial | None = None) -> RunFolder:
    """Run to the end, or to where it is to stop, from wherever the folder is; LabelsAwaited when people are to label.

    `core.stopping.ended` says of the folder which of the two it was. trial: its part of a grid, if it is of one.
    """
    config, cluster, stop = work.config, work.cluster, work.stop
    refuse_lost(out)
    stop.refuse_unmeasured(config)
    texts = place(config.task)
    refuse_inside(out, texts)
    task = read_task(texts)
    config = config.settled(task.split("train").space.total)
    for name in config.evaluation.splits:
        task.measurable(name)
    if "stated" in (config.strategy, config.seeding) and not len(stated(task.split("train"))):
        raise MissingSplit(f"no pair is stated in {config.task}/train; choose another --strategy or --seeding")
    if config.strategy == "stratified-match" and config.matched is None:
        raise BadOption("--strategy stratified-match draws as many positives and negatives as a run; give --match RUN")
    with opened(out, task, 0.0 if trial is None else PATIENCE) as journal:
        oracle = oracle_of(config, work.asking, journal, watch)
        journal.bind(config)
        state = journal.state()
        journal.refuse_lost(state.round)
        if state.round < len(config.batches) and why_stop(stop, journal.complete_rounds()) is None:
            pending = journal.ledger.chosen(state.round + 1)
            if pending is not None:
                if config.strategy in ONCE and pending.source != config.strategy:
                    raise WrongFolder(f"{out} has imported labels, and --strategy {config.strategy} takes no seed set")
                # Before any actor is started: people may not be ready yet.
                loop.bought(state.round + 1, journal.ledger, oracle)
            with (
                session(cluster, config.training.workers),
                deployed_world(config, cluster, journal, oracle, watch, trial) as world,
            ):
                for _ in loop.run(config, task.split("train"), world, state):
                    told(journal.metrics()[-1])
                    if why_stop(stop, journal.metrics()) is not None:
                        break
        early = ended(config, stop, journal.complete_rounds())
        if early is not None:
            journal.end(early)
    return journal


def oracle_of(config: RunConfig, asking: OracleConfig, journal: RunFolder, watch: Watch) -> Oracle:
    """Who labels."""
    ledger = journal.ledger
    if config.oracle == "file":
        return FileOracle(ledger)
    if config.oracle == "simulated":
        return ImputedOracle(journal.task.measurable("train"))
    if config.oracle.startswith(MODEL):
        return ModelOracle(config.oracle, journal.task, config.threads, watch)
    return CallableOracle(config.oracle, journal.task, asking, config.seed, ledger.cost(), watch)
