"""A table of text cells, from which Markdown, HTML and terminal output are made."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from al_ray.active_learning.method import Method
from al_ray.apps.reporting.run_records import Run, Setting
from al_ray.apps.reporting.seed_statistics import spread
from al_ray.metrics.average_precision import Estimate

NOTHING = "-"
SPREAD = "Mean ± standard deviation over the seeds with a complete run."
FIGURES = ("precision_at_recall_20", "average_precision")
HEADS = ("P@R20 %", "AP %")


@dataclass(frozen=True)
class Row:
    """A row of a table. broken: the row of an incomplete run."""

    cells: tuple[str, ...]
    broken: bool = False

    @property
    def filled(self) -> int:
        """Return the number of cells up to the last one that is not empty."""
        return max((place for place, cell in enumerate(self.cells, start=1) if cell), default=0)


@dataclass(frozen=True)
class Table:
    """A table with its title.

    name: anchor for links. notes: sentences below the table. words: number of columns from the left that hold text
    instead of numbers. paper: positions of the columns with the paper's figures.
    """

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    words: int = 1
    paper: frozenset[int] = frozenset()

    def in_words(self, words: Callable[[str], str]) -> "Table":
        """Return the table with each note as `words` returns it."""
        return replace(self, notes=tuple(map(words, self.notes)))

    @property
    def lines(self) -> list[tuple[str, ...]]:
        """Return the head, with the paper's columns named so, and the cells of every row, for a text terminal."""
        head = (f"{name} (paper)" if place in self.paper else name for place, name in enumerate(self.head))
        return [tuple(head), *(row.cells for row in self.rows)]


def last_columns(head: Sequence[str], count: int) -> frozenset[int]:
    """Return the positions of the last columns of a table."""
    return frozenset(range(len(head) - count, len(head)))


def method_table(
    setting: Setting,
    name: str,
    title: str,
    heads: Sequence[str],
    figures: Mapping[Method, Sequence[str]],
    notes: Sequence[str],
    papers: Sequence[str] = (),
) -> Table:
    """Return a table with a row for each method, and below it one for each of its incomplete runs.

    heads, papers: of the columns with our figures, and of those with the paper's after them. figures: cells of both.
    """
    head, rows = ("method", "seeds", *heads, *papers), list[Row]()
    for method, cells in figures.items():
        words = setting.name(method)
        rows.append(Row((words, seeds(setting, method), *cells), broken=not setting.of(method)))
        for run in setting.of(method, complete=False):
            first = f"{words}, seed {run.config.seed}", f"not averaged: {run.trouble}"
            rows.append(Row((*first, *[""] * (len(head) - 2)), broken=True))
    return Table(name, title, head, tuple(rows), tuple(notes), 2, last_columns(head, len(papers)))


def seeds(setting: Setting, method: Method) -> str:
    """Return how many of a method's runs are complete, as "2" or "1 of 2"."""
    complete, every = len(setting.of(method)), len(setting.of(method, complete=None))
    return f"{complete}" if complete == every else f"{complete} of {every}"


def left_out(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return a sentence that names the incomplete runs, or nothing."""
    broken = [f"{run.name} ({run.trouble})" for run in runs if run.trouble]
    return (f"Not averaged, because they are incomplete: {'; '.join(broken)}.",) if broken else ()


def percent(value: float | None) -> str:
    """Return a share in percent."""
    return NOTHING if value is None else f"{100 * value:.{_digits(value)}f}"


def estimate_words(one: Estimate | None) -> str:
    """Return an estimated share in percent with its interval."""
    return NOTHING if one is None else f"{percent(one.value)} ({percent(one.low)} to {percent(one.high)})"


def percents(values: Sequence[float | None]) -> str:
    """Return mean ± standard deviation of shares, in percent; values that are None or not finite are left out."""
    return _words(values, lambda value, mean: f"{100 * value:.{_digits(mean)}f}")


def counts(values: Sequence[float | None]) -> str:
    """Return mean ± standard deviation of numbers, rounded; values that are None or not finite are left out."""
    return _words(values, lambda value, _: f"{value:,.0f}")


def _digits(share: float) -> int:
    """Return the digits of a percentage: 1, or 2 below 1%, so that 0.04% differs from 0."""
    return 1 if abs(share) >= 0.00995 or not share else 2


def _words(values: Sequence[float | None], words: Callable[[float, float], str]) -> str:
    """Return mean ± deviation; the mean alone if all values are equal, and NOTHING without values."""
    statistics = spread([value for value in values if value is not None and math.isfinite(value)])
    if statistics is None:
        return NOTHING
    mean, deviation = words(statistics.mean, statistics.mean), words(statistics.deviation, statistics.mean)
    return f"{mean} ± {deviation}" if statistics.low < statistics.high else mean
