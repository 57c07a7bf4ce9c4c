"""The picture of README.md: AP by labels of the matcher and of others, from figures of docs/benchmarks.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from al_ray.apps.reporting.html import COLOURS
from al_ray.apps.reporting.plots.style import FAINT, INK, files_of, legend_below, panels
from al_ray.core.errors import BadFile
from al_ray.storage.files import write_text
from benchmarks.row_file import Row, read_rows

COLUMNS = ("table", "method", "labels", "ap", "deviation", "seeds", "measured")
LOOKS: Mapping[str, tuple[str, int, str]] = {
    "matcher": ("al_ray with a matcher", 0, "o"),
    "paper": ("al_ray, trained encoder", 2, "s"),
    "dedupe": ("dedupe 3.0.3", 1, "^"),
    "splink": ("Splink 4.0.17, no labels", 3, "D"),
    "cosine": ("cosine alone, no labels", 6, ""),
}
"""Of each method: its name in the legend, the place of its colour in COLOURS, and its marker; a level has none."""
INKS = {INK: ("ink", "#1b1c20", "#e8e9ed"), FAINT: ("faint", "#d4d6dc", "#3d3f47")}
PAPER = "#ffffff", "#16171b"


@dataclass(frozen=True)
class RecordsPicture:
    """The picture of README.md, from the figures that it shows: AP by labels on tables of records."""

    figures: Path
    """CSV file of figures, as docs/records.csv: AP and its deviation in percent."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE.svg")]
    """Picture to write, an SVG file."""

    def results(self) -> str:
        """Read the figures, write the picture and say so; BadFile for figures that cannot be drawn."""
        write_text(self.out, draw(read_figures(self.figures)))
        return f"wrote {self.out}"


def read_figures(path: Path) -> list[Row]:
    """Return the rows of a file of figures; BadFile if there is none, or one cannot be drawn."""
    rows = read_rows(path, COLUMNS)
    for number, row in enumerate(rows, start=2):
        try:
            fits = row["method"] in LOOKS and int(row["labels"]) >= 0 and 0 <= float(row["ap"]) <= 100
            fits = fits and float(row["deviation"] or 0) >= 0
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise BadFile(f"{path}:{number} is no figure of {', '.join(LOOKS)}; correct it")
    if not rows:
        raise BadFile(f"{path} has no figures; give a file such as docs/records.csv")
    return rows


def draw(rows: list[Row]) -> str:
    """Draw AP over labels, an axes for each table, and return the SVG file, with colours for light and dark mode."""
    tables = list(dict.fromkeys(row["table"] for row in rows))
    figure, every = panels(tables, "labels", "AP over all pairs, %")
    for axes, table in zip(every, tables, strict=True):
        for method, (name, place, marker) in LOOKS.items():
            own = [row for row in rows if (row["table"], row["method"]) == (table, method)]
            colour, values = COLOURS[place][0], [float(row["ap"]) for row in own]
            if not marker and values:
                axes.axhline(values[0], color=colour, linestyle=":", label=name)
            elif values:
                ends = [float(row["deviation"] or 0) for row in own]
                x = [int(row["labels"]) for row in own]
                axes.errorbar(x, values, ends, fmt=f"{marker}-", color=colour, capsize=3, label=name, clip_on=False)
        axes.set(xlim=(0, 1040), ylim=(0, 100))
    # Each table has the same methods but for those that were not measured on it.
    legend_below(figure, max(every, key=lambda axes: len(axes.get_legend_handles_labels()[1])))
    return for_both_modes(files_of(figure, clear=True)["svg"].decode())


def for_both_modes(svg: str) -> str:
    """Return an SVG file whose colours are those of the reader's light or dark mode, on a ground of its own.

    The ground makes it legible where a page is dark and the reader's system is not.
    """
    names = {light: (f"c{place}", light, dark) for place, (light, dark) in enumerate(COLOURS)} | INKS
    for colour, (name, _, _) in names.items():
        svg = svg.replace(colour, f"var(--{name})")
    values = [("paper", *PAPER), *names.values()]
    light, dark = ("; ".join(f"--{name}: {pair[mode]}" for name, *pair in values) for mode in (0, 1))
    style = (
        f"<style>svg {{ {light}; background: var(--paper) }} "
        f"@media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}</style>\n"
    )
    head, tag, body = svg.partition("<defs>")
    return f"{head}{style}{tag}{body}"
