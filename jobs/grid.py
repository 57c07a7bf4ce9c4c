"""A grid of runs: python -m jobs.grid --task TASK --out GRID --strategies uncertainty,static --seeds 0,1,2

Every option of jobs.run, with strategies, seeds, encoders and budgets as axes. The same command goes on where an
earlier one stopped, and tries again what failed. Every option: --help.
"""

import sys
from collections.abc import Mapping
from typing import Any

from al_ray.cluster.grid import checked, places_of, run_grid
from al_ray.cluster.tuning import Grid
from al_ray.core.grid import Cell
from al_ray.core.summary import Outcome, markdown, table, unfinished
from al_ray.data.grid_folder import GridFolder
from al_ray.data.run_folder import last_round
from jobs.entry import aligned, job
from jobs.grid_options import parsed
from jobs.progress import Progress


def main() -> None:
    """Read the options, run, and print what came of it; exit code 1 when a run is not complete."""
    asked = parsed(sys.argv[1:])
    grid = asked.grid
    if asked.dry_run:
        checked(grid)
        print(planned(grid))
        places = places_of(grid)
        print(f"{places} runs at a time have room, each with {len(grid.bundles)} actors")
        if not places:
            sys.exit(1)
        return
    if failed(carried_out(grid)):
        sys.exit(1)


def carried_out(grid: Grid) -> list[Outcome]:
    """Run what is not complete, print a line a round and then the table, write the summary; what came of every cell."""
    watch = Progress()

    def hear(cell: Cell, line: Mapping[str, Any]) -> None:
        watch.close()
        print(told(cell, line), flush=True)

    outcomes, folder = run_grid(grid, watch, hear), GridFolder(grid.out)
    sittings = [f"sitting {number}: {sitting}" for number, sitting in enumerate(folder.sittings(), start=1)]
    folder.write_summary(outcomes, markdown(outcomes, sittings))
    print("\n".join([aligned(table(outcomes)), *unfinished(outcomes), *sittings, f"results: {grid.out}"]))
    return outcomes


def failed(outcomes: list[Outcome]) -> bool:
    """Whether some run is not complete."""
    return any(outcome.standing != "complete" for outcome in outcomes)


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
        stated = cell.config.strategy == "stated"
        labels, every, stand = labels + cell.labels * (not stated), every + trainings, stand + done
        told = "all stated" if stated else f"{cell.labels:,}"
        rows.append((cell.name, told, str(trainings), str(done), cell.after or "-"))
    more = " and all stated" if any(cell.config.strategy == "stated" for cell in cells) else ""
    rows.append((f"{len(cells)} runs", f"{labels:,}{more}", str(every), str(stand), ""))
    return aligned(rows)


if __name__ == "__main__":
    job(main)
