"""Make a task of a user's own texts and labels: one or two collections with labels, or one file of labelled pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.core.labels import UNSURE, YES
from al_ray.core.pairs import Pairs, PairSpace, Rows, as_pairs
from al_ray.core.task import SPLITS, Corpus, Task
from al_ray.datasets.given_vectors import VECTOR, parse_lists, require_vectors, vectors_of
from al_ray.datasets.splitting import Numbers, Shares, whole_space
from al_ray.datasets.tables.columns import TableRows, as_mask, compute, join_rows, name_files
from al_ray.datasets.tables.format_options import TablePaths, paths_of
from al_ray.datasets.tables.groups import (
    describe_groups,
    group_cell,
    group_cells,
    pair_rule,
    require_groups,
    require_pairs,
)
from al_ray.datasets.tables.label_tables import LabelTable, label_rows, read_label_table
from al_ray.datasets.tables.options import OwnTexts, column_names
from al_ray.datasets.tables.pair_labels import (
    UNLABELLED,
    PairLabels,
    build_task,
    deal_splits,
    read_splits,
)
from al_ray.datasets.tables.reader import read_table
from al_ray.datasets.tables.texts import (
    ParsedTables,
    SideTexts,
    as_ids,
    describe_texts,
    field_lengths,
    fields,
    measure_cells,
    number_distinct_texts,
    require_ids,
    require_texts,
    spell_alike,
)
from al_ray.datasets.tsv import OR_SKIP, BadRowLog, Report
from al_ray.storage.databases.address import TableAddress
from al_ray.storage.databases.table_path import TablePath, table_path, table_stem


def read_own(options: OwnTexts, shares: Shares, more: Sequence[str] = ()) -> tuple[Task, Report]:
    """Make the task of a user's own tables, and the report. more: further columns of --left and --right to read.

    Splits keep connected components together: with one collection over all labels, with two over matches of left
    texts, where every right text is in every split (as in WikiQA). So no labelled pair crosses splits.
    """
    options.check()
    faults = BadRowLog(options.bad_rows, OR_SKIP)
    tables = [paths_of(side) for side in (options.left, options.right, options.source) if side is not None]
    texts = _labelled_pairs(options, faults) if options.left is None else _collections(options, faults, more)
    symmetric = texts.left is texts.right
    if symmetric and len(texts.left) < 2:
        raise BadFile(f"{name_files(tables[0])} holds one text, and a pair needs two; give more")
    every = whole_space(len(texts.left), len(texts.right), symmetric)
    space = replace(every, rule=texts.rule)
    require_pairs(space)
    split_of = deal_splits(space, texts.known, shares, options.seed) if texts.split_of is None else texts.split_of
    left = texts.left.corpus()
    right = left if symmetric else texts.right.corpus()
    name = " x ".join(_name(paths) for paths in tables)
    task, settled = build_task(name, left, right, texts.known, split_of, space, options.closure)
    read = (*texts.read, *describe_groups(space, every.total))
    return task, Report(tuple(faults.skipped), {**texts.known.settled, **settled}, read)


def _name(files: Sequence[TablePath]) -> str:
    """Return the name of a side: that of its file, or of the first one and how many more there are."""
    return table_stem(files[0]) + (f" and {len(files) - 1} more" if len(files) > 1 else "")


def read_corpus(options: OwnTexts, more: Sequence[str] = ()) -> tuple[Corpus, Report]:
    """Read the texts of the table --left alone, without labels, and the report; one text is enough.

    more: further columns to read.
    """
    options.check()
    assert options.left is not None
    faults = BadRowLog(options.bad_rows, OR_SKIP)
    columns = column_names("`text_columns`", options.text_columns)
    sheet = read_collection(options, options.left, options.id_column, columns, faults, more)
    texts = side_texts(sheet, columns, more)
    return texts.corpus(), Report(tuple(faults.skipped), {}, tuple(describe_texts(texts, options.max_length)))


def _collections(options: OwnTexts, faults: BadRowLog, more: Sequence[str]) -> ParsedTables:
    """Read one or two tables of texts, and the table of labels."""
    assert options.left is not None
    columns, conditions = column_names("`text_columns`", options.text_columns), options.columns_of_rule()
    sheet, split_of = read_collection(options, options.left, options.id_column, columns, faults, more), None
    if options.split_column is not None:
        sheet, split_of = read_splits(sheet, options.split_column, faults)
    left, rule = side_texts(sheet, columns, more), pair_rule(conditions, sheet, sheet)
    right = left
    read = list(describe_texts(left, options.max_length))
    if options.right is not None:
        if options.right_text_columns is not None:
            columns = column_names("`right_text_columns`", options.right_text_columns)
        ids = options.right_id_column or options.id_column
        others = read_collection(options, options.right, ids, columns, faults, more)
        right, rule = side_texts(others, columns, more), pair_rule(conditions, sheet, others)
        require_one_dimension(left, right)
        read += describe_texts(right, options.max_length)
    known = UNLABELLED
    if options.labels is not None:
        space = whole_space(len(left), len(right), left is right)
        hint = " (without `id_column` its ids are row numbers from 0)" if options.id_column is None else ""
        columns, reading = (
            options.columns_of_labels(),
            replace(options.reading, naming="; name its columns with `label_columns`"),
        )
        table = read_label_table(table_path(options.labels), columns, reading, (left, right), space, faults, hint)
        known = decided_pairs(table, space)
        read.append(f"{options.labels}: {table.rows:,} rows of labels")
    return ParsedTables(left, right, known, split_of, tuple(read), rule)


def read_collection(
    options: OwnTexts,
    tables: TablePaths,
    id_column: str | None,
    columns: Sequence[str],
    faults: BadRowLog,
    more: Sequence[str] = (),
) -> TableRows:
    """Read a table of texts: cells `id`, each once, `text`, its `measure_cells`, and `split` if --left has one.

    Also its vectors, if they are asked for, its `group_cells`, if only some pairs can match, and those of further
    columns (more). Several files are read one after the other.
    """
    vectors, reading = options.vectors_column, replace(options.reading, vectors=options.vectors_column)
    split, conditions = options.split_column if tables == options.left else None, options.columns_of_rule()
    names = [
        *columns,
        *(name for name in (id_column, split, vectors) if name is not None),
        *sum(conditions.values(), ()),
        *more,
    ]
    parts = list[TableRows]()
    for path in paths_of(tables):
        # The rows of a database are sorted by the first column.
        by_id = sorted(names, key=lambda name: name != id_column) if isinstance(path, TableAddress) else names
        part = read_table(path, by_id, reading, faults)
        numbers = pa.array(part.numbers).cast(pa.large_string())
        cells = {
            "id": numbers if id_column is None else as_ids(part.cells[id_column]),
            "text": part.join_columns(columns),
            **measure_cells(part, columns),
            **group_cells(part, {**conditions, "more": more}),
            **({} if split is None else {"split": part.cells[split]}),
            **({} if vectors is None else {VECTOR: parse_lists(part.cells[vectors])}),
        }
        parts.append(part.with_cells(**cells))
    sheet = require_texts(spell_alike(join_rows(parts)), "text", columns, faults)
    sheet = require_ids(sheet, id_column, faults)
    if vectors is not None:
        sheet = require_vectors(sheet, vectors, faults)
    return require_groups(sheet, conditions, faults)


def require_one_dimension(left: SideTexts, right: SideTexts) -> None:
    """BadFile if both tables have vectors, of different lengths."""
    if left.vectors is None or right.vectors is None or left.vectors.shape[1] == right.vectors.shape[1]:
        return
    lengths = f"{left.vectors.shape[1]:,} numbers in {left.name} and {right.vectors.shape[1]:,} in {right.name}"
    raise BadFile(f"`vectors_column`: vectors have {lengths}; give vectors of the same model in both tables")


def side_texts(sheet: TableRows, columns: Sequence[str], more: Sequence[str] = ()) -> SideTexts:
    """Return the texts of a table that `read_collection` read from these columns, and its further ones."""
    own = fields(columns, field_lengths(sheet, columns))
    further = {name: sheet.cells[group_cell(name)] for name in more}
    vectors = vectors_of(sheet) if VECTOR in sheet.cells else None
    return SideTexts(sheet.name, sheet.cells["id"], sheet.cells["text"], own, further, vectors)


def decided_pairs(table: LabelTable, space: PairSpace) -> PairLabels:
    """Return the pairs labelled yes or no, in order of key; unsure ones stay unlabelled."""
    sure = np.flatnonzero(table.labels != UNSURE)
    order = sure[np.argsort(space.keys(table.pairs[sure]))]
    settled = {
        "labelled pairs taken": len(order),
        "rows without an answer (empty or unsure: their pairs stay unlabelled)": table.empty + table.unsure,
        "rows that repeat a pair": table.repeats,
    }
    return PairLabels(table.pairs[order], table.labels[order] == YES, settled)


def _labelled_pairs(options: OwnTexts, faults: BadRowLog) -> ParsedTables:
    """Read one table with two texts in each row."""
    assert options.source is not None
    path = table_path(options.source)
    columns = column_names("`text_columns`", options.text_columns)
    halves = {"one": columns[: len(columns) // 2], "other": columns[len(columns) // 2 :]}
    others = {"label": options.label_column, "split": options.split_column}
    others = {cell: column for cell, column in others.items() if column is not None}
    sheet = read_table(path, [*columns, *others.values()], options.reading, faults)
    count = len(sheet)
    texts = {cell: sheet.join_columns(half) for cell, half in halves.items()} | measure_cells(sheet, columns)
    sheet = sheet.with_cells(**texts, **{cell: sheet.cells[column] for cell, column in others.items()})
    for cell, half in halves.items():
        sheet = require_texts(sheet, cell, half, faults)
    if not options.two_sided:
        same = as_mask(compute.equal(sheet.cells["one"], sheet.cells["other"]))
        sheet = sheet.reject(same, lambda _: "it pairs a text with itself", faults)
    row_splits = None
    if options.split_column is not None:
        sheet, row_splits = read_splits(sheet, options.split_column, faults)
        sheet, row_splits = _in_one_split(sheet, row_splits, options.two_sided, faults)
    left, right, pairs = _sides(sheet, halves, options.two_sided)
    split_of = None
    if row_splits is not None:
        split_of = np.empty(len(left), dtype=np.int64)
        for column in pairs.T if left is right else pairs.T[:1]:
            split_of[column] = row_splits
    known = UNLABELLED
    if options.label_column is not None:
        space = whole_space(len(left), len(right), left is right)
        known = decided_pairs(label_rows(sheet, pairs, space, faults), space)
    sides = (left,) if left is right else (left, right)
    read = (line for side in sides for line in describe_texts(side, options.max_length))
    return ParsedTables(left, right, known, split_of, (f"{path}: {count:,} rows", *read))


def _sides(
    sheet: TableRows, halves: Mapping[str, Sequence[str]], two_sided: bool
) -> tuple[SideTexts, SideTexts, Pairs]:
    """Return the distinct texts of both sides, in order of first occurrence, and the pairs (n, 2) as rows of them."""
    if not two_sided:
        side, pairs = _distinct_side("both texts", sheet, halves)
        return side, side, pairs
    first, left = _distinct_side("first texts", sheet, {"one": halves["one"]})
    second, right = _distinct_side("second texts", sheet, {"other": halves["other"]})
    return first, second, as_pairs(left[:, 0], right[:, 0])


def _distinct_side(name: str, sheet: TableRows, halves: Mapping[str, Sequence[str]]) -> tuple[SideTexts, Rows]:
    """Return the distinct texts of k halves, and the number (n, k) of each text.

    Fields are named as those of the first half, and a text that occurs again has those of its first occurrence.
    """
    numbers, texts = number_distinct_texts(*(sheet.cells[cell] for cell in halves))
    lengths = np.stack([field_lengths(sheet, columns) for columns in halves.values()], axis=1)
    first = np.unique(numbers.ravel(), return_index=True)[1]
    columns = next(iter(halves.values()))
    own = fields(columns, lengths.reshape(-1, len(columns))[first])
    ids = pa.array(range(len(texts))).cast(pa.large_string())
    return SideTexts(f"{sheet.path}, {name}", ids, texts, own), numbers


def _in_one_split(sheet: TableRows, split_of: Numbers, two_sided: bool, faults: BadRowLog) -> tuple[TableRows, Numbers]:
    """Return the rows whose (left) texts are in no other split by an earlier row, and their splits (n,)."""
    codes, _ = number_distinct_texts(*(sheet.cells[side] for side in (("one",) if two_sided else ("one", "other"))))
    first = dict[int, int]()
    against = np.full(len(sheet), -1)
    for row, texts in enumerate(codes.tolist()):
        in_other = [first[text] for text in texts if text in first and split_of[first[text]] != split_of[row]]
        if in_other:
            against[row] = in_other[0]
        else:
            first.update((text, row) for text in texts if text not in first)
    bad = against >= 0

    def reason(row: int) -> str:
        split, other = SPLITS[split_of[row]], SPLITS[split_of[against[row]]]
        return (
            f"it is in {split}, but {sheet.place(against[row])} puts a text of it in {other} (or leave it to `split`)"
        )

    return sheet.reject(bad, reason, faults), split_of[~bad]
