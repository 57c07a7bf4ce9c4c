"""A grid on Ray Tune: each run is a trial, in a placement group with a bundle for every actor that it starts."""

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ray import tune
from ray.exceptions import RayTaskError
from ray.tune.execution import class_cache
from ray.tune.result import TIMESTEPS_TOTAL
from ray.util import get_current_placement_group
from ray.util.placement_group import PlacementGroup

from al_ray.apps.grid.folder import GridFolder
from al_ray.apps.grid.progress import logged_progress, poll_progress, reporter
from al_ray.apps.grid.spec import Axes, Cell, GridConfig, cells
from al_ray.cluster.run import run
from al_ray.cluster.trial import Trial, bundles_of
from al_ray.cluster.working_folder import work_in, working_folder
from al_ray.core.config.serialization import as_dict
from al_ray.core.progress import OnProgress, no_progress
from al_ray.running.run import RunSpec
from al_ray.runs.other_runs import count_classes
from al_ray.runs.place import check_lasting_path
from al_ray.runs.run_folder import complete_rounds, last_round
from al_ray.storage.files import read_json, write_json
from al_ray.storage.uri import StoragePath, Uri

# No loggers of Tune; trials keep the working directory, as options may hold relative paths; no warning about how often
# Tune writes its small state.
SETTINGS = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}
# Tune passes these of the driver to its trials as a runtime environment, which Ray writes into a log and shows on its
# dashboard. Trials have them as all processes of a run have: from the environment of their node (docs/storage.md).
CREDENTIALS = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN"}
logger = logging.getLogger(__name__)

# Tune's pickles name modules and classes. Raise this number when one of those moves or is renamed: Tune then starts a
# fresh experiment on the same run folders instead of failing on a pickle that it cannot read.
LAYOUT = 2

CHECKPOINT = "at.json"  # In a trial's checkpoint: the run folder, which holds everything, and the last reported round.


FIELDS = "fields"
"""Key of a result: the names of the metrics that a trial reports; Tune adds its own, such as `pid` and `done`."""


