"""A whole run on Ray, from wherever its folder is to its end: what jobs.run does, and each trial of a grid."""

from collections.abc import Callable
from typing import Any

from al_ray.cluster.pool import Watch
from al_ray.cluster.session import refuse_lost, session
from al_ray.cluster.world import deployed_world
from al_ray.core import loop
from al_ray.core.config import ONCE, ClusterConfig, RunConfig
from al_ray.core.errors import MissingSplit, WrongFolder
from al_ray.core.loop import ImputedOracle
from al_ray.core.ports import Oracle
from al_ray.core.records import State
from al_ray.core.strategy import stated
from al_ray.data.run_folder import RunFolder, opened, refuse_inside
from al_ray.data.tables import read_task
from al_ray.oracles.service import CallableOracle, OracleConfig
from al_ray.oracles.sheets import FileOracle
from al_ray.storage.places import Place, place

Told = Callable[[dict[str, Any]], None]
"""Hears a round's line of metrics.jsonl, once the round is complete."""


def run(
    config: RunConfig, cluster: ClusterConfig, out: Place, asking: OracleConfig, watch: Watch, told: Told
) -> RunFolder:
    """Run to the end, from wherever the folder is; LabelsAwaited when people are to label first."""
    refuse_lost(out)
    texts = place(config.task)
    refuse_inside(out, texts)
    task = read_task(texts)
    config = config.settled(task.split("train").space.total)
    for name in config.evaluation.splits:
        task.measurable(name)
    if "stated" in (config.strategy, config.seeding) and not len(stated(task.split("train"))):
        raise MissingSplit(f"no pair is stated in {config.task}/train; choose another --strategy or --seeding")
    with opened(out, task) as journal:
        oracle = oracle_of(config, asking, journal, watch)
        journal.bind(config)
        state = journal.state()
        journal.refuse_lost(state.round)
        if state.round < len(config.batches):
            pending = journal.ledger.chosen(state.round + 1)
            if pending is not None:
                if config.strategy in ONCE and pending.source != config.strategy:
                    raise WrongFolder(f"{out} has imported labels, and --strategy {config.strategy} takes no seed set")
                # Before any actor is started: people may not be ready yet.
                loop.bought(state.round + 1, journal.ledger, oracle)
            _go_on(config, cluster, journal, oracle, state, watch, told)
    return journal


def oracle_of(config: RunConfig, asking: OracleConfig, journal: RunFolder, watch: Watch) -> Oracle:
    """Who labels."""
    ledger = journal.ledger
    if config.oracle == "file":
        return FileOracle(ledger)
    if config.oracle == "simulated":
        return ImputedOracle(journal.task.measurable("train"))
    return CallableOracle(config.oracle, journal.task, asking, config.seed, ledger.cost(), watch)


def _go_on(
    config: RunConfig,
    cluster: ClusterConfig,
    journal: RunFolder,
    oracle: Oracle,
    state: State,
    watch: Watch,
    told: Told,
) -> None:
    with (
        session(cluster, config.training.workers),
        deployed_world(config, cluster, journal, oracle, watch) as world,
    ):
        for _ in loop.run(config, journal.task.split("train"), world, state):
            told(journal.metrics()[-1])
