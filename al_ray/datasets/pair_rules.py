"""Rules of which pairs can match on disk, in a task folder and in the pool folder of a run.

rule.json                                  columns of the conditions: {"same": [...], "different": [...]}
left-groups.parquet right-groups.parquet   same, different: group number of each text (no right one when symmetric)
same-values.parquet different-values...    a column for each column of the condition: the values of each group, by its
                                           number, "" for an empty cell (only in a task folder; for a task that grows)
"""

import hashlib
from dataclasses import replace

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.core.pair_rule import GroupCodes, PairRule
from al_ray.datasets.strings import Strings, as_array
from al_ray.storage.files import make_table, read_json, read_parquet, write_json, write_parquet
from al_ray.storage.uri import StoragePath

RULE = "rule.json"


def write_rule(rule: PairRule, folder: StoragePath, symmetric: bool) -> None:
    """Write a rule, rule.json last."""
    schema = pa.schema([(name, pa.int32()) for name in rule.conditions])
    write_parquet(folder / "left-groups.parquet", make_table(schema, [one.left for one in rule.conditions.values()]))
    if not symmetric:
        right = [one.right for one in rule.conditions.values()]
        write_parquet(folder / "right-groups.parquet", make_table(schema, right))
    write_values(rule, folder)
    write_json(folder / RULE, {name: list(codes.columns) for name, codes in rule.conditions.items()})


def write_values(rule: PairRule, folder: StoragePath) -> None:
    """Write the values of the groups if they are known, unless the folder has them."""
    for name, codes in rule.conditions.items():
        path = folder / f"{name}-values.parquet"
        if codes.values and not path.is_file():
            columns = [pa.array(as_array(values), pa.string()) for values in codes.values]
            write_parquet(path, pa.table(columns, names=list(codes.columns)))


def read_values(rule: PairRule, folder: StoragePath) -> PairRule:
    """Return the rule of a task folder with the values of its groups; BadFile if the folder lacks them."""
    conditions = {}
    for name, codes in rule.conditions.items():
        path = folder / f"{name}-values.parquet"
        fix = "run the command again that prepared the task: it adds the file and changes nothing else"
        table = read_parquet(path, pa.schema([(column, pa.string()) for column in codes.columns]), fix=fix)
        groups = 1 + int(max(codes.left.max(initial=-1), codes.right.max(initial=-1)))
        if len(table) != groups:
            raise BadFile(f"{path} does not have a value for each of {groups:,} groups; {fix}")
        values = [Strings.of(column.cast(pa.large_string()).chunks) for column in table.columns]
        conditions[name] = replace(codes, values=values)
    return replace(rule, **conditions)


def read_rule(
    folder: StoragePath, symmetric: bool, texts: tuple[int, int] | None = None, fix: str = "restore it"
) -> PairRule | None:
    """Read the rule of a folder, None if it has none; BadFile if it is damaged.

    texts: numbers of left and right texts, if they are known. fix: ends the error line.
    """
    path = folder / RULE
    if not path.is_file():
        return None
    conditions = read_json(path, [], fix)
    known = isinstance(conditions, dict) and conditions and set(conditions) <= {"same", "different"}
    if not known or not all(isinstance(columns, list) for columns in conditions.values()):
        raise BadFile(f"{path} holds other conditions than same and different; {fix}")
    schema = pa.schema([(name, pa.int32()) for name in conditions])
    left = _read_groups(folder / "left-groups.parquet", schema, texts and texts[0], fix)
    right = left if symmetric else _read_groups(folder / "right-groups.parquet", schema, texts and texts[1], fix)
    codes = {}
    for name, columns in conditions.items():
        one = left[name].to_numpy()
        codes[name] = GroupCodes(tuple(map(str, columns)), one, one if symmetric else right[name].to_numpy())
    return PairRule(**codes)


def _read_groups(path: StoragePath, schema: pa.Schema, texts: int | None, fix: str) -> pa.Table:
    table = read_parquet(path, schema, fix=fix)
    if any(column.null_count for column in table.columns) or (texts is not None and len(table) != texts):
        raise BadFile(f"{path} does not have a group for each text; {fix}")
    return table


def add_rule(digest: "hashlib._Hash", rule: PairRule) -> None:
    """Add a rule to the digest of a task."""
    for name, codes in rule.conditions.items():
        for side in (codes.left, codes.right):
            digest.update(f"{name} {side.shape}".encode())
            digest.update(np.ascontiguousarray(side, dtype="<i4").tobytes())
