"""report.html: one file that asks for nothing else, to be read offline, on a phone, in the dark, without any script."""

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from al_ray.core.published import WHOSE
from al_ray.pictures.figures import FAINT, INK
from al_ray.pictures.lines import Picture
from al_ray.reports.report import Report

# The colours of the figures, and what stands for each in the dark.
COLOURS = (
    *(("#0072b2", "#5fb2ee"), ("#d55e00", "#ff9149"), ("#009e73", "#34c99d"), ("#cc79a7", "#e6a3c8")),
    *(("#e69f00", "#ffc14a"), ("#56b4e9", "#8fd0f5"), ("#8c8c8c", "#a9abb2"), ("#b8860b", "#d9ad45")),
)
LONGEST = 600  # Characters of a text that are shown.
# What an SVG file has and a page does not: the prolog, and who made it.
OF_A_FILE = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<style type=\"text/css\">.*?</style>", re.S
)
NAMED = re.compile(r"""(\bid="|href="#|url\(#)""")


def page(made: Report) -> str:
    """The page of a report. Texts, names and paths are whatever somebody wrote: all of them are escaped."""
    # Every undefined name is an error, and nothing is taken for HTML but what `inline` makes.
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"inline": inline, "short": short}
    return environment.get_template("page.html").render(report=made, whose=WHOSE, colours=COLOURS) + "\n"


def inline(picture: Picture) -> Markup:
    """A picture as part of a page: in its colours, with names of its own, and told in words."""
    svg = OF_A_FILE.sub("", picture.files["svg"].decode("utf-8")).strip()
    svg = NAMED.sub(rf"\g<1>{picture.name}-", svg).replace(INK, "currentColor").replace(FAINT, "var(--line)")
    for number, (light, _) in enumerate(COLOURS):
        svg = svg.replace(light, f"var(--c{number})")
    told = Markup('<svg role="img" aria-label="{}" ').format(picture.words)
    return told + Markup(svg.removeprefix("<svg "))


def short(text: str) -> str:
    """A text, cut where it is very long."""
    return text if len(text) <= LONGEST else text[:LONGEST].rstrip() + " ..."
