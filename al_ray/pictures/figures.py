"""How figures look, and how they become files: the same figure has the same bytes."""

import io
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

KINDS = ("png", "svg")
# What a page that is read in the dark puts its own colours for.
INK, FAINT = "#1b1c20", "#d4d6dc"
# Okabe and Ito's colours, which the colour-blind tell apart, in the order in which methods take them; each is 3:1
# on white and on near-black at the least, but for the pale ones, which come last.
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
    """A figure of one axes, small enough to be read on a phone."""
    with rc_context(STYLE):
        figure = Figure(figsize=(5.2, 3.9), layout="constrained")
        axes = figure.subplots()
        axes.set(xlabel=xlabel, ylabel=ylabel)
    return figure, axes


def legend_below(figure: Figure, axes: Axes) -> None:
    """Name what is drawn, under the axes."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        with rc_context(STYLE):
            columns = 1 if max(map(len, labels)) > 28 else 2
            figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=9)


def thousands(axes: Axes) -> None:
    """Labels on the x axis as 16,640, from 0 on."""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlim(left=0)


def files_of(figure: Figure, salt: str = "al_ray", clear: bool = False) -> dict[str, bytes]:
    """The content of a figure's files by kind. salt: names the parts of an SVG. clear: an SVG without a ground."""
    FigureCanvasAgg(figure)
    found: dict[str, bytes] = {}
    with rc_context({"svg.hashsalt": salt}):
        for kind in KINDS:
            file = io.BytesIO()
            svg = kind == "svg"
            figure.savefig(
                file, format=kind, dpi=150, metadata={"Date": None} if svg else None, transparent=svg and clear
            )
            found[kind] = file.getvalue()
    return found
