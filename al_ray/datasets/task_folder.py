"""A task folder: Parquet tables and task.json. Its one writer and its readers.

task.json                            name, symmetric, digest, splits with their counts, provenance, format
left.parquet right.parquet           id, text: a text's row is its place (no right.parquet when symmetric)
SPLIT/left.parquet right.parquet     row: the texts that the split pairs up (no right.parquet when symmetric)
SPLIT/positives.parquet              left, right: rows of the task's texts, in order of key
SPLIT/stated_negatives.parquet       likewise
"""

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from al_ray.core.errors import BadFile, WriteErrors, WrongFolder
from al_ray.core.pairs import Pairs, Rows, as_pairs
from al_ray.core.task import SPLITS, Corpus, Split, Task
from al_ray.storage.uri import StoragePath, Uri, put_folder

FORMAT = 1
TEXTS = pa.schema([("id", pa.string()), ("text", pa.string())])
ROWS = pa.schema([("row", pa.int64())])
PAIRS = pa.schema([("left", pa.int64()), ("right", pa.int64())])
ROWS_PER_TABLE = 1_000_000

log = logging.getLogger(__name__)


def sealed(name: str, symmetric: bool, left: Corpus, right: Corpus, splits: Mapping[str, Split]) -> Task:
    """A task with the digest of what it holds: the only way to make one."""
    return Task(name, symmetric, left, right, splits, _digest(symmetric, left, right, splits))


def counts(split: Split) -> dict[str, int]:
    """The figures of a split that task.json holds."""
    return {
        "left": len(split.space.left),
        "right": len(split.space.right),
        "pairs": split.space.total,
        "positives": len(split.positives),
        "stated_negatives": len(split.stated_negatives),
    }


def write_task(task: Task, folder: StoragePath, provenance: Mapping[str, Any]) -> bool:
    """Write a task's folder aside and rename it into place; False when the very same task stands there already.

    provenance: the command, source and options that made it; not part of the digest.
    """
    if isinstance(folder, Uri):
        return _put_task(task, folder, provenance)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        return _stands_already(task, folder)
    aside = folder.parent / f".{folder.name}.{os.getpid()}.partial"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        _write_all(task, aside, provenance)
        os.rename(aside, folder)
    except OSError as error:
        raise WrongFolder(f"{folder} cannot be written ({error.strerror or error}); choose another --out") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    log.info("wrote %s", folder)
    return True


def _put_task(task: Task, folder: Uri, provenance: Mapping[str, Any]) -> bool:
    # Without task.json it is what a writer left that died on the way.
    if folder.is_file() or (folder / "task.json").exists():
        return _stands_already(task, folder)
    with WriteErrors(folder), tempfile.TemporaryDirectory(prefix="al_ray-") as local:
        _write_all(task, Path(local), provenance)
        put_folder(Path(local), folder, "task.json")
    log.info("wrote %s", folder)
    return True


def read_task(folder: StoragePath) -> Task:
    """The task of a folder, its digest checked."""
    about = read_about(folder)
    left = read_corpus(folder / "left.parquet")
    right = left if about["symmetric"] else read_corpus(folder / "right.parquet")
    bare = Task(about["name"], about["symmetric"], left, right, {}, about["digest"])
    splits = {name: _read_split(folder / name, name, bare) for name in SPLITS if name in about["splits"]}
    task = sealed(bare.name, bare.symmetric, left, right, splits)
    if task.digest != about["digest"]:
        raise BadFile(f"{folder}: its tables are not those that task.json was written for; {_cure(folder)}")
    return task


def read_about(folder: StoragePath) -> dict[str, Any]:
    """What task.json says: enough for counts and for the digest, without the tables."""
    path = folder / "task.json"
    if not path.is_file():
        raise WrongFolder(f"{folder} holds no task.json; make a task folder with: python -m jobs.prepare --help")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        version = about["format"]
        missing = {"name", "symmetric", "digest", "splits"} - set(about)
        about["splits"] = dict(about.get("splits", {}))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadFile(f"{path} cannot be read ({error!r}); {_cure(folder)}") from error
    if missing:
        raise BadFile(f"{path} lacks {', '.join(sorted(missing))}; {_cure(folder)}")
    if version != FORMAT:
        raise BadFile(f"{path} has format {version}, this al_ray reads {FORMAT}; {_cure(folder)}")
    return about


def read_texts(folder: StoragePath, side: Literal["left", "right"]) -> list[str]:
    """The texts of one side in row order, and nothing else: what an actor needs. A symmetric task has one side."""
    name = "left" if read_about(folder)["symmetric"] else side
    return _read(folder / f"{name}.parquet", TEXTS, ["text"])["text"].to_pylist()


def _stands_already(task: Task, folder: StoragePath) -> bool:
    other = read_about(folder) if (folder / "task.json").is_file() else None
    if other is not None and other["digest"] == task.digest:
        log.info("%s holds this very task already; nothing to do", folder)
        return False
    holds = f"another task ({other['name']!r}, digest {other['digest'][:12]})" if other else "something else"
    raise WrongFolder(f"{folder} exists and holds {holds}; choose another --out, or move it away")


