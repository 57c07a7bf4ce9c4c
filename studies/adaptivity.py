"""Where adaptive choice pays: AP of an adaptive strategy less that of static at equal labels, in simulated runs.

A cell is a task, an encoder, shares of its texts, and a number of labels. Its difference is the mean over seeds and
folds, of which each is measured for both strategies. Cells are drawn over the average precision of the untrained
encoder among the first labels, which both strategies have in common and which are bought before all others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from al_ray.apps.reporting.plots.style import PALETTE, files_of, legend_below, panel
from al_ray.apps.reporting.seed_statistics import mean_interval
from al_ray.core.errors import BadFile
from al_ray.core.text_table import format_columns
from al_ray.storage.files import write_pictures
from benchmarks.row_file import Row, read_rows
from studies.adapter_runs import COLUMNS, FIRST_AP, SETTINGS

MARKERS = "osD^vP*X"
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
LEAST = 0.01
"""A difference of AP from which on adaptive choice is said to pay: one point."""
PAIRED = ("seed", "measured")
"""Columns over which the difference of a cell is a mean."""


@dataclass(frozen=True)
class Cell:
    """A point of the map. name: of the file. first: AP of the untrained encoder among the labels of round 1, in [0, 1].

    differences: of AP over all measured pairs, in [0, 1], of each seed and fold.
    """

    name: str
    left: str
    distractors: str
    labels: int
    first: float
    differences: tuple[float, ...]

    @property
    def interval(self) -> tuple[float, float, float]:
        """Return the mean difference and its 95% interval (Student's t; of two numbers their range)."""
        found = mean_interval(self.differences)
        assert found is not None
        return found[0].value, found[0].low, found[0].high

    @property
    def pays(self) -> bool:
        """Return whether the mean difference is at least LEAST."""
        return fmean(self.differences) >= LEAST


@dataclass(frozen=True)
class Adaptivity:
    """Where adaptive choice pays: a map of simulated runs, and how well the first labels predict it."""

    files: tuple[Path, ...]
    """CSV files of `simulate`, one for each task and encoder: runs of --adaptive and of static with the same seeds."""
    adaptive: str = "uncertainty"
    """The adaptive strategy."""
    out: Path | None = None
    """Picture to write, as PATH.png and PATH.svg."""

    def results(self) -> list[Cell]:
        """Read the files, write the picture, and return the cells in the order of the files."""
        cells = [cell for path in self.files for cell in self._cells(path)]
        if self.out is not None:
            write_pictures(self.out, draw(cells, self.adaptive))
        return cells

    def _cells(self, path: Path) -> Iterator[Cell]:
        """Yield the cells of a file; BadFile without a run of both strategies."""
        fixed = [name for name in SETTINGS if name not in ("strategy", *PAIRED)]
        runs: dict[tuple[str, ...], dict[tuple[str, ...], Row]] = {}
        for row in read_rows(path, COLUMNS):
            key = (row["strategy"], *(row[name] for name in PAIRED), row["round"])
            runs.setdefault(tuple(row[name] for name in fixed), {})[key] = row
        found = False
        for rows in runs.values():
            # In round 1 all strategies have the same labels.
            rounds = sorted({int(key[-1]) for key in rows if int(key[-1]) > 1})
            for number in rounds:
                cell = self._cell(path.stem, rows, number)
                if cell is not None:
                    found = True
                    yield cell
        if not found:
            raise BadFile(
                f"{path} has no runs of {self.adaptive} and static with the same seeds; run simulate with both"
            )

    def _cell(self, name: str, rows: Mapping[tuple[str, ...], Row], number: int) -> Cell | None:
        """Return the cell of a round; None without a seed and fold that both strategies have."""
        pairs = sorted({key[1:-1] for key in rows if key[0] == self.adaptive})
        both = [
            tuple(rows.get((strategy, *pair, str(number))) for strategy in (self.adaptive, "static")) for pair in pairs
        ]
        compared = [(one, other) for one, other in both if one is not None and other is not None]
        if not compared:
            return None
        # Every row after round 0 has it; where it is empty, the first labels are all matches or all non-matches.
        first = fmean(float(one[FIRST_AP] or one["found"] != "0") for one, _ in compared)
        differences = tuple(float(one["ap"]) - float(other["ap"]) for one, other in compared)
        row = compared[0][0]
        return Cell(name, row["left"], row["distractors"], int(row["labels"]), first, differences)


def draw(cells: Sequence[Cell], adaptive: str) -> dict[str, bytes]:
    """Plot the differences in points over AP among the first labels, on a log axis: kind -> content.

    A cell is a large mark at its mean, with a small one for each seed and fold; the dashed line is the rule.
    """
    xlabel = "AP of the untrained encoder among the first labels, %"
    figure, axes = panel(xlabel, f"AP: {adaptive} less static, points")
    axes.axhline(0, color="0.5", linewidth=1)
    axes.axvline(100 * best_limit(cells), color="0.5", linewidth=1, linestyle="--")
    for place, name in enumerate(dict.fromkeys(cell.name for cell in cells)):
        own = [cell for cell in cells if cell.name == name]
        marker, color = MARKERS[place % len(MARKERS)], PALETTE[place % len(PALETTE)]
        first = first_of(own)
        each = [(x, 100 * value) for x, cell in zip(first, own, strict=True) for value in cell.differences]
        axes.plot(*zip(*each, strict=True), marker, color=color, markersize=2.5, alpha=0.5)
        axes.plot(first, [100 * cell.interval[0] for cell in own], marker, color=color, markersize=7, label=name)
    axes.set_xscale("log")
    axes.set_xticks(TICKS, labels=[f"{tick:g}" for tick in TICKS])
    axes.minorticks_off()
    axes.set_xlim(0.8 * min(first_of(cells)), 100)
    legend_below(figure, axes)
    return files_of(figure)


def first_of(cells: Sequence[Cell]) -> list[float]:
    """Return AP among the first labels of each cell in percent, as it is drawn."""
    # 0 has no place on a log axis.
    return [100 * max(cell.first, 1e-3) for cell in cells]


def best_limit(cells: Sequence[Cell]) -> float:
    """Return the AP among first labels below which adaptive choice is said to pay, with the fewest wrong cells.

    Of equal ones the lowest: halfway (geometrically) between two cells, or beyond all.
    """
    first = sorted({max(cell.first, 1e-6) for cell in cells})
    limits = [first[0] / 2, *np.sqrt(np.array(first[:-1]) * np.array(first[1:])).tolist(), 2 * first[-1]]
    return min(limits, key=lambda limit: (wrong(cells, limit), limit))


def wrong(cells: Sequence[Cell], limit: float) -> int:
    """Return the number of cells of which `first < limit` does not tell whether adaptive choice pays."""
    return sum((cell.first < limit) != cell.pays for cell in cells)


def format_map(cells: Sequence[Cell]) -> str:
    """Format a line for each cell, and the rule with what it gets wrong on the cells of each file held back."""
    head = ("file", "left", "distractors", "labels", "AP among first labels", "difference, points", "95%")
    rows: list[tuple[str, ...]] = [head]
    for cell in cells:
        value, low, high = (f"{100 * end:+.1f}" for end in cell.interval)
        first = f"{100 * cell.first:.1f}%"
        rows.append((cell.name, cell.left, cell.distractors, f"{cell.labels:,}", first, value, f"{low} to {high}"))
    limit, lines = best_limit(cells), [format_columns(rows)]
    lines.append(
        f"rule: adaptive choice pays ({100 * LEAST:g} point or more) where AP among the first labels is below "
        f"{100 * limit:.1f}%; wrong in {wrong(cells, limit)} of {len(cells)} cells"
    )
    names = list(dict.fromkeys(cell.name for cell in cells))
    for name in names if len(names) > 1 else ():
        own, others = ([cell for cell in cells if (cell.name == name) == same] for same in (True, False))
        held = best_limit(others)
        lines.append(
            f"{name} held back: the others give {100 * held:.1f}%; wrong in {wrong(own, held)} of {len(own)} cells, "
            f"of which {sum(cell.pays for cell in own)} pay"
        )
    return "\n".join(lines)
