"""Tables of labels: read labels made elsewhere or corrected, write those of a run."""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from al_ray.core.errors import BadOption
from al_ray.core.labels import OPEN, UNSURE, WORDS, YES, Labelled
from al_ray.core.naming import option
from al_ray.core.pairs import Mask, Pairs, PairSpace, as_pairs
from al_ray.core.scorer import Labels
from al_ray.core.task import Corpus, Task
from al_ray.datasets.strings import as_array
from al_ray.datasets.tables.columns import Cells, TableRows, as_mask, code_words, compute, quote_cell
from al_ray.datasets.tables.pair_labels import MEANINGS
from al_ray.datasets.tables.reader import TableFormat, read_table
from al_ray.datasets.tables.texts import SideTexts
from al_ray.datasets.tsv import BadRowLog
from al_ray.storage.files import in_one_step
from al_ray.storage.formulas import FormulaCells, formula_advice
from al_ray.storage.uri import StoragePath

logger = logging.getLogger(__name__)
# The column order of sentence-transformers: texts, then the label.
PAIR = ("sentence1", "sentence2", "label")
EVERY = ("left_id", "right_id", "answer", "round", "source")
# The code of a label that is not in MEANINGS.
UNREADABLE = OPEN + 1
WRITERS: dict[str, Callable[[pa.Table, IO[bytes]], Any]] = {
    ".parquet": pq.write_table,
    ".csv": pyarrow.csv.write_csv,
    ".jsonl": lambda table, file: file.write(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()).encode()
    ),
}


@dataclass(frozen=True)
class LabelTable:
    """Labels of a table: rows of a sheet, one for each pair, with (n, 2) pairs and (n,) labels NO, YES or UNSURE.

    rows: number of rows in the table; empty, unsure: of those without a label, and with the label unsure; repeats: of
    those that repeat the yes or no of an earlier row.
    """

    sheet: TableRows
    pairs: Pairs
    labels: Labels
    rows: int
    empty: int
    unsure: int
    repeats: int

    @property
    def settled(self) -> dict[str, int]:
        """Return the counts of rows without effect, for a report: a sentence -> number of rows."""
        again = self.repeats + self.unsure - int((self.labels == UNSURE).sum())
        return {"rows without an answer": self.empty, "rows that repeat a pair": again}


def read_task_labels(
    path: Path, columns: Sequence[str], reading: TableFormat, task: Task, faults: BadRowLog, split: str = "train"
) -> LabelTable:
    """Read labels of pairs of a task's split; see `read_label_table`."""
    return read_label_table(path, columns, reading, _sides(task), task.split(split).space, faults)


def task_labels(sheet: TableRows, task: Task, faults: BadRowLog, hint: str) -> LabelTable:
    """Return the labels of rows with the cells left_id, right_id and label; see `read_label_table`."""
    return _labels_of(sheet, EVERY[:2] + PAIR[2:], _sides(task), task.split("train").space, faults, hint)


def read_label_table(
    path: Path,
    columns: Sequence[str],
    reading: TableFormat,
    sides: tuple[SideTexts, SideTexts],
    space: PairSpace,
    faults: BadRowLog,
    hint: str = "",
) -> LabelTable:
    """Read a table of two ids and a label, in the order of its rows; without a third column every row is a match.

    A row with an empty label is left out before its ids are looked up. Bad rows (see `BadRowLog`): an id that its side
    does not have, a pair that `space` does not hold, and those of `label_rows`. hint: ends the line on unknown ids.
    """
    return _labels_of(read_table(path, columns, reading, faults), columns, sides, space, faults, hint)


def _labels_of(
    sheet: TableRows,
    columns: Sequence[str],
    sides: tuple[SideTexts, SideTexts],
    space: PairSpace,
    faults: BadRowLog,
    hint: str = "",
) -> LabelTable:
    names = dict(zip(("left", "right", "label"), columns, strict=False))
    sheet = sheet.with_cells(**{cell: sheet.cells[column] for cell, column in names.items()})
    rows, labelled = len(sheet), ~_unlabelled(sheet)
    sheet = sheet.filter(labelled)
    pairs = as_pairs(*(side.rows(sheet.cells[cell]) for side, cell in zip(sides, ("left", "right"), strict=True)))
    for number, cell in enumerate(("left", "right")):
        unknown = pairs[:, number] < 0
        reason = _unknown_id(sheet.cells[cell], names[cell], sides[number], hint)
        sheet, pairs = sheet.reject(unknown, reason, faults), pairs[~unknown]
    outside, ids, itself = ~space.holds(pairs), sheet.cells["left"], space.symmetric & (pairs[:, 0] == pairs[:, 1])
    apart = np.zeros(len(pairs), dtype=np.bool_) if space.rule is None else ~space.rule.allows(pairs)

    def reason_outside(row: int) -> str:
        if itself[row]:
            return f"it pairs {quote_cell(ids, row)} with itself"
        if apart[row] and space.rule is not None:
            return f"the task says that its texts cannot match ({space.rule.describe()})"
        return "its pair is not in the split of these labels"

    sheet = sheet.reject(outside, reason_outside, faults)
    table = label_rows(sheet, pairs[~outside], space, faults)
    return replace(table, rows=rows, empty=rows - int(labelled.sum()))


