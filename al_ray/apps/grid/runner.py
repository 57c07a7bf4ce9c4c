"""Run a grid from the state of its folder to its end: shared inputs first, then the runs, phase by phase."""

import logging
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import ray
from ray.util.placement_group import remove_placement_group

from al_ray.active_learning.stopping import limit_reached
from al_ray.active_learning.strategies import STRATEGIES, stated
from al_ray.apps.grid.folder import GridFolder
from al_ray.apps.grid.ray_tune import Grid, run_phase, trial_resources
from al_ray.apps.grid.shared_artifacts import share
from al_ray.apps.grid.spec import Cell, phases
from al_ray.apps.grid.summary import GridSession
from al_ray.apps.reporting.read_runs import read_grid
from al_ray.apps.reporting.run_records import Run
from al_ray.cluster.capacity import count_placements, describe_nodes
from al_ray.cluster.pool.score_fit import check_scoring
from al_ray.cluster.ray_session import local
from al_ray.cluster.session import require_shared_folders, session
from al_ray.core.errors import BadOption, MissingSplit, NoPlacement
from al_ray.core.naming import option
from al_ray.core.progress import OnProgress
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task
from al_ray.encoders.encoder import check_prompts
from al_ray.runs.auto_matcher import with_dense_chosen, with_matcher_chosen
from al_ray.runs.limits import in_force
from al_ray.runs.place import check_outside_task
from al_ray.runs.run_folder import RunFolder
from al_ray.runs.run_state import at_its_end, last_round
from al_ray.runs.trackers.registry import Track, tracking
from al_ray.storage.lock import locked
from al_ray.storage.uri import storage_path

logger = logging.getLogger(__name__)

OnCellRound = Callable[[Cell, Mapping[str, Any]], None]
"""Callback that receives a cell and the metrics of a completed round."""


def run_grid(grid: Grid, watch: OnProgress, on_round: OnCellRound) -> list[Run]:
    """Run what is not complete and return the run of every cell. A failed run raises nothing.

    NoPlacement if the cluster has no room for even one run.
    """
    task, track = validate(grid), tracker_of(grid)
    grid = without_auto(grid, task)
    grid = replace(grid, how=replace(grid.how, concurrent=concurrency(grid)))
    folder, cells, stages = GridFolder(grid.out), grid.cells, 0.0
    named, known = {cell.name: cell for cell in cells}, set[tuple[str, int]]()

    def count_round(name: str, line: Mapping[str, Any]) -> None:
        nonlocal stages
        # A trial that crashes right after a report may report that round again.
        if (name, line["round"]) in known:
            return
        known.add((name, line["round"]))
        stages += sum(line["seconds"].values())
        on_round(named[name], line)
        track(RunFolder(folder.run(named[name]), task), named[name].group)

    with locked(grid.out):
        folder.bind(grid.axes, grid.work.config, cells, task.digest)
        left = [cell for cell in cells if not complete(grid, cell, task)]
        ends: dict[str, str] = {}
        if left:
            started = time.monotonic()
            with session(replace(grid.work.cluster, ray=True), grid.work.config.trainers, grid.how.concurrent or 1):
                room = require_placement(grid)
                require_shared_folders((storage_path(grid.work.config.task), grid.out), grid.work.cluster)
                share(left, grid.work.cluster, task, folder.shared, watch)
                shared = time.monotonic() - started
                for number, phase in enumerate(phases(cells), start=1):
                    unfinished = {cell.name for cell in left if ends.get(cell.name) != ""}
                    ends |= {cell.name: f"needs {cell.after}" for cell in phase if cell.after in unfinished}
                    part = [cell for cell in phase if cell in left and cell.name not in ends]
                    if part:
                        ends |= run_phase(grid, str(number), part, count_round)
            wall = time.monotonic() - started
            folder.add_session(GridSession(wall, shared, stages, min(grid.how.concurrent or room, room, len(left))))
        for cell in cells:
            track(RunFolder(folder.run(cell), task), cell.group)
        return read_grid(grid.out, {name: (error, last_round(folder.run(named[name]))) for name, error in ends.items()})


