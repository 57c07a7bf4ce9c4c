"""The tables of a ledger: their schemas, their numbered names, and how they are read."""

from collections.abc import Iterable
from typing import Any, NoReturn

import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.core.labels import OPEN, TAKEN_BACK, WORDS
from al_ray.core.task import Task
from al_ray.storage.files import make_table, read_parquet
from al_ray.storage.uri import StoragePath

# Files of a round.
CLOSED = "closed.json"
# Key of the metadata of batch.parquet.
TASK = "task_digest"
BATCH = pa.schema(
    [
        *(("left", pa.int64()), ("right", pa.int64()), ("left_id", pa.string()), ("right_id", pa.string())),
        *(("score", pa.float64()), ("source", pa.string())),
    ]
)
# Earlier versions called the score a cosine, also where it was none.
RENAMED = {"cosine": "score"}
LABELS = pa.schema(
    [("left", pa.int64()), ("right", pa.int64()), ("label", pa.uint8()), ("round", pa.int32()), ("source", pa.string())]
)
ANSWERS = pa.schema(
    [
        *(("row", pa.int64()), ("answer", pa.string()), ("by", pa.string())),
        *(("confidence", pa.float64()), ("cost", pa.float64())),
    ]
)
CORRECTIONS = pa.schema(
    [("left", pa.int64()), ("right", pa.int64()), ("was", pa.uint8()), ("label", pa.uint8()), ("after", pa.int32())]
)


def batch_table(columns: Iterable[Any], task: Task) -> pa.Table:
    """Make the table of a batch; its metadata have the digest of the task of whose texts the pairs are."""
    return make_table(BATCH, columns).replace_schema_metadata({TASK: task.digest})


def check_task_digest(path: StoragePath, table: pa.Table, task: Task) -> None:
    """Raise BadFile for a batch of another task, whose texts may be others. Earlier versions wrote no digest."""
    digest = (table.schema.metadata or {}).get(TASK.encode())
    if digest not in (None, task.digest.encode()):
        raise BadFile(
            f"{path} has pairs of another task than {task.name!r} is now, whose texts may be others; restore that "
            "task, or import the labels again into a new folder (`al_ray.import_labels(..., run=NEW)`)"
        )


def piece_name(kind: str, number: int) -> str:
    """Return the name of the file `number` of a kind, from 1."""
    return f"{kind}-{number:05d}.parquet"


def pieces_of(folder: StoragePath, kind: str) -> list[StoragePath]:
    """Return the files of a kind in the order in which they were written; BadFile if a number is missing."""
    there = {path.name for path in folder.glob(f"{kind}-*.parquet")}
    names = [piece_name(kind, number) for number in range(1, len(there) + 1)]
    for name in names:
        if name not in there:
            later = max(there.difference(names))
            raise BadFile(f"{folder} has {later} and no {name}; restore {name}, or remove {later}")
    return [folder / name for name in names]


def open_pairs(folder: StoragePath) -> int:
    """Count the pairs of a round's batch that have no answer in the ledger, without the texts of the task."""
    answered = set[int]()
    for path in pieces_of(folder, "answers"):
        table = read_table(path, ANSWERS)
        words = zip(table["row"].to_pylist(), table["answer"].to_pylist(), strict=True)
        for row, word in words:
            if word == WORDS[TAKEN_BACK]:
                answered.discard(row)
            elif word != WORDS[OPEN]:
                answered.add(row)
    return len(read_batch(folder / "batch.parquet")) - len(answered)


def read_table(path: StoragePath, schema: pa.Schema, lacking: str = "") -> pa.Table:
    """Read a table; BadFile for a null, except in the column `lacking`."""
    return read_parquet(path, schema, lacking=[lacking])


def read_batch(path: StoragePath) -> pa.Table:
    """Read a batch; BadFile for a null, or for other columns."""
    return read_parquet(path, BATCH, renamed=RENAMED)


def raise_damaged(path: StoragePath, fault: str) -> NoReturn:
    """Raise BadFile."""
    raise BadFile(f"{path} {fault}; restore it")
