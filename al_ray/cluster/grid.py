"""A grid from wherever its folder is to its end: what is shared first, then its runs, phase by phase."""

import logging
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import ray
from ray.util.placement_group import remove_placement_group

from al_ray.cluster.actors import room_of_nodes
from al_ray.cluster.pool import Watch
from al_ray.cluster.session import local, refuse_lost, refuse_unshared, session
from al_ray.cluster.share import share
from al_ray.cluster.trackers import refuse_untracked
from al_ray.cluster.tuning import Grid, fitted, trial_resources
from al_ray.core.errors import MissingSplit, NoPlace
from al_ray.core.grid import Cell, phases
from al_ray.core.stopping import why_stop
from al_ray.core.strategy import stated
from al_ray.core.summary import Outcome, Sitting
from al_ray.core.task import Task
from al_ray.data.grid_folder import GridFolder
from al_ray.data.run_folder import RunFolder, at_its_end, refuse_inside
from al_ray.data.tables import read_task
from al_ray.storage.lock import locked
from al_ray.storage.places import place

logger = logging.getLogger(__name__)

Hear = Callable[[Cell, Mapping[str, Any]], None]
"""Hears a cell and the line of a round of it that was completed."""


def run_grid(grid: Grid, watch: Watch, hear: Hear) -> list[Outcome]:
    """Run what is not complete; what came of every cell. A failed run raises nothing.

    NoPlace when not even one run has room.
    """
    task = checked(grid)
    grid = replace(grid, how=replace(grid.how, concurrent=at_a_time(grid)))
    folder, made, stages = GridFolder(grid.out), grid.cells, 0.0
    named, known = {cell.name: cell for cell in made}, set[tuple[str, int]]()

    def heard(name: str, line: Mapping[str, Any]) -> None:
        nonlocal stages
        # A trial that dies right after a report may report that round again.
        if (name, line["round"]) in known:
            return
        known.add((name, line["round"]))
        stages += sum(line["seconds"].values())
        folder.add_events(named[name], line)
        hear(named[name], line)

    with locked(grid.out):
        folder.bind(grid.axes, grid.work.config, made)
        left = [cell for cell in made if not complete(grid, cell, task)]
        ends: dict[str, str] = {}
        shared, wall, room = 0.0, 0.0, 1
        if left:
            started = time.monotonic()
            with session(grid.work.cluster, grid.work.config.training.workers, grid.how.concurrent or 1):
                room = refuse_unplaced(grid)
                refuse_unshared((place(grid.work.config.task), grid.out), grid.work.cluster)
                share(left, grid.work.cluster, task, folder.shared, watch)
                shared = time.monotonic() - started
                for number, phase in enumerate(phases(made), start=1):
                    lacking = {cell.name for cell in left if ends.get(cell.name) != ""}
                    ends |= {cell.name: f"needs {cell.after}" for cell in phase if cell.after in lacking}
                    part = [cell for cell in phase if cell in left and cell.name not in ends]
                    if part:
                        ends |= fitted(grid, str(number), part, heard)
            wall = time.monotonic() - started
        outcomes = [folder.outcome(cell, task, ends.get(cell.name, "")) for cell in made]
        if left:
            folder.add_sitting(Sitting(wall, shared, stages, min(grid.how.concurrent or room, room, len(left))))
        return outcomes


def checked(grid: Grid) -> Task:
    """The task, after all that can be refused before any work."""
    refuse_lost(grid.out)
    refuse_untracked(grid.how)
    config = grid.work.config
    grid.work.stop.refuse_unmeasured(config)
    texts = place(config.task)
    refuse_inside(grid.out, texts)
    task = read_task(texts)
    for name in config.evaluation.splits:
        task.measurable(name)
    wants = "stated" in grid.axes.strategies or config.seeding == "stated"
    if wants and not len(stated(task.split("train"))):
        raise MissingSplit(f"no pair is stated in {config.task}/train; leave out --strategies stated")
    return task


def complete(grid: Grid, cell: Cell, task: Task) -> bool:
    """Whether a cell's run has all its rounds, or has ended at a limit that still holds."""
    folder = RunFolder(GridFolder(grid.out).run(cell), task)
    lines = folder.complete_rounds()
    stopped = at_its_end(folder.path, cell.config) and why_stop(grid.work.stop, lines) is not None
    return stopped or len(lines) == len(cell.config.batches)


def places_of(grid: Grid) -> int:
    """How many runs have room at a time on the Ray there is or would be; 0 where not even one has."""
    with session(
        replace(grid.work.cluster, gpus_per_shard=0.0), grid.work.config.training.workers, at_a_time(grid) or 1
    ):
        return min(room_for(grid.bundles), at_a_time(grid) or len(grid.cells))


def at_a_time(grid: Grid) -> int | None:
    """How many runs there are to be at a time; None for all that a cluster has room for."""
    if grid.how.concurrent is not None:
        return grid.how.concurrent
    if ray.is_initialized() or not local():
        return None
    return max(1, (os.cpu_count() or 1) // grid.work.config.threads)


def refuse_unplaced(grid: Grid) -> int:
    """How many runs have room at a time; NoPlace, with what one asks for and what there is, where not even one has.

    A local Ray does not grow: there it is said at once. Of a cluster too, and then it has --timeout to grow.
    """
    bundles, count = grid.bundles, room_for(grid.bundles)
    if count:
        return count
    asked = ", ".join(" and ".join(f"{number:g} {name}s" for name, number in one.items()) for one in bundles)
    said = f"a run of the grid asks for {len(bundles)} actors ({asked}), and the cluster has {room_of_nodes()}"
    cure = (
        "ask for fewer --shards or --training.workers, less --cpus-per-shard or --gpus-per-shard, or add nodes; the "
        "same command goes on"
    )
    if local():
        raise NoPlace(f"{said}: {cure}")
    logger.warning("%s; waiting for %.0f s for it to grow", said, grid.work.cluster.timeout)
    group = trial_resources(grid).to_placement_group()
    try:
        if not group.wait(math.ceil(grid.work.cluster.timeout)):
            raise NoPlace(f"{said} after {grid.work.cluster.timeout:.0f} s: {cure}")
    finally:
        remove_placement_group(group)
    return 1


def room_for(bundles: Sequence[Mapping[str, float]]) -> int:
    """How many groups of these bundles the nodes hold when they are idle: each bundle goes where it fits first."""
    nodes = [dict(node["Resources"]) for node in ray.nodes() if node["Alive"]]
    wanted, count = sorted(bundles, key=lambda one: sorted(one.items()), reverse=True), 0
    while True:
        for bundle in wanted:
            fits = [node for node in nodes if all(node.get(name, 0) >= number for name, number in bundle.items())]
            if not fits:
                return count
            for name, number in bundle.items():
                fits[0][name] -= number
        count += 1