def label_rows(sheet: TableRows, pairs: Pairs, space: PairSpace, faults: BadRowLog) -> LabelTable:
    """Read the labels of (n, 2) pairs, the rows of a sheet; one without a cell `label` says yes to all of them.

    The rule for all tables of labels: a row with an empty label is ignored. Unsure is not a negative: it contradicts
    neither yes nor no, and is ignored if another row of the pair says yes or no. Yes and no of one pair contradict each
    other: the later row is a bad row, and its message names the earlier. A label that cannot be read is a bad row too.
    """
    labels, rows = _label_codes(sheet), len(sheet)
    unread = labels == UNREADABLE
    sheet = sheet.reject(
        unread,
        lambda row: f"its label is {quote_cell(sheet.cells['label'], row)}, not 1 or 0, yes, no or unsure",
        faults,
    )
    labels, pairs = labels[~unread], pairs[~unread]
    answered = labels != OPEN
    sheet, labels, keys = sheet.filter(answered), labels[answered], space.keys(pairs[answered])
    # Rows of yes or no come first, so that the first of them counts for each pair, and an unsure row only without one.
    order = np.argsort(labels == UNSURE, kind="stable")
    _, places, back = np.unique(keys[order], return_index=True, return_inverse=True)
    first = order[places]
    counts = np.empty(len(keys), dtype=np.int64)
    counts[order] = first[back]
    unsure = labels == UNSURE
    odd = ~unsure & (labels != labels[counts])
    sheet.reject(
        odd,
        lambda row: (
            f"its label is {WORDS[labels[row]]}, but {sheet.place(int(counts[row]))} labels the same pair "
            f"{WORDS[int(labels[counts[row]])]}"
        ),
        faults,
    )
    once: Mask = np.isin(np.arange(len(keys)), first)
    repeats = int((~unsure & ~odd & ~once).sum())
    empty = int((~answered).sum())
    return LabelTable(
        sheet.filter(once), space.pairs(keys[once]), labels[once], rows, empty, int(unsure.sum()), repeats
    )


def _unlabelled(sheet: TableRows) -> Mask:
    """Return whether the label of each row (n,) is empty."""
    if "label" not in sheet.cells:
        return np.zeros(len(sheet), dtype=np.bool_)
    return as_mask(compute.is_null(sheet.cells["label"]))


def _label_codes(sheet: TableRows) -> Labels:
    """Return NO, YES or UNSURE for each row (n,); OPEN for an empty cell, UNREADABLE for any other word."""
    if "label" not in sheet.cells:
        return np.full(len(sheet), YES, dtype=np.uint8)
    labels = code_words(sheet.cells["label"], MEANINGS, UNREADABLE).astype(np.uint8)
    labels[_unlabelled(sheet)] = OPEN
    return labels


def _unknown_id(ids: Cells, column: str, side: SideTexts, hint: str) -> Callable[[int], str]:
    """Return the function row -> reason for ids that a side does not have."""

    def reason(row: int) -> str:
        if not ids[row].is_valid:
            return f"its {column!r} is empty"
        return f"its {column!r} is {quote_cell(ids, row)}, which is not an id of {side.name}{hint}"

    return reason


def _sides(task: Task) -> tuple[SideTexts, SideTexts]:
    left = _side("left", task.left)
    return left, left if task.symmetric else _side("right", task.right)


def _side(name: str, corpus: Corpus) -> SideTexts:
    return SideTexts(f"the task's {name} texts", as_array(corpus.ids), as_array(corpus.texts))


def labels_table(labelled: Labelled, task: Task, every: bool) -> pa.Table:
    """Return labels with texts, in the order labelled: sentence1, sentence2, label (1 or 0), without unsure pairs.

    every: add the columns of EVERY, and the unsure pairs, whose label is null.
    """
    chosen = labelled if every else labelled.decided
    label = pa.array(chosen.labels, pa.int64(), mask=chosen.labels == UNSURE)
    columns: dict[str, Any] = dict(zip(PAIR, (*task.texts_of(chosen.pairs), label), strict=True))
    if every:
        words = [WORDS[label] for label in chosen.labels.tolist()]
        values = *task.ids_of(chosen.pairs), words, chosen.rounds, list(chosen.sources)
        columns |= dict(zip(EVERY, values, strict=True))
    return pa.table(columns)


def write_labels(path: StoragePath, table: pa.Table, escape_formulas: bool = False) -> None:
    """Write a table of labels atomically, in the format of the file's extension.

    It logs whether a spreadsheet would run cells of a CSV file as formulas. escape_formulas: put a quote before them;
    BadOption for another format.
    """
    write = WRITERS.get(Path(path.name).suffix.lower())
    if write is None:
        raise BadOption(f"{option('out', path)} ends with none of {' '.join(WRITERS)}; give a name that does")

    cells, is_csv = FormulaCells(escape_formulas), path.name.lower().endswith(".csv")
    if escape_formulas and not is_csv:
        raise BadOption(f"`escape_formulas` goes with a CSV file, and `out` is {path}; leave it out")
    written = cells.checked(table) if is_csv else table

    def write_aside(aside: Path) -> None:
        # A file, not its name: pyarrow takes no name that is not UTF-8.
        with aside.open("wb") as file:
            write(written, file)

    in_one_step(path, write_aside)
    if not escape_formulas and (advice := formula_advice(cells.count, path.name)):
        logger.warning("%s", advice)
