"""The files of suggested pairs in the folder of matches.

suggested.csv        for people, as the batch of a run: pair, label (to fill), the texts by column, left_id, right_id
suggested.json       the same pairs as tasks of Label Studio, with its interface label-studio.xml
suggested.page.log   answers that people gave on the page of annotate
suggested.parquet    for programs: pair, left_id, right_id, score, the distance of each text to the nearest training
                     text, and the texts; people do not see score and distances, because they would bias the answers
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.core.labels import OPEN, WORDS
from al_ray.core.naming import call
from al_ray.core.pairs import Pairs
from al_ray.core.scorer import Floats
from al_ray.core.task import Task
from al_ray.datasets.strings import as_array
from al_ray.datasets.tables.columns import TableRows, trim_cells
from al_ray.datasets.tables.label_tables import LabelTable, task_labels
from al_ray.datasets.tsv import BadRowLog
from al_ray.oracles.answer_files import answer_paths, read_answer_files
from al_ray.oracles.page_log import log_path
from al_ray.oracles.people import write_sheets
from al_ray.storage.files import read_parquet, write_parquet
from al_ray.storage.uri import StoragePath

FIX = ": first make a task that has the new texts (docs/match.md)"
STEM = "suggested"
SHEET, TABLE = f"{STEM}.csv", f"{STEM}.parquet"
COLUMNS = pa.schema(
    [
        *(("pair", pa.string()), ("left_id", pa.string()), ("right_id", pa.string()), ("score", pa.float64())),
        *(("left_distance", pa.float64()), ("right_distance", pa.float64())),
        *(("left_text", pa.string()), ("right_text", pa.string())),
    ]
)


@dataclass(frozen=True)
class SuggestedPairs:
    """Suggested pairs: (n,) codes by which people refer to them, (n,) ids and texts of both sides, (n,) scores."""

    codes: list[str]
    ids: list[tuple[str, str]]
    texts: list[tuple[str, str]]
    scores: Floats


def may_hold_answers(folder: StoragePath) -> bool:
    """Return whether a folder has suggested pairs to which people may have given answers."""
    return (folder / SHEET).exists() or (isinstance(folder, Path) and log_path(folder, STEM).exists())


def write_suggested(folder: StoragePath, task: Task, pairs: Pairs, scores: Floats, distances: Floats) -> None:
    """Write (n, 2) pairs with their scores (n,) and the distances (n, 2) of their texts; the sheet is written last."""
    codes = [f"s{row:05d}" for row in range(1, len(pairs) + 1)]
    columns = [codes, *task.ids_of(pairs), scores, distances[:, 0], distances[:, 1], *task.texts_of(pairs)]
    write_parquet(folder / TABLE, pa.table(dict(zip(COLUMNS.names, columns, strict=True)), schema=COLUMNS))
    # Of pairs that were suggested before, and whose sheet was moved away.
    (folder / f"{STEM}.json").unlink(missing_ok=True)
    write_sheets(folder, STEM, codes, pairs, task)


def read_suggested(folder: StoragePath) -> SuggestedPairs:
    """Read the suggested pairs; BadFile if there are none."""
    if not (folder / TABLE).exists():
        raise BadFile(f"{folder} has no suggested pairs; `MatchOptions.suggest=N` writes them")
    table = read_parquet(folder / TABLE, COLUMNS)
    codes, *ids = (table[name].to_pylist() for name in COLUMNS.names[:3])
    texts = zip(*(table[name].to_pylist() for name in COLUMNS.names[-2:]), strict=True)
    return SuggestedPairs(codes, list(zip(*ids, strict=True)), list(texts), table["score"].to_numpy())


def read_suggested_labels(folder: Path, task: Task, faults: BadRowLog) -> LabelTable:
    """Return what people have said of the suggested pairs, in the sheet, in Label Studio or on the page.

    task: which has their texts under their ids. A pair of which a text is another there, or that is none of its train
    split, is a bad row.
    """
    pairs = read_suggested(folder)
    labels = read_answer_files(answer_paths(folder, STEM), pairs.codes, pairs.ids)
    left, right = zip(*pairs.ids, strict=True) if pairs.ids else ((), ())
    words = ["" if label == OPEN else WORDS[label] for label in labels.tolist()]
    cells = {"left_id": as_array(left), "right_id": as_array(right), "label": trim_cells(as_array(words))}
    sheet = TableRows(folder / TABLE, cells, np.arange(len(labels)), None)
    # Ids are often numbers of rows, which other tables have too.
    others = _other_texts(pairs, task)
    sheet = sheet.reject(
        np.array([bool(other) for other in others]) & (labels != OPEN),
        lambda row: f"the text of {others[row]} is another in {task.name}{FIX}",
        faults,
    )
    return task_labels(sheet, task, faults, FIX)


def _other_texts(pairs: SuggestedPairs, task: Task) -> list[str]:
    """Return for each pair (n,) an id under which the task has another text, "" where it has none."""
    sides = [dict(zip(side.ids, side.texts, strict=True)) for side in (task.left, task.right)]
    return [
        next((id_ for text_of, id_, text in zip(sides, ids, texts, strict=True) if text_of.get(id_, text) != text), "")
        for ids, texts in zip(pairs.ids, pairs.texts, strict=True)
    ]


def use_of_suggestions(record: Mapping[str, Any], out: StoragePath) -> str:
    """Return what to do once the suggested pairs of match.json have labels."""
    run = record["model"]["run"]
    if record.get("suggested", {}).get("in_task_of_run", True):
        return call("import_labels", run=run, labels=out)
    return f"extend the task first: not all texts are in the train split of {run} (docs/match.md); then import {out}"
