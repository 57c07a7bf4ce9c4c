"""A line a method: the mean over the seeds whose run is complete, in a band from their least to their most.

Of a method without a complete run each run is a dashed line of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from al_ray.core.runs import Method, Round, Run, Setting
from al_ray.core.spreads import Spread, spread
from al_ray.pictures.figures import files_of, legend_below, panel, thousands

# Okabe and Ito's colours, which the colour-blind tell apart; on white and on near-black alike.
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
    """A figure: the name of its files, what it is, the same in words for who cannot see it, content by kind."""

    name: str
    title: str
    words: str
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class Plot:
    """What a picture of lines is called, and its axes. by_round: over rounds, else over labels."""

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
    """A line a method that has anything; None where none has. target: a level that others are to reach."""
    figure, axes = panel("round" if plot.by_round else "labels bought", plot.ylabel)
    told: list[str] = []
    for method in methods:
        for runs, name, whole in parts(setting, method):
            points = series(runs, plot, value)
            if points:
                draw(axes, points, method, name, whole)
                told.append(f"{name}: {said(points, plot.percent)}")
    if not told:
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
    over = "round" if plot.by_round else "labels bought"
    words = f"{plot.title}, over {over}. {'; '.join(told)}."
    return Picture(plot.name, plot.title, words, files_of(figure, plot.name, clear=True))


def parts(setting: Setting, method: Method) -> list[tuple[tuple[Run, ...], str, bool]]:
    """The runs of each line of a method, its name, and whether they are complete."""
    whole, name = setting.of(method), setting.name(method)
    if whole:
        return [(whole, name, True)]
    broken = setting.of(method, complete=False)
    return [((run,), f"{name}, seed {run.config.seed}, not complete", False) for run in broken]


def series(runs: Sequence[Run], plot: Plot, value: Value) -> dict[int, Spread]:
    """Where -> the spread of the runs that have the value, wherever all of those have it: no seed leaves on the way."""
    found = [{plot.where(one): known for one in run.rounds if (known := value(one)) is not None} for run in runs]
    found = [points for points in found if points]
    places = sorted(set.intersection(*map(set, found))) if found else []
    spreads = {place: spread([points[place] for points in found]) for place in places}
    return {place: one for place, one in spreads.items() if one is not None}


def draw(axes: Axes, points: Mapping[int, Spread], method: Method, name: str, whole: bool = True) -> None:
    """A line with its band; a point where there is but one."""
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


def said(points: Mapping[int, Spread], percent: bool) -> str:
    """The first and the last point in words."""

    def words(place: int) -> str:
        mean = points[place].mean
        return f"{100 * mean:.1f}%" if percent else f"{mean:,.0f}"

    first, last = min(points), max(points)
    return (
        f"{words(last)} at {last:,}" if first == last else f"{words(first)} at {first:,} to {words(last)} at {last:,}"
    )
