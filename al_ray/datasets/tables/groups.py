"""The groups of a user's texts by which pairs can match: the columns of --same and --different."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.pair_rule import Codes, GroupCodes, PairRule
from al_ray.core.pairs import PairSpace
from al_ray.datasets.strings import Strings, as_array
from al_ray.datasets.tables.columns import Cells, TableRows, compute, trim_cells
from al_ray.datasets.tables.texts import WHOLE
from al_ray.datasets.tsv import BadRowLog

Conditions = Mapping[str, Sequence[str]]
"""The columns of "same" and of "different", where these are given."""


def group_cells(sheet: TableRows, conditions: Conditions) -> dict[str, Cells]:
    """Return the cells (n,) of the columns of a table, under names that no other cells have."""
    # 2019 and 2019.0 are one value, whichever the file has.
    names = {name for columns in conditions.values() for name in columns}
    return {
        group_cell(name): compute.replace_substring_regex(sheet.cells[name], WHOLE, r"\1") for name in sorted(names)
    }


def require_groups(sheet: TableRows, conditions: Conditions, faults: BadRowLog) -> TableRows:
    """Return the rows that have a value in each column of `same`: without one it is unknown what they can match."""
    for name in conditions.get("same", ()):
        empty = ~sheet.cells[group_cell(name)].is_valid().to_numpy(zero_copy_only=False)
        reason = (
            f"its {name!r} is empty, so it is unknown with which texts it can match ({option('same', name)}): give a "
            "value"
        )
        sheet = sheet.reject(empty, lambda _, reason=reason: reason, faults)
    return sheet


def pair_rule(conditions: Conditions, left: TableRows, right: TableRows) -> PairRule | None:
    """Return the rule of two tables, or of one that is given twice; None without conditions."""
    if not conditions:
        return None
    groups = {}
    for condition, names in conditions.items():
        sides = [[sheet.cells[group_cell(name)] for name in names] for sheet in (left, right)]
        codes, values = _codes(sides[:1] if left is right else sides)
        groups[condition] = GroupCodes(tuple(names), codes[: len(left)], codes[-len(right) :], values)
    if left is right:
        groups = {name: replace(codes, right=codes.left) for name, codes in groups.items()}
    return PairRule(**groups)


def require_pairs(space: PairSpace) -> None:
    """Raise BadOption if no pair of a space can match."""
    if space.rule is not None and not space.total:
        raise BadOption(
            f"{space.rule.describe()}: no two texts can match; name other columns, and look at their values in both "
            "tables: they are compared letter by letter"
        )


def describe_groups(space: PairSpace, all_pairs: int) -> Iterator[str]:
    """Yield the line of the report on how many of all pairs of a space can match; none without a rule."""
    if space.rule is not None:
        share = space.total / max(1, all_pairs)
        yield f"{space.rule.describe()}: {space.total:,} of {all_pairs:,} pairs can match ({share:.2%})"


def stored_cells(codes: GroupCodes, side: Literal["left", "right"]) -> dict[str, Cells]:
    """Return the `group_cells` (n,) of the texts of a side of a task whose values are known."""
    rows, cells = pa.array(codes.left if side == "left" else codes.right), dict[str, Cells]()
    for name, values in zip(codes.columns, codes.values, strict=True):
        cells[group_cell(name)] = trim_cells(as_array(values).take(rows))
    return cells


def _codes(sides: Sequence[Sequence[Cells]]) -> tuple[Codes, list[Strings]]:
    """Return the numbers (n,) of the groups of all sides' rows, one after the other, and the values of the groups.

    An empty cell is its own group, whose value is "".
    """
    columns, joined = [], [pa.concat_arrays(cells) for cells in zip(*sides, strict=True)]
    for cells in joined:
        numbers = cells.dictionary_encode().indices
        empty = ~numbers.is_valid().to_numpy(zero_copy_only=False)
        codes = numbers.fill_null(0).to_numpy().astype(np.int64)
        codes[empty] = codes.max(initial=0) + 1 + np.arange(empty.sum())
        columns.append(codes)
    _, first, numbers = np.unique(np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True)
    values = [Strings.of([cells.take(pa.array(first)).fill_null("")]) for cells in joined]
    return numbers.astype(np.int32), values


def group_cell(name: str) -> str:
    """Return the name of the cells of a column of the rule."""
    return f"group of {name}"
