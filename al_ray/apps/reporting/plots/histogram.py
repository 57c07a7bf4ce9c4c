"""Histograms of scores, stacked by series."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.ticker import FuncFormatter, MaxNLocator

from al_ray.apps.reporting.plots.learning_curves import Picture
from al_ray.apps.reporting.plots.style import INK, PALETTE, files_of, legend_below, panel


@dataclass(frozen=True)
class Axis:
    """Names of both axes of a histogram, and a vertical line at a value with a name; line: None for no line."""

    xlabel: str
    ylabel: str
    line: tuple[str, float] | None = None


def histogram(
    name: str, title: str, axis: Axis, edges: npt.NDArray[np.floating], counts: Mapping[str, npt.NDArray[np.integer]]
) -> Picture:
    """Draw counts (b,) of each series in bins with (b + 1,) edges, the first series at the bottom; SVG alone."""
    figure, axes = panel(axis.xlabel, axis.ylabel)
    bottom = np.zeros(len(edges) - 1, dtype=np.int64)
    descriptions = list[str]()
    for (series, count), colour in zip(counts.items(), PALETTE, strict=False):
        gap = 0.08 * np.diff(edges)
        axes.bar(edges[:-1] + gap / 2, count, np.diff(edges) - gap, bottom, align="edge", color=colour, label=series)
        bottom = bottom + count
        descriptions.append(f"{series}: {int(count.sum()):,}")
    most = int(bottom.argmax())
    words = f"{title}: {'; '.join(descriptions)}. Scores from {edges[0]:g} to {edges[-1]:g}, most of them from "
    words += f"{edges[most]:g} to {edges[most + 1]:g}: {int(bottom[most]):,}."
    if axis.line is not None:
        label, value = axis.line
        axes.axvline(value, color=INK, linewidth=1.2, linestyle="--", label=f"{label} {value:.4g}")
        words += f" {label} at {value:.4g}."
    axes.grid(axis="x", visible=False)
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    legend_below(figure, axes)
    return Picture(name, title, words, files_of(figure, name, clear=True, kinds=("svg",)))
