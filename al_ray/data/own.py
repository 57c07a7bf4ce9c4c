"""A user's own texts and labels -> a task: one collection or two with labels beside, or one file of labelled pairs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Pairs, as_pairs
from al_ray.core.task import SPLITS, Task
from al_ray.data.clusters import Numbers, Shares
from al_ray.data.own_options import OwnTexts, named
from al_ray.data.rows import Report
from al_ray.data.sheet import Cells, Faults, Sheet, compute, shown, whether
from al_ray.data.sides import Side, Taken, as_ids, distinct, told, with_ids, with_texts
from al_ray.data.stated import UNLABELLED, Stated, homes_dealt, homes_named, own_task, stated, whole_space
from al_ray.data.tablefiles import read_sheet


@dataclass(frozen=True)
class OwnReport(Report):
    """What was read, before what was settled and skipped."""

    read: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """The report as a person reads it."""
        yield from self.read
        yield from super().lines()


def read_own(asked: OwnTexts, shares: Shares) -> tuple[Task, OwnReport]:
    """The task of a user's own tables.

    Splits: the texts of one collection are dealt by component over all labels; of two, the left texts by component
    over matches, and every right text is in every split (as in WikiQA), so no stated pair crosses splits.
    """
    asked.check()
    faults = Faults(asked.bad_rows)
    tables = [path for path in (asked.left, asked.right, asked.source) if path is not None]
    take = _collections if asked.left is not None else _labelled_pairs
    taken = take(asked, tables[0], faults)
    symmetric = taken.left is taken.right
    if symmetric and len(taken.left) < 2:
        raise BadFile(f"{tables[0]} holds one text, and a pair needs two; give more")
    space = whole_space(len(taken.left), len(taken.right), symmetric)
    homes = homes_dealt(space, taken.known, shares, asked.seed) if taken.homes is None else taken.homes
    left = taken.left.corpus()
    right = left if symmetric else taken.right.corpus()
    name = " x ".join(path.stem for path in tables)
    task, settled = own_task(name, left, right, taken.known, homes, space, asked.closure)
    return task, OwnReport(tuple(faults.skipped), {**taken.known.settled, **settled}, taken.read)


def _collections(asked: OwnTexts, path: Path, faults: Faults) -> Taken:
    """One table of texts or two, and labels beside them."""
    sheet = _collection(asked, path, asked.id_column, asked.text_columns, faults)
    homes = None
    if asked.split_column is not None:
        sheet, homes = homes_named(sheet, asked.split_column, faults)
    left = right = Side(str(path), sheet.cells["id"], sheet.cells["text"])
    read = list(told(left, asked.max_length))
    if asked.right is not None:
        ids, columns = asked.right_id_column or asked.id_column, asked.right_text_columns or asked.text_columns
        cells = _collection(asked, asked.right, ids, columns, faults).cells
        right = Side(str(asked.right), cells["id"], cells["text"])
        read += told(right, asked.max_length)
    known = UNLABELLED
    if asked.labels is not None:
        known, count = _labels(asked, asked.labels, left, right, faults)
        read.append(f"{asked.labels}: {count:,} rows of labels")
    return Taken(left, right, known, homes, tuple(read))


def _collection(asked: OwnTexts, path: Path, id_column: str | None, text_columns: str, faults: Faults) -> Sheet:
    """The sheet of a table of texts: cells `id`, each once, `text`, and `split` where --left has one."""
    columns = named("--text-columns", text_columns)
    split = asked.split_column if path == asked.left else None
    wanted = [*columns, *(name for name in (id_column, split) if name is not None)]
    sheet = read_sheet(path, wanted, asked.reading, faults)
    numbers = pa.array(sheet.numbers).cast(pa.large_string())
    cells = {
        "id": numbers if id_column is None else as_ids(sheet.cells[id_column]),
        "text": sheet.joined(columns),
        **({} if split is None else {"split": sheet.cells[split]}),
    }
    return with_ids(with_texts(sheet.holding(**cells), "text", columns, faults), id_column, faults)


def _labels(asked: OwnTexts, path: Path, left: Side, right: Side, faults: Faults) -> tuple[Stated, int]:
    """What a table of labels says, and how many rows it has."""
    columns = asked.columns_of_labels
    sheet = read_sheet(path, columns, asked.reading, faults)
    count = len(sheet)
    cells = dict(zip(("left", "right", "label"), (sheet.cells[column] for column in columns), strict=False))
    sheet = sheet.holding(**cells)
    pairs = as_pairs(left.rows(cells["left"]), right.rows(cells["right"]))
    for number, (cell, side) in enumerate((("left", left), ("right", right))):
        unknown = pairs[:, number] < 0
        why = _stranger(sheet.cells[cell], columns[number], side, asked.id_column is None)
        sheet, pairs = sheet.sifted(unknown, why, faults), pairs[~unknown]
    if left is right:
        itself, ids = pairs[:, 0] == pairs[:, 1], sheet.cells["left"]
        sheet = sheet.sifted(itself, lambda row: f"it pairs {shown(ids, row)} with itself", faults)
        pairs = pairs[~itself]
    space = whole_space(len(left), len(right), left is right)
    return stated(sheet, pairs, space, faults), count


def _stranger(ids: Cells, column: str, side: Side, numbered: bool) -> Callable[[int], str]:
    """Row -> why its id is none of a side's."""
    hint = " (without --id-column its ids are row numbers from 0)" if numbered else ""

    def reason(row: int) -> str:
        if not ids[row].is_valid:
            return f"its {column!r} is empty"
        return f"its {column!r} is {shown(ids, row)}, no id that was read from {side.name}{hint}"

    return reason


