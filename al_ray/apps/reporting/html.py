"""Pages of one file, without scripts or other files, readable offline, on a phone and in dark mode: report.html."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from al_ray.apps.reporting.plots.learning_curves import Picture
from al_ray.apps.reporting.plots.style import FAINT, INK
from al_ray.apps.reporting.published import PAPER_MODEL
from al_ray.apps.reporting.report import Report

# The colours of the figures in light and in dark mode.
COLOURS = (
    *(("#0072b2", "#5fb2ee"), ("#d55e00", "#ff9149"), ("#009e73", "#34c99d"), ("#cc79a7", "#e6a3c8")),
    *(("#e69f00", "#ffc14a"), ("#56b4e9", "#8fd0f5"), ("#8c8c8c", "#a9abb2"), ("#b8860b", "#d9ad45")),
)
LONGEST = 600  # Maximum number of characters of a text; longer ones are cut.
# Parts of an SVG file that HTML does not allow or need.
OF_A_FILE = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<style type=\"text/css\">.*?</style>", re.S
)
NAMED = re.compile(r"""(\bid="|href="#|url\(#)""")


def page(report: Report) -> str:
    """Return the HTML page of a report. All texts, names and paths are escaped."""
    return render(Path(__file__).with_name("page.html"), report=report, paper=PAPER_MODEL)


def render(template: Path, **values: Any) -> str:
    """Return a page made from a template, which may include the templates of this folder. All values are escaped."""
    return _environment(template.parent).get_template(template.name).render(colours=COLOURS, **values) + "\n"


@cache
def _environment(folder: Path) -> Environment:
    """Return the templates of a folder and of this one, which are compiled once."""
    # Texts of a task are untrusted: only the output of `inline` is inserted as HTML. An undefined name is an error.
    environment = Environment(
        loader=FileSystemLoader([folder, Path(__file__).parent]), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"inline": inline, "short": short}
    return environment


def inline(picture: Picture) -> Markup:
    """Return a figure as inline SVG: with the page's colours, ids unique in the page, and a text alternative."""
    svg = OF_A_FILE.sub("", picture.files["svg"].decode("utf-8")).strip()
    svg = NAMED.sub(rf"\g<1>{picture.name}-", svg).replace(INK, "currentColor").replace(FAINT, "var(--line)")
    for number, (light, _) in enumerate(COLOURS):
        svg = svg.replace(light, f"var(--c{number})")
    tag = Markup('<svg role="img" aria-label="{}" ').format(picture.words)
    return tag + Markup(svg.removeprefix("<svg "))


def short(text: str, most: int = LONGEST) -> str:
    """Return the text, cut at `most` characters."""
    return text if len(text) <= most else text[:most].rstrip() + " ..."
