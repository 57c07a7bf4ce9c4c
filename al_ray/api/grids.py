"""Run a grid: active-learning runs for every combination of strategies, seeds, encoders and budgets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.stopping import NEVER, StopConfig
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.api.runs import CLUSTER
from al_ray.apps.grid.folder import GridFolder
from al_ray.apps.grid.ray_tune import Grid, grid_folder
from al_ray.apps.grid.runner import OnCellRound, count_concurrent, validate, without_auto
from al_ray.apps.grid.runner import run_grid as run_cells
from al_ray.apps.grid.spec import Axes, Cell, GridConfig
from al_ray.apps.grid.summary import markdown, table, unfinished
from al_ray.apps.reporting.run_records import Run as RunRecord
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.progress import OnProgress, no_progress
from al_ray.core.text_table import format_columns
from al_ray.running.run import RunSpec
from al_ray.runs.run_state import last_round
from al_ray.storage.uri import StoragePath, storage_path

SCHEDULING, ORACLE = GridConfig(), OracleConfig()


def no_callback(cell: Cell, line: Mapping[str, Any]) -> None:
    """Ignore a complete round."""


@dataclass(frozen=True)
class GridJob:
    """A grid that is defined and not begun: what there is to do, and its run to the end."""

    grid: Grid

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the runs of the grid, in the order in which they are begun."""
        return self.grid.cells

    @property
    def out(self) -> StoragePath:
        """Return the folder of the grid."""
        return self.grid.out

    def checked(self) -> "GridJob":
        """Read the task, raise what a run of the grid would, and replace the options that are chosen by the task."""
        return GridJob(without_auto(self.grid, validate(self.grid)))

    def room(self) -> tuple[int, int]:
        """Return how many runs have room at a time on the cluster, and the number of actors of each."""
        return count_concurrent(self.grid), len(self.grid.bundles)

    def table(self) -> str:
        """Format a row for each run: its labels, and how many of its trainings are complete."""
        cells, folder = self.cells, GridFolder(self.out)
        rows: list[tuple[str, ...]] = [("run", "labels", "trainings", "done", "after")]
        labels, trainings, complete, all_stated = 0, 0, 0, ""
        for cell in cells:
            total, done, number = len(cell.config.batches), last_round(folder.run(cell)), f"{cell.labels:,}"
            trainings, complete = trainings + total, complete + done
            if STRATEGIES[cell.config.strategy].takes_all_stated:
                # Only the task knows how many these are.
                number, all_stated = "all stated", " and all stated"
            else:
                labels += cell.labels
            rows.append((cell.name, number, str(total), str(done), cell.after or "-"))
        rows.append((f"{len(cells)} runs", f"{labels:,}{all_stated}", str(trainings), str(complete), ""))
        return format_columns(rows)

    def run(self, on_progress: OnProgress = no_progress, on_round: OnCellRound = no_callback) -> list[RunRecord]:
        """Run what is not complete, write summary.md and summary.parquet, and return the record of every run."""
        records, folder = run_cells(self.grid, on_progress, on_round), GridFolder(self.out)
        folder.write_summary(records, markdown(self.cells, records, sessions_of(folder)))
        return records

    def result_lines(self, records: list[RunRecord]) -> Iterator[str]:
        """Yield the table of results, a line for each run that is not complete, and one for each session."""
        yield format_columns(table(self.cells, records).lines)
        yield from unfinished(self.cells, records)
        yield from sessions_of(GridFolder(self.out))


def run_grid(
    config: RunConfig,
    axes: Axes,
    out: str | StoragePath,
    *,
    cluster: ClusterConfig = CLUSTER,
    scheduling: GridConfig = SCHEDULING,
    on_round: OnCellRound = no_callback,
    on_progress: OnProgress = no_progress,
) -> list[RunRecord]:
    """Run every combination of the axes that is not complete in the folder `out`; return the record of every run.

    config: the options that all runs have in common. on_round receives a cell of the grid and the metrics of each of
    its rounds. A run that fails raises nothing: `trouble` of its record says why it is not complete. Also writes
    summary.md and summary.parquet. Starts a local Ray, unless Ray is running or RAY_ADDRESS names a cluster.

    Examples:
        >>> axes = al_ray.Axes(strategies=("static",), seeds=(0, 1), encoders=("random-bert",))
        >>> config = al_ray.load_run(folder / "run").config
        >>> [(record.name, record.trouble) for record in al_ray.run_grid(config, axes, folder / "grid")]
        [('grid/static-s0', ''), ('grid/static-s1', '')]

    Raises:
        BadOption: if options do not fit together.
        WrongFolder: if `out` holds a grid with other options.
        NoPlacement: if the cluster has no room for even one run.
    """
    return plan_grid(config, axes, out, cluster=cluster, scheduling=scheduling).run(on_progress, on_round)


def plan_grid(
    config: RunConfig,
    axes: Axes,
    out: str | StoragePath,
    *,
    cluster: ClusterConfig = CLUSTER,
    scheduling: GridConfig = SCHEDULING,
    oracle_options: OracleConfig = ORACLE,
    stop: StopConfig = NEVER,
) -> GridJob:
    """Define a grid as `run_grid` does, and start nothing: its table of runs says what there is to do.

    oracle_options: calls of an oracle that is a function. stop: limits that end each run before its last round.

    Examples:
        >>> config = al_ray.load_run(folder / "run").config
        >>> axes = al_ray.Axes(strategies=("static",), seeds=(0, 1), encoders=("random-bert",))
        >>> [cell.name for cell in al_ray.plan_grid(config, axes, folder / "other").cells]
        ['static-s0', 'static-s1']

    Raises:
        BadOption: if a value of an axis does not fit the other options.
    """
    work = RunSpec(config, cluster, oracle_options, stop)
    return GridJob(Grid(axes, work, scheduling, grid_folder(storage_path(str(out)))))


def sessions_of(folder: GridFolder) -> list[str]:
    """Return a line for each session of a grid."""
    return [f"session {number}: {session}" for number, session in enumerate(folder.sessions(), start=1)]
