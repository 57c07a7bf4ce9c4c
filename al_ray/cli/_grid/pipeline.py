"""Carry out jobs.grid: what its options mean, its runs, and what is printed of them."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.apps.grid.folder import GridFolder
from al_ray.apps.grid.ray_tune import Grid
from al_ray.apps.grid.runner import count_concurrent, run_grid, validate
from al_ray.apps.grid.spec import Axes, Cell
from al_ray.apps.grid.summary import markdown, table, unfinished
from al_ray.apps.reporting.run_records import Run
from al_ray.cli._grid.options import Options
from al_ray.cli._shared.progress import Progress
from al_ray.cluster.run import RunSpec
from al_ray.core.text_table import format_columns
from al_ray.runs.run_folder import last_round


def carry_out(asked: Options) -> bool:
    """Run, and print what came of it; return whether every run is complete, or with --dry-run whether one has room."""
    grid = grid_of(asked)
    if asked.dry_run:
        validate(grid)
        print(planned(grid))
        places = count_concurrent(grid)
        print(f"{places} runs at a time have room, each with {len(grid.bundles)} actors")
        return places > 0
    return not any(run.trouble for run in carried_out(grid))


def grid_of(asked: Options) -> Grid:
    """What is asked for; places are whole, for trials work in other folders."""
    config = RunConfig(**{f.name: getattr(asked, f.name) for f in fields(RunConfig)})
    axes = Axes(
        asked.strategies or (config.strategy,),
        asked.seeds or (config.seed,),
        asked.encoders or (config.encoder,),
        asked.budgets,
    )
    return Grid(axes, RunSpec(config, asked.cluster, asked.asking, asked.stop), asked.how, asked.out.resolve())


def carried_out(grid: Grid) -> list[Run]:
    """Run what is not complete, print a line a round and then the table, write the summary; return every cell's run."""
    watch = Progress()

    def hear(cell: Cell, line: Mapping[str, Any]) -> None:
        watch.close()
        print(told(cell, line), flush=True)

    runs, cells, folder = run_grid(grid, watch, hear), grid.cells, GridFolder(grid.out)
    sessions = [f"session {number}: {session}" for number, session in enumerate(folder.sessions(), start=1)]
    folder.write_summary(runs, markdown(cells, runs, sessions))
    print(
        "\n".join(
            [format_columns(table(cells, runs).lines), *unfinished(cells, runs), *sessions, f"results: {grid.out}"]
        )
    )
    return runs


def told(cell: Cell, line: Mapping[str, Any]) -> str:
    """A line a round."""
    precision = "-" if line["average_precision"] is None else f"{100 * line['average_precision']:.1f}"
    return (
        f"{cell.name}: round {line['round']} of {len(cell.config.batches)}, {line['labels']:,} labels, "
        f"{line['positives']:,} positives, AP {precision}%, {sum(line['seconds'].values()):.0f} s"
    )


def planned(grid: Grid) -> str:
    """A line a run: what it costs, and how many of its trainings stand already."""
    cells, folder = grid.cells, GridFolder(grid.out)
    rows: list[tuple[str, ...]] = [("run", "labels", "trainings", "done", "after")]
    labels, every, stand = 0, 0, 0
    for cell in cells:
        trainings, done = len(cell.config.batches), last_round(folder.run(cell))
        # How many these are, the task knows alone.
        stated = STRATEGIES[cell.config.strategy].takes_all_stated
        labels, every, stand = labels + cell.labels * (not stated), every + trainings, stand + done
        told = "all stated" if stated else f"{cell.labels:,}"
        rows.append((cell.name, told, str(trainings), str(done), cell.after or "-"))
    more = " and all stated" if any(STRATEGIES[cell.config.strategy].takes_all_stated for cell in cells) else ""
    rows.append((f"{len(cells)} runs", f"{labels:,}{more}", str(every), str(stand), ""))
    return format_columns(rows)
