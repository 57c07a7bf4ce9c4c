"""Run a grid: active-learning runs for every combination of strategies, seeds, encoders and budgets."""

from collections.abc import Mapping
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.api.runs import CLUSTER
from al_ray.apps.grid.folder import GridFolder
from al_ray.apps.grid.ray_tune import Grid, grid_folder
from al_ray.apps.grid.runner import OnCellRound
from al_ray.apps.grid.runner import run_grid as run_cells
from al_ray.apps.grid.spec import Axes, Cell, GridConfig
from al_ray.apps.grid.summary import markdown
from al_ray.apps.reporting.run_records import Run as RunRecord
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.progress import OnProgress, no_progress
from al_ray.running.run import RunSpec
from al_ray.storage.uri import StoragePath, storage_path

SCHEDULING = GridConfig()


def no_callback(cell: Cell, line: Mapping[str, Any]) -> None:
    """Ignore a complete round."""


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
    grid = Grid(axes, RunSpec(config, cluster), scheduling, grid_folder(storage_path(str(out))))
    return run_and_summarize(grid, on_progress, on_round)


def run_and_summarize(grid: Grid, on_progress: OnProgress, on_round: OnCellRound) -> list[RunRecord]:
    """Run a grid to its end, write its summary, and return the record of every run."""
    records, folder = run_cells(grid, on_progress, on_round), GridFolder(grid.out)
    folder.write_summary(records, markdown(grid.cells, records, sessions_of(folder)))
    return records


def sessions_of(folder: GridFolder) -> list[str]:
    """Return a line for each session of a grid."""
    return [f"session {number}: {session}" for number, session in enumerate(folder.sessions(), start=1)]