def _write_all(task: Task, folder: Path, provenance: Mapping[str, Any]) -> None:
    write_corpus(task.left, folder / "left.parquet")
    if not task.symmetric:
        write_corpus(task.right, folder / "right.parquet")
    for name, split in task.splits.items():
        _write({"row": split.space.left}, ROWS, folder / name / "left.parquet")
        if not task.symmetric:
            _write({"row": split.space.right}, ROWS, folder / name / "right.parquet")
        for pairs, stem in ((split.positives, "positives"), (split.stated_negatives, "stated_negatives")):
            _write({"left": pairs[:, 0], "right": pairs[:, 1]}, PAIRS, folder / name / f"{stem}.parquet")
    about = {
        "format": FORMAT,
        "name": task.name,
        "symmetric": task.symmetric,
        "digest": task.digest,
        "splits": {name: counts(split) for name, split in task.splits.items()},
        "provenance": dict(provenance),
    }
    (folder / "task.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def write_corpus(corpus: Corpus, path: Path) -> None:
    """Ids and texts. In parts: one Arrow string array holds at most 2 GiB, less than ten million texts may need."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A file, not its name: pyarrow takes no name that is not UTF-8.
    with path.open("wb") as file, pq.ParquetWriter(file, TEXTS, compression="zstd") as writer:
        for start in range(0, len(corpus), ROWS_PER_TABLE):
            part = slice(start, start + ROWS_PER_TABLE)
            writer.write_table(pa.table({"id": corpus.ids[part], "text": corpus.texts[part]}, schema=TEXTS))


def _write(columns: Mapping[str, Rows], schema: pa.Schema, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        pq.write_table(pa.table(dict(columns), schema=schema), file, compression="zstd")


def _read(path: StoragePath, schema: pa.Schema, columns: list[str] | None = None) -> pa.Table:
    if not path.is_file():
        raise BadFile(f"{path} is missing; {_cure(path)}")
    try:
        with path.open("rb") as file:
            table = pq.ParquetFile(file).read(columns=columns)
        # Bytes that are no UTF-8, for one.
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise BadFile(f"{path} cannot be read ({str(error).splitlines()[0]}); {_cure(path)}") from error
    for name in columns or schema.names:
        if name not in table.column_names or table.schema.field(name).type != schema.field(name).type:
            raise BadFile(f"{path} has no column {name!r} of type {schema.field(name).type}; {_cure(path)}")
        if table[name].null_count:
            raise BadFile(f"{path} has empty cells in column {name!r}; {_cure(path)}")
    return table


def read_corpus(path: StoragePath) -> Corpus:
    """What `write_corpus` wrote."""
    table = _read(path, TEXTS)
    return Corpus(tuple(table["id"].to_pylist()), tuple(table["text"].to_pylist()))


def _read_split(folder: StoragePath, name: str, task: Task) -> Split:
    left = _column(_read(folder / "left.parquet", ROWS), "row")
    right = left if task.symmetric else _column(_read(folder / "right.parquet", ROWS), "row")
    return Split(
        name=name,
        space=task.space(left, right),
        positives=_read_pairs(folder / "positives.parquet"),
        stated_negatives=_read_pairs(folder / "stated_negatives.parquet"),
    )


def _read_pairs(path: StoragePath) -> Pairs:
    table = _read(path, PAIRS)
    return as_pairs(_column(table, "left"), _column(table, "right"))


def _column(table: pa.Table, name: str) -> Rows:
    return table[name].to_numpy()


def _cure(place: StoragePath) -> str:
    """The task folder, of which this is the whole or a file, may be half right: it is never mended in place."""
    folder = next((folder for folder in (place, *place.parents) if (folder / "task.json").exists()), place)
    return f"move {folder} away and make the task again with python -m jobs.prepare"


def _digest(symmetric: bool, left: Corpus, right: Corpus, splits: Mapping[str, Split]) -> str:
    """sha256 over the values in a fixed order, whatever Parquet makes of them."""
    found = hashlib.sha256(b"symmetric" if symmetric else b"two sides")
    for corpus in (left,) if symmetric else (left, right):
        for words in (corpus.ids, corpus.texts):
            _add_words(found, words)
    for name in SPLITS:
        if name in splits:
            split = splits[name]
            for rows in (split.space.left, split.space.right, split.positives, split.stated_negatives):
                found.update(f"{name} {rows.shape}".encode())
                found.update(rows.astype("<i8").tobytes())
    return found.hexdigest()


def _add_words(found: "hashlib._Hash", words: Sequence[str]) -> None:
    """Lengths before the letters, so that no two lists look alike."""
    for start in range(0, len(words), ROWS_PER_TABLE):
        part = words[start : start + ROWS_PER_TABLE]
        found.update(np.fromiter(map(len, part), dtype="<i8", count=len(part)).tobytes())
        found.update("".join(part).encode("utf-8"))
