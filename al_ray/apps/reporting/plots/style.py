"""Style of figures, and their files: the same figure gives the same bytes."""

import io
from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

KINDS = ("png", "svg")
# Colours that the page replaces in dark mode.
INK, FAINT = "#1b1c20", "#d4d6dc"
# Okabe and Ito's palette, which colour-blind readers can tell apart, in the order of use. All but the pale colours,
# which come last, have a contrast of at least 3:1 on white and on near-black.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c", "#b8860b")
STYLE: dict[Any, Any] = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    "grid.color": FAINT,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "font.size": 10,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
}


def panel(xlabel: str, ylabel: str) -> tuple[Figure, Axes]:
    """Return a figure with one axes, small enough to be read on a phone."""
    with rc_context(STYLE):
        figure = Figure(figsize=(5.2, 3.9), layout="constrained")
        axes = figure.subplots()
        axes.set(xlabel=xlabel, ylabel=ylabel)
    return figure, axes


def panels(titles: Sequence[str], xlabel: str, ylabel: str) -> tuple[Figure, list[Axes]]:
    """Return a figure with an axes for each title, side by side, with one y axis."""
    with rc_context(STYLE):
        figure = Figure(figsize=(4.2 * len(titles), 3.9), layout="constrained")
        every = figure.subplots(1, len(titles), sharey=True, squeeze=False)[0].tolist()
        for axes, title in zip(every, titles, strict=True):
            axes.set(xlabel=xlabel, title=title)
        every[0].set_ylabel(ylabel)
    return figure, every


def legend_below(figure: Figure, axes: Axes) -> None:
    """Add a legend below the axes, if anything is labelled."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        with rc_context(STYLE):
            columns = 1 if max(map(len, labels)) > 28 else 2
            figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=9)


def files_of(
    figure: Figure, salt: str = "al_ray", clear: bool = False, kinds: Sequence[str] = KINDS
) -> dict[str, bytes]:
    """Return kind -> content of a figure's files. salt: seeds the ids of an SVG. clear: SVG without background."""
    FigureCanvasAgg(figure)
    files: dict[str, bytes] = {}
    with rc_context({"svg.hashsalt": salt}):
        for kind in kinds:
            file, svg = io.BytesIO(), kind == "svg"
            metadata = {"Date": None} if svg else None
            figure.savefig(file, format=kind, dpi=150, metadata=metadata, transparent=svg and clear)
            files[kind] = file.getvalue()
    return files
