"""Learning curves: a line for each method, the mean over complete runs, in a band from minimum to maximum.

If a method has no complete run, each of its runs is a dashed line.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from al_ray.active_learning.method import Method
from al_ray.apps.reporting.plots.style import files_of, legend_below, panel, thousands
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

    def where(self, one: Round) -> int:
        """Where a round stands on the x axis."""
        return one.number if self.by_round else one.labels


def lines(
    plot: Plot, setting: Setting, methods: Sequence[Method], value: Value, target: float | None = None
) -> Picture | None:
    """Return a figure with a line for each method that has values, or None. target: y of a dotted line."""
    figure, axes = panel(over := "round" if plot.by_round else "labels", plot.ylabel)
    descriptions: list[str] = []
    for method in methods:
        for runs, name, whole in parts(setting, method):
            points = series(runs, plot, value)
            if points:
                draw(axes, points, method, name, whole)
                descriptions.append(f"{name}: {describe(points, plot.percent)}")
    if not descriptions:
        return None
    if target is not None:
        axes.axhline(target, color=LOOKS["static"][0], linewidth=1, linestyle=":", label="final AP of static")
    axes.set_ylim(bottom=0)
    if plot.percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    if plot.by_round:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    else:
        thousands(axes)
    legend_below(figure, axes)
    words = f"{plot.title}, over {over}. {'; '.join(descriptions)}."
    return Picture(plot.name, plot.title, words, files_of(figure, plot.name, clear=True))


def parts(setting: Setting, method: Method) -> list[tuple[tuple[Run, ...], str, bool]]:
    """Return (runs, name, complete) of each line of a method."""
    complete, name = setting.of(method), setting.name(method)
    if complete:
        return [(complete, name, True)]
    broken = setting.of(method, complete=False)
    return [((run,), f"{name}, seed {run.config.seed}, incomplete", False) for run in broken]


def series(runs: Sequence[Run], plot: Plot, value: Value) -> dict[int, Spread]:
    """Return x -> statistics over the runs that have the value, at every x where all of them have it."""
    lines = [{plot.where(one): known for one in run.rounds if (known := value(one)) is not None} for run in runs]
    lines = [points for points in lines if points]
    # A mean over fewer seeds at some x than at others would jump where a seed ends.
    common = sorted(set.intersection(*map(set, lines))) if lines else []
    spreads = {x: spread([points[x] for points in lines]) for x in common}
    return {x: one for x, one in spreads.items() if one is not None}


def draw(axes: Axes, points: Mapping[int, Spread], method: Method, name: str, whole: bool = True) -> None:
    """Draw a line with its band, or a single point with an error bar. whole: the runs are complete."""
    colour, marker = LOOKS.get(method.strategy, OTHER)
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

    def words(place: int) -> str:
        mean = points[place].mean
        return f"{100 * mean:.1f}%" if percent else f"{mean:,.0f}"

    first, last = min(points), max(points)
    return (
        f"{words(last)} at {last:,}" if first == last else f"{words(first)} at {first:,} to {words(last)} at {last:,}"
    )
