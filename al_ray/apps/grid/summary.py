"""Summary of a grid: means and standard deviations over seeds, incomplete runs, and how long its sessions took."""

from collections.abc import Sequence
from dataclasses import dataclass

from al_ray.active_learning.method import Method
from al_ray.apps.grid.spec import Cell
from al_ray.apps.reporting.run_records import Run, last_evaluations
from al_ray.apps.reporting.tables.markdown_table import markdown_table
from al_ray.apps.reporting.tables.table import SPREAD, Row, Table, counts, percents

HEAD = ("strategy", "encoder", "budget", "runs", "labels", "positives", "AP %", "P@R20 %", "seconds")


def table(cells: Sequence[Cell], runs: Sequence[Run]) -> Table:
    """Return a row for each configuration: mean and standard deviation over the seeds whose run is complete.

    runs: the run of each cell. AP and P@R20 are on dev where that split is evaluated, else on the first split; every
    other split has a column of its AP.
    """
    groups: dict[str, list[tuple[Cell, Run]]] = {}
    for cell, run in zip(cells, runs, strict=True):
        groups.setdefault(cell.group, []).append((cell, run))
    splits = cells[0].config.evaluation.splits if cells else ()
    main = "dev" if "dev" in splits else splits[0] if splits else ""
    others = [split for split in splits if split != main]
    rows: list[Row] = []
    for group in groups.values():
        cell, complete = group[0][0], [run for _, run in group if run.status == "complete"]
        last = [run.rounds[-1] for run in complete]
        cells_of_row = (
            Method(cell.config.strategy).words(),
            cell.config.encoder,
            f"{cell.labels:,}",
            f"{len(complete)} of {len(group)}",
            counts([one.labels for one in last]),
            counts([one.positives for one in last]),
            percents([one.average_precision.value for one in last_evaluations(complete, main)]),
            percents([one.precision_at_recall_20.value for one in last_evaluations(complete, main)]),
            counts([sum(sum(one.seconds.values()) for one in run.rounds) for run in complete]),
            *(percents([one.average_precision.value for one in last_evaluations(complete, split)]) for split in others),
        )
        rows.append(Row(cells_of_row))
    head = (*HEAD, *(f"AP % {split}" for split in others))
    return Table("grid", "Results after the last round", head, tuple(rows), (SPREAD,), words=2)


def unfinished(cells: Sequence[Cell], runs: Sequence[Run]) -> list[str]:
    """Return a line for each run that is not complete, with the reason."""
    return [f"{cell.name}: {run.trouble}" for cell, run in zip(cells, runs, strict=True) if run.trouble]


@dataclass(frozen=True)
class GridSession:
    """Durations of one start of a grid, in seconds.

    wall: from its first actor to its last; shared: the part before the trials; stages: sum over the stages of all
    rounds completed in it. concurrent: runs at a time.
    """

    wall: float
    shared: float
    stages: float
    concurrent: int

    @property
    def overhead(self) -> float | None:
        """Return wall time x concurrent runs / stages - 1; None without a complete round."""
        return self.wall * self.concurrent / self.stages - 1 if self.stages else None

    def __str__(self) -> str:
        runs = "1 run" if self.concurrent == 1 else f"{self.concurrent} runs"
        took = f"{self.wall:,.0f} s with {runs} at a time, {self.shared:,.0f} s of it for shared inputs"
        if self.overhead is None:
            return f"{took}; no round was completed"
        total = self.wall * self.concurrent
        product = f" ({self.concurrent} x {self.wall:,.0f} s)" if self.concurrent > 1 else ""
        return (
            f"{took}; the stages of all rounds took {self.stages:,.0f} of {total:,.0f} s{product}; process starts, "
            f"shared inputs and waiting took the other {total - self.stages:,.0f} s, "
            f"{100 * self.overhead:.1f}% of the time of the stages"
        )


def markdown(cells: Sequence[Cell], runs: Sequence[Run], notes: Sequence[str]) -> str:
    """Return summary.md: the table, the runs that are not complete, and the notes, one to a line."""
    lines = ["# Grid", "", *markdown_table(table(cells, runs))]
    missing = unfinished(cells, runs)
    if missing:
        lines += ["## Runs that are not complete", "", *(f"- {line}" for line in missing), ""]
    return "\n".join([*lines, *(f"- {note}" for note in notes)]) + "\n"