def _labelled_pairs(asked: OwnTexts, path: Path, faults: Faults) -> Taken:
    """One table with two texts a row."""
    columns = named("--text-columns", asked.text_columns)
    halves = {"one": columns[: len(columns) // 2], "other": columns[len(columns) // 2 :]}
    kept = {"label": asked.label_column, "split": asked.split_column}
    kept = {cell: column for cell, column in kept.items() if column is not None}
    sheet = read_sheet(path, [*columns, *kept.values()], asked.reading, faults)
    count = len(sheet)
    joined = {cell: sheet.joined(half) for cell, half in halves.items()}
    sheet = sheet.holding(**joined, **{cell: sheet.cells[column] for cell, column in kept.items()})
    for cell, half in halves.items():
        sheet = with_texts(sheet, cell, half, faults)
    if not asked.two_sided:
        same = whether(compute.equal(sheet.cells["one"], sheet.cells["other"]))
        sheet = sheet.sifted(same, lambda _: "it pairs a text with itself", faults)
    row_homes = None
    if asked.split_column is not None:
        sheet, row_homes = homes_named(sheet, asked.split_column, faults)
        sheet, row_homes = _at_one_home(sheet, row_homes, asked.two_sided, faults)
    left, right, pairs = _sides(sheet, path, asked.two_sided)
    homes = None
    if row_homes is not None:
        homes = np.empty(len(left), dtype=np.int64)
        for column in pairs.T if left is right else pairs.T[:1]:
            homes[column] = row_homes
    known = UNLABELLED
    if asked.label_column is not None:
        sheet = sheet.holding(label=sheet.cells["label"])
        known = stated(sheet, pairs, whole_space(len(left), len(right), left is right), faults)
    sides = (left,) if left is right else (left, right)
    read = (line for side in sides for line in told(side, asked.max_length))
    return Taken(left, right, known, homes, (f"{path}: {count:,} rows", *read))


def _sides(sheet: Sheet, path: Path, two_sided: bool) -> tuple[Side, Side, Pairs]:
    """The distinct texts of pairs, numbered in order of first sight, and the pairs (n, 2) as rows of them."""
    one, other = sheet.cells["one"], sheet.cells["other"]
    if not two_sided:
        pairs, texts = distinct(one, other)
        side = Side(f"{path}, both texts", _numbers(texts), texts)
        return side, side, pairs
    (left, left_texts), (right, right_texts) = distinct(one), distinct(other)
    first = Side(f"{path}, first texts", _numbers(left_texts), left_texts)
    second = Side(f"{path}, second texts", _numbers(right_texts), right_texts)
    return first, second, as_pairs(left[:, 0], right[:, 0])


def _numbers(texts: Cells) -> Cells:
    return pa.array(range(len(texts))).cast(pa.large_string())


def _at_one_home(sheet: Sheet, homes: Numbers, two_sided: bool, faults: Faults) -> tuple[Sheet, Numbers]:
    """The rows none of whose (left) texts stands in another split by an earlier row."""
    codes, _ = distinct(*([sheet.cells["one"]] if two_sided else [sheet.cells["one"], sheet.cells["other"]]))
    first = dict[int, int]()
    against = np.full(len(sheet), -1)
    for row, texts in enumerate(codes.tolist()):
        at_odds = [first[text] for text in texts if text in first and homes[first[text]] != homes[row]]
        if at_odds:
            against[row] = at_odds[0]
        else:
            first.update((text, row) for text in texts if text not in first)
    bad = against >= 0

    def reason(row: int) -> str:
        here, there = SPLITS[homes[row]], SPLITS[homes[against[row]]]
        return f"it is of {here}, and a text of it of {there} by {sheet.place(against[row])} (or let --split deal them)"

    return sheet.sifted(bad, reason, faults), homes[~bad]
