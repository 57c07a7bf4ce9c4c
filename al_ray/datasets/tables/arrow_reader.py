"""Read columns of a user's Parquet or Arrow file as text."""

import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.datasets.tables.columns import TableRows, check_columns, compute, concatenate, trim_cells
from al_ray.storage.bounded_parquet import BoundedParquet
from al_ray.storage.uri import StoragePath

ARROW_FILE = b"ARROW1"  # First bytes of an Arrow file; a stream has none.


def read_parquet_table(path: StoragePath, local: Path, columns: list[str], naming: str) -> TableRows:
    """Read columns of a Parquet file, of which there is a local copy; errors name the file.

    naming: how to name other columns, in the message on a missing one.
    """
    try:
        with local.open("rb") as file:
            parquet = BoundedParquet(file)
            check_columns(str(path), columns, parquet.schema.names, naming)
            table = parquet.read(columns)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        reason = str(error).partition("\n")[0]
        raise BadFile(f"{path} cannot be read as Parquet ({reason}); is it whole, and of that format?") from error
    return _rows(path, table, columns)


def read_arrow_table(path: StoragePath, local: Path, columns: list[str], naming: str) -> TableRows:
    """Read columns of an Arrow IPC file or stream (Feather), of which there is a local copy; errors name the file."""
    try:
        with pa.memory_map(str(local)) as file:
            table = _open_arrow(file).read_all()
            # Before anything looks at a value: offsets of a damaged file point anywhere.
            table.validate(full=True)
            check_columns(str(path), columns, table.schema.names, naming)
            return _rows(path, table, columns)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        reason = str(error).partition("\n")[0]
        raise BadFile(f"{path} cannot be read as Arrow ({reason}); is it whole, and of that format?") from error


def _open_arrow(file: pa.NativeFile) -> pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader:
    is_file = file.read(len(ARROW_FILE)) == ARROW_FILE
    file.seek(0)
    return pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)


def _rows(path: StoragePath, table: pa.Table, columns: list[str]) -> TableRows:
    cells = {name: trim_cells(concatenate(_as_text(path, name, table[name]).chunks)) for name in columns}
    return TableRows(path, cells, np.arange(table.num_rows, dtype=np.int64), None)


def _as_text(path: StoragePath, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column to text: scalars of any type, or lists of them, joined by a space. BadFile for anything else."""
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if is_list and not pa.types.is_nested(kind.value_type):
        parts = [_joined(path, name, chunk) for chunk in column.chunks]
        return pa.chunked_array(parts, pa.large_string())
    if isinstance(kind, pa.UuidType):
        texts = [None if value is None else str(uuid.UUID(str(value))) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.large_string())])
    if pa.types.is_floating(kind):
        values = column.to_numpy()
        # NumPy writes numbers as Python does; Arrow writes 12.0 as 12. A null has become NaN.
        return pa.chunked_array([pa.array(values.astype(str), pa.large_string(), mask=np.isnan(values))])
    if pa.types.is_dictionary(kind):
        return _as_text(path, name, column.cast(kind.value_type))
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # As a time in UTC, for which Arrow needs no database of zones.
        texts = column.cast(pa.timestamp(kind.unit)).cast(pa.large_string())
        return pa.chunked_array(
            [compute.binary_join_element_wise(texts, *(pa.scalar(text, pa.large_string()) for text in ("Z", "")))]
        )
    try:
        texts = column.cast(pa.large_string())
        # Text columns of foreign files may hold bytes that are not UTF-8.
        texts.validate(full=True)
    except pa.ArrowException as error:
        fix = "name a column of texts, numbers or ids"
        raise BadFile(f"{path}: column {name!r} of type {kind} cannot be read as text; {fix}") from error
    return texts


def _joined(path: StoragePath, name: str, lists: pa.ListArray) -> pa.LargeStringArray:
    """(n,) lists -> (n,) texts of their values, without empty ones, joined by a space; null where there is no value."""
    places = np.asarray(compute.list_parent_indices(lists))
    values = trim_cells(concatenate(_as_text(path, name, pa.chunked_array([compute.list_flatten(lists)])).chunks))
    texts: list[list[str]] = [[] for _ in range(len(lists))]
    for place, value in zip(places.tolist(), values.to_pylist(), strict=True):
        if value is not None:
            texts[place].append(value)
    return pa.array([" ".join(words) or None for words in texts], pa.large_string())
