"""The columns in which people see the texts of pairs: in a sheet, and in the interface of Label Studio.

A text that was joined of several columns of a table has a column for each of them, because a name, a description and a
price are compared one by one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias
from xml.sax.saxutils import quoteattr

from al_ray.core.pairs import Pairs
from al_ray.core.task import Corpus, Task
from al_ray.oracles.answer_files import CHOICE, IDS

Side: TypeAlias = Literal["left", "right"]
VIEW = """<View>
{rows}
  <Choices name="{choice}" toName="{first}" choice="single" showInline="true" required="true">
    <Choice value="yes" hotkey="y"/>
    <Choice value="no" hotkey="n"/>
    <Choice value="unsure" hotkey="u"/>
  </Choices>
</View>
"""


@dataclass(frozen=True)
class SheetColumn:
    """A field of the texts of one side.

    place: of the field in the text. title: its name, "" if the text has no fields. heading: of the column in a sheet.
    variable: its name in a task of Label Studio, of ASCII letters, digits and underscores. tag: that of its element.
    """

    side: Side
    place: int
    title: str
    heading: str
    variable: str
    tag: str


def sheet_columns(task: Task) -> list[SheetColumn]:
    """Return the columns of a task's texts: field by field if both sides have the same fields, else side by side."""
    columns, headings, variables = list[SheetColumn](), set[str](IDS), set[str](IDS)
    sides: tuple[tuple[Side, Corpus], ...] = ("left", task.left), ("right", task.right)
    for side, corpus in sides:
        for place, name in enumerate(corpus.fields.names if corpus.fields else ("",)):
            heading = _unused(f"{side}_{name or 'text'}", headings)
            variable = _unused(re.sub(r"\W", "_", heading, flags=re.ASCII), variables)
            columns.append(SheetColumn(side, place, name, heading, variable, variable if name else side))
    return sorted(columns, key=lambda column: column.place) if _aligned(columns) else columns


def cells_of(task: Task, pairs: Pairs, columns: Sequence[SheetColumn]) -> list[list[str]]:
    """Return the cells of (n, 2) pairs: for each pair those of k columns."""
    sides = zip(task.left.cells(pairs[:, 0]), task.right.cells(pairs[:, 1]), strict=True)
    return [[{"left": left, "right": right}[column.side][column.place] for column in columns] for left, right in sides]


def interface(columns: Sequence[SheetColumn]) -> str:
    """Return the labelling interface of Label Studio, with left and right side by side."""
    left, right = _sides(columns)
    rows = [([one], [other]) for one, other in zip(left, right, strict=True)] if _aligned(columns) else [(left, right)]
    lines: list[str] = []
    for row in rows:
        lines.append('  <View style="display: flex; gap: 2em">')
        lines += [f"    {line}" for side in row for line in _elements(side)]
        lines.append("  </View>")
    return VIEW.format(rows="\n".join(lines), choice=CHOICE, first=left[0].tag)


def _elements(columns: Sequence[SheetColumn]) -> list[str]:
    """Return the elements of the texts of one side, each below its title."""
    lines: list[str] = []
    for column in columns:
        if column.title:
            # Label Studio replaces words that begin with a dollar sign by values of the task.
            lines.append(f'  <Header value={quoteattr(column.title.replace("$", ""))} size="5"/>')
        lines.append(f'  <Text name="{column.tag}" value="${column.variable}"/>')
    titled = any(column.title for column in columns)
    return ['<View style="flex: 1">', *lines, "</View>"] if titled else [line.strip() for line in lines]


def _sides(columns: Sequence[SheetColumn]) -> tuple[list[SheetColumn], list[SheetColumn]]:
    """Return the columns of the left and of the right texts."""
    return [one for one in columns if one.side == "left"], [one for one in columns if one.side == "right"]


def _aligned(columns: Sequence[SheetColumn]) -> bool:
    """Return whether both sides have the same fields."""
    left, right = _sides(columns)
    return [column.title for column in left] == [column.title for column in right]


def _unused(name: str, used: set[str]) -> str:
    """Return the name, with underscores added until it is new whatever its case, and add it to those in use."""
    while name.lower() in used:
        name += "_"
    used.add(name.lower())
    return name
