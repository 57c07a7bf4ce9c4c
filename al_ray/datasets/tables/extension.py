"""Extend a task by the rows of new tables: new texts, changed texts and labels. Nothing is removed.

Every text of the earlier task keeps its row, its id and its split, so dev and test stay as they are. New texts are in
train: a new text in dev would make figures of two months incomparable, and what is new is what has to be labelled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_type_hints

import numpy as np
import pyarrow as pa

from al_ray.core.config.serialization import fits
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import NO, YES
from al_ray.core.naming import option
from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import Mask, Pairs, PairSpace
from al_ray.core.task import Split, Task
from al_ray.core.text import spelling
from al_ray.datasets.corpus_file import fix_for
from al_ray.datasets.pair_rules import read_values
from al_ray.datasets.splitting import whole_space
from al_ray.datasets.strings import as_array
from al_ray.datasets.tables.columns import TableRows, compute
from al_ray.datasets.tables.format_options import FORMAT, inherited_format, paths_of
from al_ray.datasets.tables.groups import describe_groups, pair_rule, stored_cells
from al_ray.datasets.tables.label_tables import read_label_table
from al_ray.datasets.tables.options import OwnTexts, column_names
from al_ray.datasets.tables.pair_labels import UNLABELLED, PairLabels, settle_labels
from al_ray.datasets.tables.texts import SideTexts, describe_texts, length_cell, spell_as
from al_ray.datasets.tables.to_task import decided_pairs, read_collection, side_texts
from al_ray.datasets.task_folder import read_about, read_task, sealed
from al_ray.datasets.tsv import OR_SKIP, BadRowLog, Report
from al_ray.storage.uri import StoragePath, storage_path

# Options of a task that hold for the tables that extend it.
INHERITED = (
    *("text_columns", "id_column", "right_text_columns", "right_id_column", "label_columns", "same", "different"),
    *("closure", "max_length"),
)
Side = Literal["left", "right"]


@dataclass(frozen=True)
class GrownSide:
    """One side of a task with the rows of a table: (n,) cells as `read_collection` returns them, and its texts.

    The texts of the earlier task come first, each in its row. new, changed: (n,) whether a text is not in the earlier
    task, or is another there by more than its spelling. read: lines of the report.
    """

    sheet: TableRows
    texts: SideTexts
    new: Mask
    changed: Mask
    read: tuple[str, ...] = ()


Table = str | StoragePath | Sequence[str | StoragePath] | None


def extension_of(task: str | StoragePath, left: Table = None, right: Table = None) -> OwnTexts:
    """Return the options that extend a task by the rows of tables, which are read as those of the task were.

    `al_ray.prepare` makes the new task of them; to change an option use `dataclasses.replace`.

    left, right: a file, or several.

    Examples:
        >>> may, june = folder / "may.jsonl", folder / "june.jsonl"
        >>> lines = ['{"id": 1, "text": "one"}', '{"id": 2, "text": "two"}', '{"id": 3, "text": "three"}']
        >>> written = may.write_text(chr(10).join(lines[:2])), june.write_text(lines[2])
        >>> source = al_ray.OwnTexts(left=may, id_column="id", text_columns="text")
        >>> task = al_ray.prepare(source, folder / "tasks" / "may").task
        >>> source = al_ray.extension_of(folder / "tasks" / "may", june)
        >>> len(al_ray.prepare(source, folder / "tasks" / "june").task.left)
        3

    Raises:
        BadOption: if the task was not made of tables of texts with ids.
        WrongFolder: if the folder contains no task.
    """
    folder = storage_path(str(task))
    mapping = _mapping(folder)
    known = {one.name for one in fields(OwnTexts)}
    options = {name: mapping[name] for name in INHERITED if name in mapping and name in known}
    tables = [_table(side) for side in (left, right)]
    form = inherited_format(mapping, [path for side in tables for path in paths_of(side)])
    return OwnTexts(**options, **form, left=tables[0], right=tables[1], extend=folder)


def _table(files: Table) -> StoragePath | tuple[StoragePath, ...] | None:
    paths = paths_of(files)
    return paths[0] if len(paths) == 1 else paths or None


def _mapping(task: StoragePath) -> dict[str, Any]:
    """Return the options by which the tables of a task were read; BadOption if rows cannot be added to it."""
    mapping: dict[str, Any] = read_about(task).get("provenance", {})
    if mapping.get("command") != "prepare pairs" or mapping.get("source") is not None:
        raise BadOption(
            f"{option('extend', task)}: it was not made of tables of texts (`OwnTexts.left`), so new rows cannot be "
            "told from its own; prepare a new task"
        )
    if mapping.get("id_column") is None:
        raise BadOption(
            f"{option('extend', task)}: the ids of its texts are row numbers, so it is unknown which rows are new; "
            "prepare it again with `id_column`, then extend that task"
        )
    _check_option_types(mapping, task)
    return mapping


def _check_option_types(mapping: Mapping[str, Any], task: StoragePath) -> None:
    """Raise BadFile for an option of the tables of a task that has another type."""
    kinds = get_type_hints(OwnTexts) | dict.fromkeys(("left", "right"), str | tuple[str, ...] | None)
    for name in (*INHERITED, *FORMAT, "left", "right"):
        value = mapping.get(name)
        if name in mapping and not fits(tuple(value) if isinstance(value, list) else value, kinds[name]):
            raise BadFile(f"{task / 'task.json'}: {name} is {value!r}, which is no value of it; {fix_for(task)}")


def read_extension(options: OwnTexts) -> tuple[Task, Report]:
    """Make the task that has the texts of --extend and the new rows of the user's tables, and the report."""
    assert options.extend is not None
    options.check()
    mapping, before = _mapping(options.extend), read_task(options.extend)
    _check_fits_task(options, mapping, before)
    rule = None if before.rule is None else read_values(before.rule, options.extend)
    faults = BadRowLog(options.bad_rows, OR_SKIP)
    left = _grow(options, before, "left", rule, faults)
    right = left if before.symmetric else _grow(options, before, "right", rule, faults)
    every = whole_space(len(left.sheet), len(right.sheet), before.symmetric)
    space = replace(every, rule=pair_rule(options.columns_of_rule(), left.sheet, right.sheet))
    parts = {name: _grown_space(split, space, left, right) for name, split in before.splits.items()}
    kept, dropped = _kept_labels(before, left, right)
    given = UNLABELLED
    if options.labels is not None:
        given = _given_labels(options, (left, right), every, list(parts.values()), kept, faults)
    known = PairLabels(np.concatenate([kept.pairs, given.pairs]), np.concatenate([kept.labels, given.labels]), {})
    positives, negatives, settled = settle_labels(known, space, options.closure)
    splits = {
        name: Split(name, part, *(_members(part, pairs) for pairs in (positives, negatives)))
        for name, part in parts.items()
    }
    corpus = left.texts.corpus()
    task = sealed(
        before.name, before.symmetric, corpus, corpus if before.symmetric else right.texts.corpus(), splits, space.rule
    )
    read = (*left.read, *(() if right is left else right.read), *describe_groups(space, every.total))
    counts = {"labels of the earlier task that are dropped, as a text of the pair has changed": dropped}
    return task, Report(tuple(faults.skipped), {**counts, **given.settled, **settled}, read)


