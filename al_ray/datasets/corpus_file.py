"""Parquet files of ids and texts, read row group by row group when they are needed, and of rows and pairs."""

import hashlib
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Rows
from al_ray.core.task import Corpus
from al_ray.datasets.strings import AT_ONCE, Block, Strings, as_array, as_strings, letters, log_progress
from al_ray.storage.bounded_parquet import BoundedParquet
from al_ray.storage.files import make_table
from al_ray.storage.uri import StoragePath

TEXTS = pa.schema([("id", pa.string()), ("text", pa.string())])
# Strings of a column that stay in memory after they were read: those of the last row groups, or of one large one.
CACHED = 2**17
ROWS_IN_GROUP = 2**20
Column = Literal["id", "text"]


def fix_for(place: StoragePath) -> str:
    """Return the fix for a damaged task folder, or a file in it: a new one. It is never repaired in place."""
    folder = next((folder for folder in (place, *place.parents) if (folder / "task.json").exists()), place)
    return f"move {folder} away and make the task again with `al_ray.prepare`"


def read_rows(path: StoragePath, schema: pa.Schema) -> Rows:
    """Read the k int64 columns of a schema: (n, k) rows; BadFile for columns of other types or with empty cells."""
    _require(path)
    with _read_errors(path), path.open("rb") as file:
        parquet = BoundedParquet(file)
        for name in schema.names:
            _check_type(path, parquet.schema, schema, name)
        rows, end = np.empty((parquet.metadata.num_rows, len(schema)), dtype=np.int64), 0
        for number in range(parquet.metadata.num_row_groups):
            group = parquet.read(schema.names, number)
            group.validate(full=True)
            start, end = end, end + len(group)
            for column, name in enumerate(schema.names):
                _check_no_nulls(path, group[name], name)
                rows[start:end, column] = group[name].to_numpy()
    return rows


def write_rows(path: Path, schema: pa.Schema, rows: Rows) -> None:
    """Write (n, k) rows to k int64 columns, in row groups of ROWS_IN_GROUP."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for start in range(0, max(1, len(rows)), ROWS_IN_GROUP):
            writer.write_table(make_table(schema, rows[start : start + ROWS_IN_GROUP].T), ROWS_IN_GROUP)


def write_corpus(corpus: Corpus, path: Path) -> None:
    """Write ids and texts, in row groups of AT_ONCE: to look up a text the group that holds it is read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ids, texts = as_strings(corpus.ids), as_strings(corpus.texts)
    # An open file, because pyarrow rejects names that are not UTF-8. No dictionary: few texts occur twice.
    with path.open("wb") as file, pq.ParquetWriter(file, TEXTS, use_dictionary=False, compression="zstd") as writer:
        for start in range(0, len(corpus), AT_ONCE):
            part = slice(start, min(start + AT_ONCE, len(corpus)))
            columns = [as_array(column[part]).cast(pa.string()) for column in (ids, texts)]
            writer.write_table(pa.table(columns, schema=TEXTS))
            log_progress("texts written", start, part.stop, len(corpus))


def stored_corpus(path: StoragePath) -> Corpus:
    """Open a file of `write_corpus`: its ids and texts are read when they are needed, and the file stays open.

    Later reads raise BadFile where the content is no longer what was read first.
    """
    file = _CorpusFile(path)
    return Corpus(file.strings("id"), file.strings("text"))


def read_corpus(path: StoragePath) -> Corpus:
    """Read a file of `write_corpus` into memory."""
    corpus = stored_corpus(path)
    return Corpus(as_strings(corpus.ids).in_memory(), as_strings(corpus.texts).in_memory())


def stored_texts(path: StoragePath) -> Strings:
    """Open the texts of a file of `write_corpus`."""
    return _CorpusFile(path).strings("text")


class _CorpusFile:
    """An open Parquet file with ids and texts."""

    def __init__(self, path: StoragePath) -> None:
        _require(path)
        self.path, self.lock, self.hashes = path, Lock(), dict[tuple[Column, int], bytes]()
        with _read_errors(path):
            file = path.open("rb")
            weakref.finalize(self, file.close)
            self.parquet = BoundedParquet(file)

    def strings(self, name: Column) -> Strings:
        """Return a column; BadFile if the file has no such column."""
        _check_type(self.path, self.parquet.schema, TEXTS, name)
        groups = self.parquet.metadata
        sizes = [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]
        cached = max(1, CACHED // max([1, *sizes]))
        return Strings(sizes, lru_cache(cached)(lambda number: self._read(name, number)))

    def _read(self, name: Column, number: int) -> Block:
        """Return a column of a row group; BadFile if it is damaged, or is not what it was when it was first read."""
        with _read_errors(self.path), self.lock:
            column = self.parquet.read([name], number)[name]
            # Finds texts that are not UTF-8, among others.
            column.validate(full=True)
        _check_no_nulls(self.path, column, name)
        block = as_array(Strings.of(column.cast(pa.large_string()).chunks))
        content = hashlib.sha256(letters(block))
        content.update(block.buffers()[1])
        if self.hashes.setdefault((name, number), content.digest()) != content.digest():
            raise BadFile(f"{self.path} was changed while it was in use; {fix_for(self.path)}")
        return block


@contextmanager
def _read_errors(path: StoragePath) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise BadFile(f"{path} cannot be read ({str(error).partition(chr(10))[0]}); {fix_for(path)}") from error


def _require(path: StoragePath) -> None:
    if not path.is_file():
        raise BadFile(f"{path} is missing; {fix_for(path)}")


def _check_type(path: StoragePath, there: pa.Schema, schema: pa.Schema, name: str) -> None:
    if there.names.count(name) > 1:
        raise BadFile(f"{path} has {there.names.count(name)} columns {name!r}; {fix_for(path)}")
    if name not in there.names or there.field(name).type != schema.field(name).type:
        raise BadFile(f"{path} has no column {name!r} of type {schema.field(name).type}; {fix_for(path)}")


def _check_no_nulls(path: StoragePath, column: pa.ChunkedArray, name: str) -> None:
    if column.null_count:
        raise BadFile(f"{path} has empty cells in column {name!r}; {fix_for(path)}")
