"""Learning curves: a line for each method, the mean over complete runs, in a band from minimum to maximum.

If a method has no complete run, each of its runs is a dashed line.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from al_ray.active_learning.method import Method
from al_ray.apps.reporting.plots.style import files_of, legend_below, panel
from al_ray.apps.reporting.run_records import Round, Run, Setting
from al_ray.apps.reporting.seed_statistics import Spread, spread

# Colours of Okabe and Ito's palette (see style.py).
LOOKS = {
    "random": ("#8c8c8c", "X"),
    "stated": ("#e69f00", "D"),
    "static": ("#d55e00", "s"),
    "stratified-match": ("#cc79a7", "v"),
    "stratified-all": ("#b8860b", "P"),
    "adaptive": ("#009e73", "^"),
    "uncertainty": ("#0072b2", "o"),
}
OTHER = ("#56b4e9", "*")
Value = Callable[[Round], float | None]


@dataclass(frozen=True)
class Picture:
    """A figure: name of its files, title, description for readers who cannot see it, and content by file kind."""

    name: str
    title: str
    words: str
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class Plot:
    """Names and axes of a figure of lines. by_round: x is the round, else the number of labels."""

    name: str
    title: str
    ylabel: str
    percent: bool = True
    by_round: bool = False

    def x(self, one: Round) -> int:
        """Return the position of a round on the x axis."""
        return one.number if self.by_round else one.labels

    def scale(self, axes: Axes) -> None:
        """Set limits and formats of both axes."""
        # Without a top, the margin would be a share of the range of the values, and cut the highest marker.
        axes.set_ylim(0, 1.05 * axes.dataLim.y1 if axes.has_data() and axes.dataLim.y1 > 0 else None)
        if self.percent:
            axes.yaxis.set_major_formatter(PercentFormatter(1))
        if self.by_round:
            # With fewer than two ticks allowed, one round would be shown between 1.9 and 2.1.
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            if axes.has_data():
                axes.set_xlim(axes.dataLim.x0 - 0.5, axes.dataLim.x1 + 0.5)
        else:
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.set_xlim(left=0)


@dataclass(frozen=True)
class Level:
    """A dotted line across a figure, at a value that does not depend on the number of labels."""

    name: str
    y: float
    colour: str


class Drawing:
    """A figure with one axes, and a description of each thing that was drawn in it."""

    def __init__(self, xlabel: str, ylabel: str) -> None:
        """Make an empty figure."""
        self.figure, self.axes = panel(xlabel, ylabel)
        self.descriptions: list[str] = []

    def picture(self, name: str, title: str, words: str) -> Picture | None:
        """Return the figure with a legend, described by `words` and the descriptions; None if nothing was drawn."""
        if not self.descriptions:
            return None
        legend_below(self.figure, self.axes)
        words = f"{words}. {'; '.join(self.descriptions)}."
        return Picture(name, title, words, files_of(self.figure, name, clear=True))


def look(method: Method) -> tuple[str, str]:
    """Return the colour and the marker of a method."""
    return LOOKS.get(method.strategy, OTHER)


def lines(
    plot: Plot, setting: Setting, methods: Sequence[Method], value: Value, levels: Sequence[Level] = ()
) -> Picture | None:
    """Return a figure with a line for each method that has values, or None. levels: dotted lines across it."""
    drawing = Drawing(over := "round" if plot.by_round else "labels", plot.ylabel)
    for method in methods:
        for runs, name, whole in parts(setting, method):
            points = series(runs, plot, value)
            if points:
                draw(drawing.axes, points, method, name, whole)
                drawing.descriptions.append(f"{name}: {describe(points, plot.percent)}")
    for level in levels:
        drawing.axes.axhline(level.y, color=level.colour, linewidth=1, linestyle=":", label=level.name)
    plot.scale(drawing.axes)
    return drawing.picture(plot.name, plot.title, f"{plot.title}, over {over}")


def parts(setting: Setting, method: Method) -> list[tuple[tuple[Run, ...], str, bool]]:
    """Return (runs, name, complete) of each line of a method."""
    complete, name = setting.of(method), setting.name(method)
    if complete:
        return [(complete, name, True)]
    broken = setting.of(method, complete=False)
    return [((run,), f"{name}, seed {run.config.seed}, incomplete", False) for run in broken]


def series(runs: Sequence[Run], plot: Plot, value: Value) -> dict[int, Spread]:
    """Return x -> statistics over the runs that have the value, at every x where all of them have it."""
    lines = [{plot.x(one): known for one in run.rounds if (known := value(one)) is not None} for run in runs]
    lines = [points for points in lines if points]
    # A mean over fewer seeds at some x than at others would jump where a seed ends.
    common = sorted(set.intersection(*map(set, lines))) if lines else []
    spreads = {x: spread([points[x] for points in lines]) for x in common}
    return {x: one for x, one in spreads.items() if one is not None}


def draw(axes: Axes, points: Mapping[int, Spread], method: Method, name: str, whole: bool = True) -> None:
    """Draw a line with its band, or a single point with an error bar. whole: the runs are complete."""
    colour, marker = look(method)
    style = ("-" if method.seeding == "retrieval" else "-.") if whole else "--"
    x = list(points)
    means, face = [one.mean for one in points.values()], colour if method.seeding == "retrieval" else "none"
    axes.plot(x, means, color=colour, marker=marker, markerfacecolor=face, linestyle=style, label=name)
    if len(points) > 1:
        low, high = [one.low for one in points.values()], [one.high for one in points.values()]
        axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    else:
        only = points[x[0]]
        axes.errorbar(x, [only.mean], [[only.mean - only.low], [only.high - only.mean]], color=colour, capsize=3)


def describe(points: Mapping[int, Spread], percent: bool) -> str:
    """Return the first and the last point as text."""
    ends = [(x, points[x].mean) for x in sorted({min(points), max(points)})]
    return " to ".join(f"{f'{100 * mean:.1f}%' if percent else f'{mean:,.0f}'} at {x:,}" for x, mean in ends)