def _check_fits_task(options: OwnTexts, mapping: Mapping[str, Any], before: Task) -> None:
    """Raise BadOption for options that do not fit the earlier task."""
    name = option("extend", options.extend)
    if before.symmetric and options.right is not None:
        raise BadOption(f"{name}: it pairs its texts with each other; give the new ones as `left`")
    there = {} if before.rule is None else {name: codes.columns for name, codes in before.rule.conditions.items()}
    if options.columns_of_rule() != there:
        words = "neither `same` nor `different`" if before.rule is None else before.rule.describe()
        raise BadOption(f"{name}: the task has {words}, and cannot get another rule; leave it out")
    earlier = {name: mapping.get(name) for name in ("text_columns", "right_text_columns")}
    for side in ("left", "right"):
        there, columns = _text_columns(replace(options, **earlier), side), _text_columns(options, side)
        if len(there) != len(columns):
            made = f"a text of the task is made of {', '.join(there)}, not of {', '.join(columns)}"
            raise BadOption(f"{name}: {made}; give as many text columns, with the same content")


def _grow(options: OwnTexts, before: Task, side: Side, rule: PairRule | None, faults: BadRowLog) -> GrownSide:
    """Return a side of the task with the rows of its table, if there is one."""
    table, columns = options.left if side == "left" else options.right, _text_columns(options, side)
    stored = _stored(options, before, side, rule)
    rows = len(stored)
    new, changed = np.zeros(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_)
    if table is None:
        return GrownSide(stored, _texts(stored, before, side, columns), new, changed)
    ids = options.id_column if side == "left" else options.right_id_column or options.id_column
    sheet = read_collection(options, table, ids, columns, faults)
    sheet = sheet.with_cells(**{**sheet.cells, "id": spell_as(sheet.cells["id"], stored.cells["id"])})
    at = compute.index_in(sheet.cells["id"], value_set=stored.cells["id"]).fill_null(-1).to_numpy()
    fresh = at < 0
    known = np.flatnonzero(~fresh)
    texts = stored.cells["text"].take(pa.array(at[known])), sheet.cells["text"].take(pa.array(known))
    other = compute.not_equal(*texts).to_numpy(zero_copy_only=False)
    pairs = zip(*(column.filter(pa.array(other)).to_pylist() for column in texts), strict=True)
    changed[at[known[other]]] = [spelling(one) != spelling(now) for one, now in pairs]
    spelled = int(other.sum() - changed.sum())
    # Where a row of the table has the id of a text of the task, its cells take the place of that text's.
    take = np.concatenate([np.arange(rows), rows + np.flatnonzero(fresh)])
    take[at[known]] = rows + known
    cells = {
        name: pa.concat_arrays([cell, sheet.cells[name].cast(cell.type)]).take(pa.array(take))
        for name, cell in stored.cells.items()
    }
    merged = TableRows(Path(sheet.name), cells, np.arange(len(take)), None)
    counts = f"  new: {fresh.sum():,}, changed: {changed.sum():,}, as before: {len(known) - other.sum():,}"
    # Case, white space, 12.0 for 12: their labels still hold.
    counts += f", spelled in another way (their labels are kept): {spelled:,}" if spelled else ""
    read = (*describe_texts(side_texts(sheet, columns), options.max_length), counts)
    new, changed = (np.concatenate([old, np.full(fresh.sum(), one)]) for old, one in ((new, True), (changed, False)))
    return GrownSide(merged, _texts(merged, before, side, columns), new, changed, read)