def round_metrics(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a round in a result of Tune, without those that Tune adds."""
    return {name: result[name] for name in result[FIELDS]}


@dataclass(frozen=True)
class Grid:
    """A grid as its options define it. work: what its runs have in common; how: scheduling; out: its folder."""

    axes: Axes
    work: RunSpec
    how: GridConfig
    out: StoragePath

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cells, one for each run."""
        return cells(self.work.config, self.axes)

    @property
    def bundles(self) -> list[dict[str, float]]:
        """Return the resources of the actors of one run, a bundle for each."""
        return bundles_of(self.work.cluster, self.work.config.trainers)

    @property
    def digest(self) -> str:
        """Return the digest of all that Tune stores of the grid; with another one, Tune starts a fresh experiment."""
        blocks = self.work.cluster, self.work.oracle_options, self.work.stop, self.how
        names = [cell.name for cell in self.cells]
        # Earlier versions had a callback of Tune for W&B, whose class is gone.
        layout = LAYOUT if self.how.wandb is None else LAYOUT + 1
        return hashlib.sha256(json.dumps([layout, names, *map(as_dict, blocks)]).encode()).hexdigest()[:12]


def grid_folder(out: StoragePath) -> StoragePath:
    """Return the absolute path of a grid's folder, because trials work in other folders.

    BadOption for a relative path in a submitted job, whose folder is temporary.
    """
    check_lasting_path(out)
    return out.resolve()


def trial_resources(grid: Grid) -> tune.PlacementGroupFactory:
    """Return the placement group of a trial: an empty bundle for the waiting trial, and one for each actor."""
    return tune.PlacementGroupFactory([{}, *grid.bundles], strategy="PACK")


def trial(params: Mapping[str, Any], grid: Grid, board: Any, folder: str) -> None:
    """Run one cell, with a report and a checkpoint after each round. Tune calls this function in a worker.

    board: handle of the actor that receives the progress; folder: the driver's.
    """
    work_in(folder)
    # Tune logs every checkpoint, and ours are a line each.
    for name in ("ray.train", "ray.tune"):
        logging.getLogger(name).setLevel(logging.WARNING)
    cell = next(cell for cell in grid.cells if cell.name == params["cell"])
    checkpoint, reported = tune.get_checkpoint(), 0
    if checkpoint is not None:
        with checkpoint.as_directory() as at:
            reported = read_json(Path(at) / CHECKPOINT, ["round"])["round"]

    def report(line: Mapping[str, Any]) -> None:
        with tempfile.TemporaryDirectory(prefix="al_ray-") as at:
            write_json(Path(at) / CHECKPOINT, {"run": str(GridFolder(grid.out).run(cell)), "round": line["round"]})
            tune.report(
                {**line, "cell": cell.name, FIELDS: list(line), TIMESTEPS_TOTAL: line["labels"]},
                checkpoint=tune.Checkpoint.from_directory(at),
            )

    run_cell(grid, cell, report, reported, get_current_placement_group(), reporter(board, cell.name))


def run_cell(
    grid: Grid,
    cell: Cell,
    report: Callable[[Mapping[str, Any]], None],
    reported: int,
    group: PlacementGroup | None,
    on_progress: OnProgress = no_progress,
) -> None:
    """Run one cell to its end. reported: the last reported round; complete rounds after it are reported first."""
    folder = GridFolder(grid.out)
    out = folder.run(cell)
    for line in complete_rounds(out)[reported:]:
        report(line)
    config = cell.config
    if cell.after is not None:
        config = replace(config, matched=count_classes(grid.out / "runs" / cell.after))
    run(replace(grid.work, config=config), out, on_progress, report, Trial(cell.name, folder.shared, group))


OnTrialRound = Callable[[str, Mapping[str, Any]], None]
"""Callback that receives the name of a cell and the metrics of a completed round."""
# A module variable, because Tune pickles its callbacks and restores copies of them.
_listeners: list[OnTrialRound] = []


class RoundCallback(tune.Callback):
    """Passes the reports of trials on, and logs failures in one line."""

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        """Pass on the metrics of a round."""
        for on_round in _listeners:
            on_round(result["cell"], round_metrics(result))

    def on_step_end(self, iteration: int, trials: list[Any], **_: Any) -> None:
        """Log the progress of the trials; Tune calls this several times a second."""
        poll_progress(trials)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """Log a failure after which the trial is restarted."""
        logger.warning("%s failed and is restarted: %s", trial, _last_line(trial.error_file))

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """Log the last failure that a trial is allowed."""
        logger.warning("%s failed: %s", trial, _last_line(trial.error_file))


def run_phase(grid: Grid, phase: str, part: Sequence[Cell], on_round: OnTrialRound) -> dict[str, str]:
    """Run cells without dependencies among them; return name -> first line of the error, "" for success.

    phase: name of the phase. An interrupted phase is restored, and its failed trials are retried. A run that Tune has
    as ended, but whose folder was removed since, is run in another experiment.
    """
    os.environ.update(SETTINGS)
    class_cache.ENV_VARS_TO_PROPAGATE -= CREDENTIALS
    # Tune warns about files of the loggers that are off, and prints each failure in fifty lines.
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    folder, name = GridFolder(grid.out), f"phase-{phase}-{grid.digest}"
    # Of a URI, pass the file system and the path in it: Tune cannot parse one with a query.
    place = folder.tune
    storage, store = (place.path, place.store) if isinstance(place, Uri) else (str(place), None)
    with _listening(on_round), logged_progress(grid.bundles) as board:
        runnable = tune.with_resources(
            tune.with_parameters(trial, grid=grid, board=board, folder=working_folder()), trial_resources(grid)
        )
        if tune.Tuner.can_restore(at := f"{storage}/{name}", store):
            tuner = tune.Tuner.restore(at, trainable=runnable, resume_errored=True, storage_filesystem=store)
        else:
            names: dict[str, Any] = {"trial_name_creator": _trial_name, "trial_dirname_creator": _trial_name}
            config = tune.RunConfig(
                name=name,
                storage_path=storage,
                storage_filesystem=store,
                failure_config=tune.FailureConfig(max_failures=grid.how.failures),
                checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
                callbacks=[RoundCallback()],
                verbose=0,
            )
            tuner = tune.Tuner(
                runnable,
                param_space={"cell": tune.grid_search([cell.name for cell in part])},
                tune_config=tune.TuneConfig(max_concurrent_trials=grid.how.concurrent, **names),
                run_config=config,
            )
        results = tuner.fit()
    trials = [((result.config or {})["cell"], result.metrics or {}, result.error) for result in results]
    # An interrupted trial has neither an error nor "done".
    ends = {
        cell: _first_line(error) if error else "" for cell, metrics, error in trials if error or metrics.get("done")
    }
    if any(cell.name not in ends for cell in part):
        # Tune takes SIGINT for itself and returns as after an end, and no other phase may start.
        raise KeyboardInterrupt
    rounds = {cell: metrics.get("round", 0) for cell, metrics, _ in trials}
    gone = [cell for cell in part if rounds.get(cell.name, 0) > last_round(folder.run(cell))]
    return ends | run_phase(grid, f"{phase}-again", gone, on_round) if gone else ends


@contextmanager
def _listening(on_round: OnTrialRound) -> Iterator[None]:
    """Pass the rounds of trials to `on_round` until the context ends."""
    _listeners.append(on_round)
    try:
        yield
    finally:
        _listeners.remove(on_round)


def _trial_name(trial: Any) -> str:
    return trial.config["cell"]


def _last_line(file: str | None) -> str:
    """Return the last line of a trial's traceback; Tune copies the file into its folder only later."""
    text = Path(file).read_text(encoding="utf-8") if file is not None and Path(file).is_file() else ""
    return (text.strip().splitlines() or ["its process died"])[-1]


def _first_line(error: BaseException | None) -> str:
    """Return the first line of the error that a trial raised, without the wrappers of Ray."""
    cause = error
    while isinstance(cause, RayTaskError) and isinstance(cause.cause, BaseException):
        cause = cause.cause
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]
