"""Render a table as Markdown."""

import re

from al_ray.apps.reporting.published import PAPER_MODEL
from al_ray.apps.reporting.tables.table import Table


def markdown_table(table: Table) -> list[str]:
    """Return the lines of a table: its title in bold, the cells, and the notes as one paragraph.

    Figures of the paper and rows of incomplete runs are in italics.
    """
    head = [f"*{name} (paper)*" if place in table.paper else escape(name) for place, name in enumerate(table.head)]
    rows = [
        [_cell(cell, italic=place in table.paper or row.broken) for place, cell in enumerate(row.cells)]
        for row in table.rows
    ]
    rule = ["---" if place < table.words else "---:" for place in range(len(table.head))]
    lines = ["| " + " | ".join(cells) + " |" for cells in [head, rule, *rows]]
    notes = [*table.notes, *([f"In italics, {PAPER_MODEL}."] if table.paper else [])]
    return [f"**{escape(table.title)}**", "", *lines, "", f"{escape(' '.join(notes))}\n"]


def escape(text: str) -> str:
    """Return the text on one line, with every character escaped that means something to Markdown or HTML."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", " ".join(text.split()))


def _cell(text: str, italic: bool) -> str:
    return f"*{escape(text)}*" if text.strip() and italic else escape(text)
