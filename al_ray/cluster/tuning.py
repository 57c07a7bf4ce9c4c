"""A grid on Ray Tune: a trial a run, each in a placement group with a bundle for every actor that it starts."""

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ray import tune
from ray.exceptions import RayTaskError
from ray.tune.result import TIMESTEPS_TOTAL
from ray.util import get_current_placement_group
from ray.util.placement_group import PlacementGroup

from al_ray.cluster.run import Work, run
from al_ray.cluster.trackers import trackers
from al_ray.cluster.trial import Trial, bundles_of
from al_ray.core.grid import Axes, Cell, GridConfig, cells
from al_ray.core.plain import as_dict
from al_ray.data.files import read_json, write_json
from al_ray.data.grid_folder import GridFolder
from al_ray.data.run_folder import RunFolder, bought_by, last_round
from al_ray.data.tables import read_task
from al_ray.storage.places import Place, Uri, place

# Of Tune: no loggers but ours; a trial stays in the folder that options are meant from; and no words on its plan or on
# how often it writes its small state.
SETTINGS = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}
logger = logging.getLogger(__name__)

AT = "at.json"  # Of a trial's checkpoint: the run folder, which holds everything, and its last complete round.


@dataclass(frozen=True)
class Grid:
    """All that the options of a grid say. work: what its runs have in common."""

    axes: Axes
    work: Work
    how: GridConfig
    out: Place

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Its runs."""
        return cells(self.work.config, self.axes)

    @property
    def bundles(self) -> list[dict[str, float]]:
        """What the actors of each of its runs ask of Ray."""
        return bundles_of(self.work.cluster, self.work.config.training.workers)

    @property
    def digest(self) -> str:
        """Of all that Tune keeps of the grid: with other places or limits it is another experiment on the same runs."""
        held = self.work.cluster, self.work.asking, self.work.stop, self.how
        names = [cell.name for cell in self.cells]
        return hashlib.sha256(json.dumps([names, *map(as_dict, held)]).encode()).hexdigest()[:12]


def trial_resources(grid: Grid) -> tune.PlacementGroupFactory:
    """The placement group of a trial: nothing for the trial itself, which only waits, and a bundle an actor."""
    return tune.PlacementGroupFactory([{}, *grid.bundles], strategy="PACK")


def trial(asked: Mapping[str, Any], grid: Grid) -> None:
    """What Tune calls: the run of one cell, with a report and a checkpoint a round."""
    # A checkpoint of ours is a line; nobody wants to hear of each.
    for name in ("ray.train", "ray.tune"):
        logging.getLogger(name).setLevel(logging.WARNING)
    cell = next(cell for cell in grid.cells if cell.name == asked["cell"])
    checkpoint, told = tune.get_checkpoint(), 0
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            told = read_json(Path(folder) / AT, ["round"])["round"]

    def report(line: Mapping[str, Any]) -> None:
        with tempfile.TemporaryDirectory(prefix="al_ray-") as folder:
            write_json(Path(folder) / AT, {"run": str(GridFolder(grid.out).run(cell)), "round": line["round"]})
            tune.report(
                {**line, "cell": cell.name, TIMESTEPS_TOTAL: line["labels"]},
                checkpoint=tune.Checkpoint.from_directory(folder),
            )

    conduct(grid, cell, report, told, get_current_placement_group())


def conduct(
    grid: Grid, cell: Cell, report: Callable[[Mapping[str, Any]], None], told: int, group: PlacementGroup | None
) -> None:
    """The run of one cell to its end. told: the last round that was reported; those that came after it are again."""
    folder, texts = GridFolder(grid.out), place(grid.work.config.task)
    out = folder.run(cell)
    for line in RunFolder(out, read_task(texts)).complete_rounds()[told:]:
        report(line)
    config = cell.config
    if cell.after is not None:
        config = replace(config, matched=bought_by(grid.out / "runs" / cell.after))
    run(replace(grid.work, config=config), out, _unwatched, report, Trial(cell.name, folder.shared, group))


def _unwatched(stage: str, done: int, total: int) -> None:
    """Progress within a round, of which a grid says nothing."""


Hear = Callable[[str, Mapping[str, Any]], None]
"""Hears a cell's name and the line of a round that was completed."""
# Whom this driver tells of rounds. Tune keeps its callbacks as pickles, and restores copies of them.
_hearers: list[Hear] = []


