"""Labels that come and go as tables: bought elsewhere, corrected, or those of a run, to take along."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from al_ray.core.errors import BadOption
from al_ray.core.pairs import Mask, Pairs, as_pairs
from al_ray.core.records import NO, OPEN, UNSURE, YES, Labelled
from al_ray.core.scoring import Labels
from al_ray.core.task import Corpus, Task
from al_ray.data.files import in_one_step
from al_ray.data.ledger import WORDS
from al_ray.data.sheet import Faults, Sheet, compute, shown, whether
from al_ray.data.sides import Side
from al_ray.data.stated import MEANINGS
from al_ray.data.tablefiles import Reading, read_sheet
from al_ray.storage.places import Place

# The column order of sentence-transformers: texts, then the label.
PAIR = ("sentence1", "sentence2", "label")
EVERY = ("left_id", "right_id", "answer", "round", "source")
WRITERS: dict[str, Callable[[pa.Table, IO[bytes]], Any]] = {
    ".parquet": pq.write_table,
    ".csv": pyarrow.csv.write_csv,
    ".jsonl": lambda table, file: file.write(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()).encode()
    ),
}


@dataclass(frozen=True)
class Said:
    """What a table says: (n,) sheet rows of (n, 2) training pairs, each once, and (n,) labels NO, YES or UNSURE.

    settled: what had to be settled on the way, a sentence -> how many times.
    """

    sheet: Sheet
    pairs: Pairs
    labels: Labels
    settled: Mapping[str, int]


def read_said(path: Path, columns: Sequence[str], reading: Reading, task: Task, faults: Faults) -> Said:
    """The labels of a table of two ids and a label; two columns: every row is a match.

    A bad row (see `Faults`): an id that the task does not have, a pair that its training split does not have or that
    stands there with two labels, a label that cannot be read. A row with an empty label says nothing.
    """
    sheet = read_sheet(path, columns, reading, faults)
    names: dict[str, str] = dict(zip(("left", "right", "label"), columns, strict=False))
    sheet = sheet.holding(**{cell: sheet.cells[column] for cell, column in names.items()})
    labels = _meanings(sheet)
    unread = labels == OPEN + 1
    sheet = sheet.sifted(
        unread, lambda row: f"its label is {shown(sheet.cells['label'], row)}, not 1 or 0, yes, no or unsure", faults
    )
    labels = labels[~unread]
    silent = labels == OPEN
    sheet, labels = sheet.kept(~silent), labels[~silent]
    sheet, labels, pairs = _placed(sheet, labels, names, task, faults)
    keys = task.split("train").space.keys(pairs)
    _, first, back = np.unique(keys, return_index=True, return_inverse=True)
    odd = labels != labels[first[back]]
    sheet.sifted(
        odd,
        lambda row: f"it says {WORDS[labels[row]]} of a pair to which {sheet.place(int(first[back[row]]))} does not",
        faults,
    )
    once = np.sort(first)
    one: Mask = np.isin(np.arange(len(keys)), once)
    settled = {
        "rows without an answer": int(silent.sum()),
        "rows that repeat a pair": len(keys) - len(once) - int(odd.sum()),
    }
    return Said(sheet.kept(one), pairs[one], labels[one], settled)


def _meanings(sheet: Sheet) -> Labels:
    """(n,) NO, YES or UNSURE; OPEN for an empty cell, OPEN + 1 for one that cannot be read."""
    if "label" not in sheet.cells:
        return np.full(len(sheet), YES, dtype=np.uint8)
    words = compute.utf8_lower(sheet.cells["label"])
    meanings = np.full(len(sheet), OPEN + 1, dtype=np.uint8)
    for label in (NO, YES, UNSURE):
        known = [word for word, meaning in MEANINGS.items() if meaning == label]
        meanings[whether(compute.is_in(words, value_set=pa.array(known, pa.large_string())))] = label
    meanings[whether(compute.is_null(words))] = OPEN
    return meanings


def _placed(
    sheet: Sheet, labels: Labels, names: dict[str, str], task: Task, faults: Faults
) -> tuple[Sheet, Labels, Pairs]:
    """The rows whose ids are the task's and whose pair is one of its training split, with their pairs."""
    space = task.split("train").space
    sides = _side("left", task.left), _side("left" if task.symmetric else "right", task.right)
    pairs = as_pairs(*(side.rows(sheet.cells[cell]) for side, cell in zip(sides, ("left", "right"), strict=True)))
    for number, cell in enumerate(("left", "right")):
        unknown = pairs[:, number] < 0
        ids, side = sheet.cells[cell], sides[number]

        def reason(row: int, ids: Any = ids, side: Side = side, column: str = names[cell]) -> str:
            what = shown(ids, row) if ids[row].is_valid else "empty"
            return f"its {column!r} is {what}, no id of {side.name}"

        sheet, labels, pairs = sheet.sifted(unknown, reason, faults), labels[~unknown], pairs[~unknown]
    outside = ~space.holds(pairs)
    sheet = sheet.sifted(outside, lambda _: "its pair is none of the training split", faults)
    return sheet, labels[~outside], space.pairs(space.keys(pairs[~outside]))


def _side(name: str, corpus: Corpus) -> Side:
    texts = pa.array(corpus.texts, pa.large_string())
    return Side(f"the task's {name} texts", pa.array(corpus.ids, pa.large_string()), texts)


def labels_table(labelled: Labelled, task: Task, every: bool) -> pa.Table:
    """Labels with their texts, in the order bought: sentence1, sentence2, label (1 or 0), and no unsure pair.

    every: with the columns of EVERY beside, and the unsure pairs, whose label is null.
    """
    kept = labelled if every else labelled.told
    left, right = kept.pairs.T.tolist()
    label = pa.array(kept.labels, pa.int64(), mask=kept.labels == UNSURE)
    texts = [task.left.texts[row] for row in left], [task.right.texts[row] for row in right]
    columns: dict[str, Any] = dict(zip(PAIR, (*texts, label), strict=True))
    if every:
        ids = [task.left.ids[row] for row in left], [task.right.ids[row] for row in right]
        said = [WORDS[word] for word in kept.labels.tolist()]
        columns |= dict(zip(EVERY, (*ids, said, kept.rounds, list(kept.sources)), strict=True))
    return pa.table(columns)


def write_labels(path: Place, table: pa.Table) -> None:
    """Write a table of labels in the format that the file's name ends with, in one step."""
    write = WRITERS.get(Path(path.name).suffix.lower())
    if write is None:
        raise BadOption(f"--out {path} ends with none of {' '.join(WRITERS)}; give a name that does")

    def write_aside(aside: Path) -> None:
        # A file, not its name: pyarrow takes no name that is not UTF-8.
        with aside.open("wb") as file:
            write(table, file)

    in_one_step(path, write_aside)