def _text_columns(options: OwnTexts, side: Side) -> tuple[str, ...]:
    if side == "right" and options.right_text_columns is not None:
        return column_names("`right_text_columns`", options.right_text_columns)
    return column_names("`text_columns`", options.text_columns)


def _stored(options: OwnTexts, before: Task, side: Side, rule: PairRule | None) -> TableRows:
    """Return the texts of a side of the earlier task as rows of a table, with the columns of the new one."""
    corpus, columns = before.left if side == "left" else before.right, _text_columns(options, side)
    texts = as_array(corpus.texts)
    lengths = np.zeros((len(corpus), len(columns)), dtype=np.int64)
    if len(columns) == 1:
        lengths = compute.utf8_length(texts).to_numpy()[:, None]
    elif corpus.fields is not None:
        lengths = corpus.fields.lengths.astype(np.int64)
    cells = {"id": as_array(corpus.ids), "text": texts} | {
        length_cell(name): pa.array(column) for name, column in zip(columns, lengths.T, strict=True)
    }
    for codes in () if rule is None else rule.conditions.values():
        cells |= stored_cells(codes, side)
    return TableRows(Path(str(options.extend)), cells, np.arange(len(corpus)), None)


def _texts(sheet: TableRows, before: Task, side: Side, columns: Sequence[str]) -> SideTexts:
    """Return the texts of a side, with the types of the earlier task; without fields if it has none."""
    texts, earlier = side_texts(sheet, columns), (before.left if side == "left" else before.right).fields
    known = None if texts.fields is None or earlier is None else replace(texts.fields, types=earlier.types)
    return replace(texts, fields=known)


