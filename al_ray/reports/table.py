"""A table of words: what Markdown and HTML are made of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from al_ray.core.runs import Method, Run, Setting
from al_ray.core.spreads import Spread, spread

NOTHING = "-"
SPREAD = "Mean ± standard deviation over the seeds whose run is complete."
FIGURES = ("precision_at_recall_20", "average_precision")
HEADS = ("P@R20 %", "AP %")


@dataclass(frozen=True)
class Row:
    """A line of a table. broken: of a run that is not complete."""

    cells: tuple[str, ...]
    broken: bool = False

    @property
    def filled(self) -> int:
        """How many cells there are up to the last that says anything."""
        return max((place for place, cell in enumerate(self.cells, start=1) if cell), default=0)


@dataclass(frozen=True)
class Table:
    """name: for links. words: how many columns from the left are words and not numbers. paper: columns of the paper's.

    notes: sentences under it.
    """

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    words: int = 1
    paper: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Columns:
    """Heads of figures, and after them, in grey, those of the paper."""

    ours: tuple[str, ...]
    papers: tuple[str, ...] = ()

    @property
    def head(self) -> tuple[str, ...]:
        """All of them."""
        return *self.ours, *self.papers

    def grey(self, before: int) -> frozenset[int]:
        """Where the paper's stand, after so many columns."""
        first = before + len(self.ours)
        return frozenset(range(first, first + len(self.papers)))


def by_method(
    setting: Setting, figures: Mapping[Method, tuple[str, ...]], width: int, methods: Sequence[Method] | None = None
) -> tuple[Row, ...]:
    """A row a method, and under it one for each of its runs that is not complete. width: cells after the seeds."""
    rows: list[Row] = []
    for method in setting.methods if methods is None else methods:
        name = setting.name(method)
        cells = figures.get(method, (NOTHING,) * width)
        rows.append(Row((name, seeds(setting, method), *cells), broken=not setting.of(method)))
        for run in setting.of(method, complete=False):
            rows.append(Row((f"{name}, seed {run.config.seed}", f"not averaged: {run.trouble}", *[""] * width), True))
    return tuple(rows)


def seeds(setting: Setting, method: Method) -> str:
    """How many of a method's runs are complete."""
    whole, every = len(setting.of(method)), len(setting.of(method, complete=None))
    return f"{whole}" if whole == every else f"{whole} of {every}"


def left_out(runs: Sequence[Run]) -> tuple[str, ...]:
    """A sentence on the runs that no row can show."""
    broken = [f"{run.name} ({run.trouble})" for run in runs if run.trouble]
    return (f"Not averaged, for they are not complete: {'; '.join(broken)}.",) if broken else ()


def percent(value: float | None) -> str:
    """A share in percent."""
    return NOTHING if value is None else f"{100 * value:.{_digits(value)}f}"


def percents(values: Sequence[float | None]) -> str:
    """Mean and standard deviation of shares, in percent."""
    found = spread([value for value in values if value is not None])
    return _words(found, lambda value, mean: f"{100 * value:.{_digits(mean)}f}")


def counts(values: Sequence[float]) -> str:
    """Mean and standard deviation of numbers of things."""
    return _words(spread(values), lambda value, _: f"{value:,.0f}")


def _digits(share: float) -> int:
    """One more below 1%: a scorer that finds next to nothing is told from one that finds nothing."""
    return 1 if abs(share) >= 0.00995 or not share else 2


def _words(found: Spread | None, words: Callable[[float, float], str]) -> str:
    if found is None:
        return NOTHING
    deviation = f" ± {words(found.deviation, found.mean)}" if found.low < found.high else ""
    return words(found.mean, found.mean) + deviation
