"""Make a task of a user's own texts and labels: one or two collections with labels, or one file of labelled pairs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.core.labels import UNSURE, YES
from al_ray.core.pairs import Pairs, PairSpace, as_pairs
from al_ray.core.task import SPLITS, Task
from al_ray.datasets.splitting import Numbers, Shares, whole_space
from al_ray.datasets.tables.columns import Cells, TableRows, as_mask, compute
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
    number_distinct_texts,
    require_ids,
    require_texts,
)
from al_ray.datasets.tsv import OR_SKIP, BadRowLog, Report


def read_own(options: OwnTexts, shares: Shares) -> tuple[Task, Report]:
    """Make the task of a user's own tables, and the report.

    Splits keep connected components together: with one collection over all labels, with two over matches of left
    texts, where every right text is in every split (as in WikiQA). So no labelled pair crosses splits.
    """
    options.check()
    faults = BadRowLog(options.bad_rows, OR_SKIP)
    tables = [path for path in (options.left, options.right, options.source) if path is not None]
    take = _collections if options.left is not None else _labelled_pairs
    texts = take(options, tables[0], faults)
    symmetric = texts.left is texts.right
    if symmetric and len(texts.left) < 2:
        raise BadFile(f"{tables[0]} holds one text, and a pair needs two; give more")
    space = whole_space(len(texts.left), len(texts.right), symmetric)
    split_of = deal_splits(space, texts.known, shares, options.seed) if texts.split_of is None else texts.split_of
    left = texts.left.corpus()
    right = left if symmetric else texts.right.corpus()
    name = " x ".join(path.stem for path in tables)
    task, settled = build_task(name, left, right, texts.known, split_of, space, options.closure)
    return task, Report(tuple(faults.skipped), {**texts.known.settled, **settled}, texts.read)


def _collections(options: OwnTexts, path: Path, faults: BadRowLog) -> ParsedTables:
    """Read one or two tables of texts, and the table of labels."""
    sheet = _collection(options, path, options.id_column, options.text_columns, faults)
    split_of = None
    if options.split_column is not None:
        sheet, split_of = read_splits(sheet, options.split_column, faults)
    left = right = SideTexts(str(path), sheet.cells["id"], sheet.cells["text"])
    read = list(describe_texts(left, options.max_length))
    if options.right is not None:
        ids, columns = options.right_id_column or options.id_column, options.right_text_columns or options.text_columns
        cells = _collection(options, options.right, ids, columns, faults).cells
        right = SideTexts(str(options.right), cells["id"], cells["text"])
        read += describe_texts(right, options.max_length)
    known = UNLABELLED
    if options.labels is not None:
        space = whole_space(len(left), len(right), left is right)
        hint = " (without --id-column its ids are row numbers from 0)" if options.id_column is None else ""
        columns, reading = (
            options.columns_of_labels(),
            replace(options.reading, naming="; name its columns with --label-columns"),
        )
        table = read_label_table(options.labels, columns, reading, (left, right), space, faults, hint)
        known = _pair_labels(table, space)
        read.append(f"{options.labels}: {table.rows:,} rows of labels")
    return ParsedTables(left, right, known, split_of, tuple(read))


def _collection(
    options: OwnTexts, path: Path, id_column: str | None, text_columns: str, faults: BadRowLog
) -> TableRows:
    """Read a table of texts: cells `id`, each once, `text`, and `split` if --left has one."""
    columns = column_names("--text-columns", text_columns)
    split = options.split_column if path == options.left else None
    names = [*columns, *(name for name in (id_column, split) if name is not None)]
    sheet = read_table(path, names, options.reading, faults)
    numbers = pa.array(sheet.numbers).cast(pa.large_string())
    cells = {
        "id": numbers if id_column is None else as_ids(sheet.cells[id_column]),
        "text": sheet.join_columns(columns),
        **({} if split is None else {"split": sheet.cells[split]}),
    }
    return require_ids(require_texts(sheet.with_cells(**cells), "text", columns, faults), id_column, faults)


def _pair_labels(table: LabelTable, space: PairSpace) -> PairLabels:
    """Return the pairs labelled yes or no, in order of key; unsure ones stay unlabelled."""
    sure = np.flatnonzero(table.labels != UNSURE)
    order = sure[np.argsort(space.keys(table.pairs[sure]))]
    settled = {
        "labelled pairs taken": len(order),
        "rows without an answer (empty or unsure: their pairs stay unlabelled)": table.empty + table.unsure,
        "rows that repeat a pair": table.repeats,
    }
    return PairLabels(table.pairs[order], table.labels[order] == YES, settled)


def _labelled_pairs(options: OwnTexts, path: Path, faults: BadRowLog) -> ParsedTables:
    """Read one table with two texts in each row."""
    columns = column_names("--text-columns", options.text_columns)
    halves = {"one": columns[: len(columns) // 2], "other": columns[len(columns) // 2 :]}
    others = {"label": options.label_column, "split": options.split_column}
    others = {cell: column for cell, column in others.items() if column is not None}
    sheet = read_table(path, [*columns, *others.values()], options.reading, faults)
    count = len(sheet)
    joined = {cell: sheet.join_columns(half) for cell, half in halves.items()}
    sheet = sheet.with_cells(**joined, **{cell: sheet.cells[column] for cell, column in others.items()})
    for cell, half in halves.items():
        sheet = require_texts(sheet, cell, half, faults)
    if not options.two_sided:
        same = as_mask(compute.equal(sheet.cells["one"], sheet.cells["other"]))
        sheet = sheet.reject(same, lambda _: "it pairs a text with itself", faults)
    row_splits = None
    if options.split_column is not None:
        sheet, row_splits = read_splits(sheet, options.split_column, faults)
        sheet, row_splits = _in_one_split(sheet, row_splits, options.two_sided, faults)
    left, right, pairs = _sides(sheet, path, options.two_sided)
    split_of = None
    if row_splits is not None:
        split_of = np.empty(len(left), dtype=np.int64)
        for column in pairs.T if left is right else pairs.T[:1]:
            split_of[column] = row_splits
    known = UNLABELLED
    if options.label_column is not None:
        space = whole_space(len(left), len(right), left is right)
        known = _pair_labels(label_rows(sheet, pairs, space, faults), space)
    sides = (left,) if left is right else (left, right)
    read = (line for side in sides for line in describe_texts(side, options.max_length))
    return ParsedTables(left, right, known, split_of, (f"{path}: {count:,} rows", *read))


def _sides(sheet: TableRows, path: Path, two_sided: bool) -> tuple[SideTexts, SideTexts, Pairs]:
    """Return the distinct texts of both sides, in order of first occurrence, and the pairs (n, 2) as rows of them."""
    one, other = sheet.cells["one"], sheet.cells["other"]
    if not two_sided:
        pairs, texts = number_distinct_texts(one, other)
        side = SideTexts(f"{path}, both texts", _numbers(texts), texts)
        return side, side, pairs
    (left, left_texts), (right, right_texts) = number_distinct_texts(one), number_distinct_texts(other)
    first = SideTexts(f"{path}, first texts", _numbers(left_texts), left_texts)
    second = SideTexts(f"{path}, second texts", _numbers(right_texts), right_texts)
    return first, second, as_pairs(left[:, 0], right[:, 0])


def _numbers(texts: Cells) -> Cells:
    return pa.array(range(len(texts))).cast(pa.large_string())


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
            f"it is in {split}, but {sheet.place(against[row])} puts a text of it in {other} (or leave it to --split)"
        )

    return sheet.reject(bad, reason, faults), split_of[~bad]