def _grown_space(split: Split, space: PairSpace, left: GrownSide, right: GrownSide) -> PairSpace:
    """Return the pairs of a split of the new task: of the same texts, and in train of the new ones too."""
    rows = split.space.left, split.space.right
    if split.name == "train":
        rows = tuple(
            np.concatenate([old, np.flatnonzero(side.new)]) for old, side in zip(rows, (left, right), strict=True)
        )
    return replace(space, left=rows[0], right=rows[0] if space.symmetric else rows[1])


def _kept_labels(before: Task, left: GrownSide, right: GrownSide) -> tuple[PairLabels, int]:
    """Return the labels of the earlier task, without those of a changed text, and the number of these."""
    splits = before.splits.values()
    stated = [pairs for split in splits for pairs in (split.positives, split.stated_negatives)]
    pairs = np.concatenate(stated)
    labels = np.repeat([True, False] * len(splits), [len(some) for some in stated])
    stale = left.changed[pairs[:, 0]] | right.changed[pairs[:, 1]]
    return PairLabels(pairs[~stale], labels[~stale], {}), int(stale.sum())


def _given_labels(
    options: OwnTexts,
    sides: tuple[GrownSide, GrownSide],
    space: PairSpace,
    parts: Sequence[PairSpace],
    kept: PairLabels,
    faults: BadRowLog,
) -> PairLabels:
    """Return the labels of --labels that the earlier task does not have.

    A label that contradicts one of the task is a bad row. With closure a no to one of its matches is not: the match may
    follow from others, and is counted.
    """
    assert options.labels is not None
    names = [f"{options.extend} or {side.sheet.path}" for side in sides]
    texts = [replace(side.texts, name=name) for side, name in zip(sides, names, strict=True)]
    reading = replace(options.reading, naming="; name its columns with `label_columns`")
    columns = options.columns_of_labels()
    table = read_label_table(options.labels, columns, reading, (texts[0], texts[1]), space, faults)
    keys = space.keys(table.pairs)
    yes, no = (np.isin(keys, space.keys(pairs)) for pairs in (kept.positives, kept.negatives))
    odd = (no & (table.labels == YES)) | (yes & (table.labels == NO) & (not (options.closure and space.symmetric)))
    sheet = table.sheet.reject(
        odd, lambda row: f"{options.extend} has the label {'yes' if yes[row] else 'no'} for this pair", faults
    )
    repeated = (yes & (table.labels == YES)) | (no & (table.labels == NO))
    inside = np.any([replace(part, rule=None).holds(table.pairs) for part in parts], axis=0)
    fresh = inside & ~repeated & ~odd
    taken = decided_pairs(replace(table, pairs=table.pairs[fresh], labels=table.labels[fresh], sheet=sheet), space)
    counts = {
        "labels that the earlier task has too": int(repeated.sum()),
        "labels of pairs that cross splits, which belong to none (new texts are in train)": int((~inside & ~odd).sum()),
    }
    return replace(taken, settled={**taken.settled, **counts})


def _members(space: PairSpace, pairs: Pairs) -> Pairs:
    """Return those of (n, 2) pairs that a space holds, in order of key."""
    inside = pairs[space.holds(pairs)]
    return inside[np.argsort(space.keys(inside))]
