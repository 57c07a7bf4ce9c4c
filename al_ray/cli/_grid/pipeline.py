"""Run a grid with progress, and print its runs and results."""

from collections.abc import Mapping
from typing import Any

from al_ray.active_learning.strategies import STRATEGIES
from al_ray.api.grids import run_and_summarize, sessions_of
from al_ray.apps.grid.folder import GridFolder
from al_ray.apps.grid.ray_tune import Grid, grid_folder
from al_ray.apps.grid.runner import count_concurrent, validate, without_auto
from al_ray.apps.grid.spec import Axes, Cell
from al_ray.apps.grid.summary import table, unfinished
from al_ray.apps.reporting.run_records import Run
from al_ray.cli._grid.options import GridCommand
from al_ray.cli._shared.called import as_called
from al_ray.cli._shared.progress import Progress
from al_ray.core.text_table import format_columns
from al_ray.running.run import RunSpec
from al_ray.runs.run_folder import last_round


def run_command(options: GridCommand) -> bool:
    """Run and print; return whether every run is complete, or with --dry-run whether there is room for one."""
    grid = grid_of(options)
    if options.dry_run:
        grid = without_auto(grid, validate(grid))
        print(runs_table(grid))
        count = count_concurrent(grid)
        print(f"there is room for {count} runs at a time, each with {len(grid.bundles)} actors")
        return count > 0
    return not any(run.trouble for run in run_and_print(grid))


def grid_of(options: GridCommand) -> Grid:
    """Return the grid that the options define."""
    config = options.run
    strategies, seeds = options.strategies or (config.strategy,), options.seeds or (config.seed,)
    axes = Axes(strategies, seeds, options.encoders or (config.encoder,), options.budgets)
    spec = RunSpec(config, options.cluster, options.oracle_options, options.stop)
    return Grid(axes, spec, options.scheduling, grid_folder(options.out))


def run_and_print(grid: Grid) -> list[Run]:
    """Run what is not complete, print a line for each round and then the results; return the run of every cell."""
    progress = Progress()

    def on_round(cell: Cell, line: Mapping[str, Any]) -> None:
        progress.close()
        print(as_called(format_round(cell, line)), flush=True)

    runs, cells = run_and_summarize(grid, progress, on_round), grid.cells
    print(format_columns(table(cells, runs).lines))
    for line in (*unfinished(cells, runs), *sessions_of(GridFolder(grid.out)), f"results: {grid.out}"):
        print(as_called(line))
    return runs


def format_round(cell: Cell, line: Mapping[str, Any]) -> str:
    """Format the metrics of a round of a run."""
    precision = "-" if line["average_precision"] is None else f"{100 * line['average_precision']:.1f}"
    return (
        f"{cell.name}: round {line['round']} of {len(cell.config.batches)}, {line['labels']:,} labels, "
        f"{line['positives']:,} positives, AP {precision}%, {sum(line['seconds'].values()):.0f} s"
    )


def runs_table(grid: Grid) -> str:
    """Format a row for each run: its labels, and how many of its trainings are complete."""
    cells, folder = grid.cells, GridFolder(grid.out)
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