class Ear(tune.Callback):
    """Hands a trial's reports on, and says in a line why one failed."""

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        """A round."""
        for hear in _hearers:
            hear(result["cell"], result)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """A failure after which the trial starts again."""
        logger.warning("%s failed and starts again: %s", trial, _last_line(trial.error_file))

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """The last failure that the trial is allowed."""
        logger.warning("%s failed: %s", trial, _last_line(trial.error_file))


def fitted(grid: Grid, phase: str, part: Sequence[Cell], hear: Hear) -> dict[str, str]:
    """Run cells that wait for none of each other; by name of each that ended "", or the first line of its error.

    A phase that was broken off is restored, and what failed in it is tried again. A run whose folder somebody removed,
    of which Tune says that it ended, is another experiment.
    """
    os.environ.update(SETTINGS)
    # It misses files that its own loggers would have written, and prints each failure in fifty lines.
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    folder, name = GridFolder(grid.out), f"phase-{phase}-{grid.digest}"
    # Of a URI its store and the path therein: Tune does not understand one with a query.
    tunes = folder.tune
    storage, store = (tunes.path, tunes.store) if isinstance(tunes, Uri) else (str(tunes), None)
    runnable = tune.with_resources(tune.with_parameters(trial, grid=grid), trial_resources(grid))
    _hearers.append(hear)
    try:
        if tune.Tuner.can_restore(at := f"{storage}/{name}", store):
            tuner = tune.Tuner.restore(at, trainable=runnable, resume_errored=True, storage_filesystem=store)
        else:
            tuner = tune.Tuner(
                runnable,
                param_space={"cell": tune.grid_search([cell.name for cell in part])},
                tune_config=tune.TuneConfig(
                    max_concurrent_trials=grid.how.concurrent,
                    trial_name_creator=_named,
                    trial_dirname_creator=_named,
                ),
                run_config=tune.RunConfig(
                    name=name,
                    storage_path=storage,
                    storage_filesystem=store,
                    failure_config=tune.FailureConfig(max_failures=grid.how.failures),
                    checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
                    callbacks=[Ear(), *trackers(grid.how, part)],
                    verbose=0,
                ),
            )
        results = tuner.fit()
    finally:
        _hearers.remove(hear)
    made = [(result.config or {}, result.metrics or {}, result.error) for result in results]
    ends = {
        config["cell"]: _first_line(error) if error else ""
        for config, metrics, error in made
        # Of one that was broken off there is neither.
        if error or metrics.get("done")
    }
    told = {config["cell"]: metrics.get("round", 0) for config, metrics, _ in made}
    gone = [cell for cell in part if told.get(cell.name, 0) > last_round(folder.run(cell))]
    return ends | fitted(grid, f"{phase}-again", gone, hear) if gone else ends


def _named(made: Any) -> str:
    return made.config["cell"]


def _last_line(file: str | None) -> str:
    """What a trial's traceback ends with; Tune writes it into its folder, too, but only later."""
    text = Path(file).read_text(encoding="utf-8") if file is not None and Path(file).is_file() else ""
    return (text.strip().splitlines() or ["its process died"])[-1]


def _first_line(error: BaseException | None) -> str:
    """What a person reads of an error that came out of a trial."""
    cause = error
    while isinstance(cause, RayTaskError) and isinstance(cause.cause, BaseException):
        cause = cause.cause
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    return lines[0]
