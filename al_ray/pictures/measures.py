"""Pictures of how good a scorer is: reliability, and precision over recall; axes for where matches are rare."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from al_ray.core.calibration import Bin
from al_ray.core.metrics import Curve
from al_ray.core.spreads import Spread
from al_ray.pictures.figures import PALETTE, files_of, legend_below, panel

LEAST = 1e-8  # A mean p below it, of the pairs that are surely no match, is drawn in its place.


def reliability_plot(table: Sequence[Bin]) -> dict[str, bytes]:
    """The share of positives over the mean p of each row, both by decades, and below it the pairs of each row.

    The diagonal is calibrated, the dotted line the boundary. A share of 0 is an open mark at the lower edge, with
    the upper end of its interval. Gives the files' content by kind.
    """
    figure = Figure(figsize=(6, 7), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    p, share, low, high = (
        np.array([getattr(row, name) for row in table]) for name in ("mean_p", "share", "share_low", "share_high")
    )
    p, seen = np.maximum(p, LEAST), share > 0
    floor = min([*p, *share[seen], 0.1]) / 10
    drawn = np.maximum(share, floor)
    ends = np.array([drawn - np.maximum(low, floor), high - drawn])
    upper.plot([floor, 1], [floor, 1], color="0.6", linewidth=1, label="calibrated")
    upper.axvline(0.5, color="0.6", linestyle=":", linewidth=1, label="p = 1/2")
    upper.errorbar(p[seen], drawn[seen], ends[:, seen], fmt="o", color="C0", capsize=2, label="share, 95% interval")
    if not seen.all():
        upper.errorbar(
            p[~seen], drawn[~seen], ends[:, ~seen], fmt="o", mfc="white", color="C0", capsize=2, label="no positive"
        )
    upper.set(ylabel="share of positives", xscale="log", yscale="log", xlim=(floor, 1.5), ylim=(floor / 1.5, 1.5))
    lower.bar(
        [max(row.low, floor) for row in table],
        [row.weight for row in table],
        [row.high - max(row.low, floor) if row.high > floor else 0.0 for row in table],
        align="edge", color="C0", edgecolor="white",
    )  # fmt: skip
    lower.set(xlabel="p that the scorer gives", ylabel="pairs", yscale="log")
    for axes in (upper, lower):
        _decades(axes)
    upper.legend(frameon=False)
    return files_of(figure)


def precision_recall_plot(curves: Mapping[str, Curve]) -> dict[str, bytes]:
    """Precision over recall of each named curve; gives the files' content by kind.

    Precision is by decades: at rare positives all that is below a hundredth would be one line.
    """
    figure = Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, curve in curves.items():
        # Each threshold's precision holds for the recall that it adds, as average precision counts it (Eq. 6).
        axes.step(np.r_[0, curve.recall], np.r_[curve.precision[0], curve.precision], where="pre", label=name)
    least = min([float(curve.precision.min()) for curve in curves.values()], default=0.1)
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), yscale="log", ylim=(min(least, 0.5) / 1.5, 1.1))
    axes.grid(color="0.9")
    axes.legend(frameon=False)
    return files_of(figure)


def option_plot(option: str, figures: Mapping[str, Mapping[float, Spread]], split: str) -> dict[str, bytes]:
    """Figures of a search, percent, over an option's values; bars from the least to the greatest of several models.

    Values that are powers of two lie as far apart as each other. Gives the files' content by kind.
    """
    figure, axes = panel(option, f"{split}, %")
    for (name, points), colour, mark in zip(figures.items(), PALETTE, "^so", strict=False):
        means = [one.mean for one in points.values()]
        ends = [[one.mean - one.low for one in points.values()], [one.high - one.mean for one in points.values()]]
        axes.errorbar(list(points), means, ends, fmt=f"{mark}-", color=colour, capsize=3, label=name)
    values = sorted({value for points in figures.values() for value in points})
    if all(value > 0 and float(value).hex().startswith("0x1.0000000000000p") for value in values):
        axes.set_xscale("log", base=2)
        axes.set_xticks(values, [f"{value:g}" for value in values])
    legend_below(figure, axes)
    return files_of(figure)


def _decades(axes: Axes) -> None:
    """A line for each decade, however many there are."""
    axes.xaxis.set_major_locator(LogLocator(numticks=99))
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
