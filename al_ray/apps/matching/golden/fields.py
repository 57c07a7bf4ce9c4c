"""The fields of golden records: text columns, and further columns of the tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.golden.rules import EVERY, FieldRule, GoldenRules
from al_ray.apps.matching.golden.times import TimeColumns
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.pairs import Rows
from al_ray.core.task import Task
from al_ray.datasets.tables.options import column_names

FROM, BY = "_from", "_by"
"""What is added to the name of a field: the id of the record with its value, and the rule or person that chose it."""
FROM_TABLE = "_from_table"
CLUSTER, RECORDS = "cluster", "records"


@dataclass(frozen=True)
class GoldenField:
    """A field of golden records and its rule.

    left, right: place of the text column among those of a table, None if the table has no such text column. A further
    column has no places.
    """

    name: str
    rule: FieldRule
    left: int | None = None
    right: int | None = None

    @property
    def is_text(self) -> bool:
        """Return whether the field is a text column."""
        return self.left is not None or self.right is not None


@dataclass(frozen=True)
class GoldenPlan:
    """How golden records are made: their fields, and how the columns of dates are read."""

    fields: tuple[GoldenField, ...]
    times: TimeColumns

    @classmethod
    def of(cls, words: str, task: Task, table: Mapping[str, Any]) -> "GoldenPlan":
        """Return the plan of rules as `golden` has them.

        table: options by which the tables of the task were read. BadOption for rules that do not fit to them.
        """
        rules = GoldenRules.parse(words)
        fields = tuple(_fields(rules, task, table))
        _check_names(words, fields, task.symmetric)
        return cls(fields, TimeColumns.of(Nodes(task), rules.time_columns))

    def cells(self, nodes: Nodes, members: Rows) -> list[list[str]]:
        """Return of each field the cells (n,) of (n,) nodes, "" for an empty one."""
        texts, is_left = nodes.text_cells(members), nodes.are_left(members).tolist()

        def of_field(field: GoldenField) -> list[str]:
            if not field.is_text:
                return nodes.column_at(field.name, members)
            places = [field.left if left else field.right for left in is_left]
            return ["" if place is None else cells[place] for place, cells in zip(places, texts, strict=True)]

        return [of_field(field) for field in self.fields]

    @property
    def record(self) -> dict[str, str]:
        """Return the rule of each field, as it is given."""
        return {field.name: str(field.rule) for field in self.fields}


def text_columns(table: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the text columns of the left table, by whose names fields are called."""
    return column_names("`text_columns`", table["text_columns"])


def field_columns(name: str, symmetric: bool) -> list[str]:
    """Return the columns that golden.csv has of a field."""
    return [name, name + FROM, *([] if symmetric else [name + FROM_TABLE]), name + BY]


def _fields(rules: GoldenRules, task: Task, table: Mapping[str, Any]) -> Iterator[GoldenField]:
    places = {name: (left, right) for name, left, right in _text_places(task, table)}
    every = rules.fields.get(EVERY)
    if every is not None:
        for name, at in places.items():
            yield GoldenField(name, rules.fields.get(name, every), *at)
    for name, rule in rules.fields.items():
        if name in places and every is None:
            yield GoldenField(name, rule, *places[name])
        elif name not in places and name != EVERY:
            yield GoldenField(name, rule)


def _text_places(task: Task, table: Mapping[str, Any]) -> list[tuple[str, int | None, int | None]]:
    """Return the text columns of both tables, each with its place in each of them.

    Columns of two tables are one by their names if all names are equal, else by their places if they are as many.
    """
    left = text_columns(table)
    given = table.get("right_text_columns")
    right = left if given is None else column_names("`right_text_columns`", given)
    if task.symmetric or set(left) == set(right):
        return [(name, at, right.index(name)) for at, name in enumerate(left)]
    if len(left) == len(right):
        return [(name, at, at) for at, name in enumerate(left)]
    own = [(name, at, right.index(name) if name in right else None) for at, name in enumerate(left)]
    return [*own, *((name, None, at) for at, name in enumerate(right) if name not in left)]


def _check_names(words: str, fields: Sequence[GoldenField], symmetric: bool) -> None:
    """Raise BadOption if two columns of the file would have one name."""
    seen = {CLUSTER, RECORDS}
    for field in fields:
        for name in field_columns(field.name, symmetric):
            if name in seen:
                raise BadOption(
                    f"{option('golden', words)}: the file of golden records would have two columns {name!r}; rename "
                    f"the column {field.name!r} of the table, or leave it out"
                )
            seen.add(name)