def tracker_of(grid: Grid) -> Track:
    """Return what writes the runs of a grid to its trackers; BadOption for one that cannot be used now."""
    folder, named = GridFolder(grid.out), {cell.name: cell for cell in grid.cells}
    return tracking(grid.how, lambda run, _: folder.events(named[run.path.name]))


def validate(grid: Grid) -> Task:
    """Read the task, after all checks that can fail before any work."""
    tracker_of(grid)
    config = grid.work.config
    grid.work.stop.check_measured(config)
    if grid.work.oracle_options.release_actors:
        raise BadOption("`release_actors=True`: a run of a grid has its resources to its end; leave it out")
    texts = storage_path(config.task)
    check_outside_task(grid.out, texts)
    task = read_task(texts)
    for name in config.evaluation.splits:
        task.measurable(name)
    for encoder in grid.axes.encoders:
        check_prompts(replace(config, encoder=encoder).encoding, task.symmetric)
    check_scoring(config.scoring, task)
    of_stated = [name for name in grid.axes.strategies if STRATEGIES[name].takes_all_stated]
    if (of_stated or config.seeding == "stated") and not len(stated(task.split("train"))):
        fix = f"leave out {option('strategies', ','.join(of_stated)) if of_stated else option('seeding', 'stated')}"
        raise MissingSplit(f"no pair is stated in {config.task}/train; {fix}")
    return task


def without_auto(grid: Grid, task: Task) -> Grid:
    """Return the grid with `matcher` on or off in place of auto, and its dense texts, for all its runs alike."""
    stored = GridFolder(grid.out).options()
    config = with_dense_chosen(with_matcher_chosen(grid.work.config, task, stored), stored)
    return replace(grid, work=replace(grid.work, config=config))


def complete(grid: Grid, cell: Cell, task: Task) -> bool:
    """Return whether a cell's run has all its rounds, or ended at a stop option that still applies."""
    folder = RunFolder(GridFolder(grid.out).run(cell), task)
    lines = folder.complete_rounds()
    _, stop = in_force(folder.path, grid.work.oracle_options, grid.work.stop)
    stopped = at_its_end(folder.path, cell.config) and limit_reached(stop, lines) is not None
    measured = not (cell.config.dev_labels and lines) or folder.dev_labels.estimated(len(lines))
    return measured and (stopped or len(lines) == len(cell.config.batches))


def count_concurrent(grid: Grid) -> int:
    """Return how many runs fit at a time on the Ray cluster that is or would be used; 0 if not even one fits."""
    cluster, most = replace(grid.work.cluster, gpus_per_shard=0.0, ray=True), concurrency(grid)
    with session(cluster, grid.work.config.trainers, most or 1):
        return min(count_placements(grid.bundles), most or len(grid.cells))


def concurrency(grid: Grid) -> int | None:
    """Return the maximum number of concurrent runs; None for as many as the cluster has room for."""
    if grid.how.concurrent is not None:
        return grid.how.concurrent
    if ray.is_initialized() or not local():
        return None
    return max(1, (os.cpu_count() or 1) // grid.work.config.threads)


def require_placement(grid: Grid) -> int:
    """Return how many runs fit at a time; NoPlacement if not even one fits, with what it needs and what there is.

    A local Ray cannot grow, so there the error is immediate. A cluster has `timeout` seconds to grow.
    """
    bundles, count = grid.bundles, count_placements(grid.bundles)
    if count:
        return count
    needs = ", ".join(" and ".join(f"{number:g} {name}s" for name, number in one.items()) for one in bundles)
    problem = f"a run of the grid needs {len(bundles)} actors ({needs}), and the cluster has {describe_nodes()}"
    fix = (
        "use fewer `shards` or `training.workers`, less `cpus_per_shard` or `gpus_per_shard`, or add nodes; then run "
        "the grid again to resume it"
    )
    if local():
        raise NoPlacement(f"{problem}: {fix}")
    logger.warning("%s; waiting up to %.0f s for it to grow", problem, grid.work.cluster.timeout)
    group = trial_resources(grid).to_placement_group()
    try:
        if not group.wait(math.ceil(grid.work.cluster.timeout)):
            raise NoPlacement(f"{problem} after {grid.work.cluster.timeout:.0f} s: {fix}")
    finally:
        remove_placement_group(group)
    return 1
