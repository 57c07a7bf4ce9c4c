"""Figures of an evaluation: calibration, precision-recall curves, and search quality over an option."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from al_ray.apps.reporting.plots.style import PALETTE, files_of, legend_below, panel
from al_ray.apps.reporting.seed_statistics import Spread
from al_ray.metrics.average_precision import Curve
from al_ray.metrics.calibration import Bin

LEAST = 1e-8  # Smaller mean p are drawn at this value.


def reliability_plot(table: Sequence[Bin]) -> dict[str, bytes]:
    """Plot the share of positives over the mean p of each row on log axes, and below it the pairs of each row.

    The diagonal is perfect calibration, the dotted line p = 1/2. A share of 0 is an open mark at the lower edge, with
    the upper end of its interval. Return kind -> content of the files.
    """
    figure = Figure(figsize=(6, 7), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    p, share, low, high = (
        np.array([getattr(row, name) for row in table]) for name in ("mean_p", "share", "share_low", "share_high")
    )
    p, matched = np.maximum(p, LEAST), share > 0
    floor = min([*p, *share[matched], 0.1]) / 10
    y = np.maximum(share, floor)
    ends = np.array([y - np.maximum(low, floor), high - y])
    upper.plot([floor, 1], [floor, 1], color="0.6", linewidth=1, label="calibrated")
    upper.axvline(0.5, color="0.6", linestyle=":", linewidth=1, label="p = 1/2")
    for rows, face, label in ((matched, "C0", "share, 95% interval"), (~matched, "white", "no positive")):
        if rows is matched or rows.any():
            upper.errorbar(p[rows], y[rows], ends[:, rows], fmt="o", mfc=face, color="C0", capsize=2, label=label)
    upper.set(ylabel="share of positives", xscale="log", yscale="log", xlim=(floor, 1.5), ylim=(floor / 1.5, 1.5))
    lower.bar(
        [max(row.low, floor) for row in table],
        [row.weight for row in table],
        [row.high - max(row.low, floor) if row.high > floor else 0.0 for row in table],
        align="edge", color="C0", edgecolor="white",
    )  # fmt: skip
    lower.set(xlabel="predicted p", ylabel="pairs", yscale="log")
    for axes in (upper, lower):
        # A grid line for each decade, however many there are.
        axes.xaxis.set_major_locator(LogLocator(numticks=99))
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
    upper.legend(frameon=False)
    return files_of(figure)


def precision_recall_plot(curves: Mapping[str, Curve]) -> dict[str, bytes]:
    """Plot precision over recall of each named curve, and return kind -> content of the files.

    Precision has a log axis: with rare positives most values are below 0.01.
    """
    figure = Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, curve in curves.items():
        # A step: average precision counts each threshold's precision for the recall that it adds (Eq. 6).
        axes.step(np.r_[0, curve.recall], np.r_[curve.precision[0], curve.precision], where="pre", label=name)
    least = min([float(curve.precision.min()) for curve in curves.values()], default=0.1)
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), yscale="log", ylim=(min(least, 0.5) / 1.5, 1.1))
    axes.grid(color="0.9")
    axes.legend(frameon=False)
    return files_of(figure)


def option_plot(option: str, figures: Mapping[str, Mapping[float, Spread]], split: str) -> dict[str, bytes]:
    """Plot metrics of a search, in percent, over an option's values; bars span several models.

    The x axis is logarithmic if all values are powers of two. Return kind -> content of the files.
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
