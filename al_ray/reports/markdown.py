"""summary.md: the tables of a report, with links to its figures."""

import re
from collections.abc import Sequence

from al_ray.core.published import WHOSE
from al_ray.pictures.lines import Picture
from al_ray.reports.report import Report
from al_ray.reports.table import Table


def markdown(made: Report, figures: str) -> str:
    """All tables of a report. figures: the folder of its pictures, as seen from the file."""
    lines = ["# Report", "", *_table(made.runs)]
    for number, section in enumerate(made.sections, start=1):
        lines += [f"## {number}. {_plain(section.title)}", "", _plain(section.words), ""]
        for chapter in section.chapters:
            if chapter.tables or chapter.pictures:
                lines += [f"### {chapter.title}", ""]
            for table in chapter.tables:
                lines += _table(table)
            for picture in chapter.pictures:
                lines += [f"![{_plain(picture.words)}]({figures}/{picture.name}.svg)", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def page(title: str, tables: Sequence[Table], pictures: Sequence[Picture], figures: str) -> str:
    """Tables and pictures that are no report."""
    lines = [f"# {title}", ""]
    for table in tables:
        lines += _table(table)
    lines += [f"![{_plain(picture.words)}]({figures}/{picture.name}.svg)\n" for picture in pictures]
    return "\n".join(lines).rstrip("\n") + "\n"


def _table(table: Table) -> list[str]:
    head = [f"*{name} (paper)*" if place in table.paper else _plain(name) for place, name in enumerate(table.head)]
    rows = [
        [
            f"*{_plain(cell)}*" if cell.strip() and (place in table.paper or row.broken) else _plain(cell)
            for place, cell in enumerate(row.cells)
        ]
        for row in table.rows
    ]
    rule = ["---" if place < table.words else "---:" for place in range(len(table.head))]
    notes = [*table.notes, *([f"In italics, {WHOSE}."] if table.paper else [])]
    return [f"**{_plain(table.title)}**", "", *map(_line, [head, rule, *rows]), "", *(f"{_plain(' '.join(notes))}\n",)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _plain(words: str) -> str:
    """Words that mean nothing to Markdown or HTML, on one line."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", " ".join(words.split()))
