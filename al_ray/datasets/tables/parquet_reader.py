"""Read columns of a user's Parquet file as text."""

import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.datasets.tables.columns import TableRows, check_columns, concatenate, trim_cells
from al_ray.storage.bounded_parquet import BoundedParquet
from al_ray.storage.uri import StoragePath


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
    cells = {name: trim_cells(concatenate(_as_text(path, name, table[name]).chunks)) for name in columns}
    return TableRows(path, cells, np.arange(table.num_rows, dtype=np.int64), None)


def _as_text(path: StoragePath, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column of scalars of any type to text; BadFile for lists and the like."""
    kind = column.type
    if isinstance(kind, pa.UuidType):
        texts = [None if value is None else str(uuid.UUID(str(value))) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.large_string())])
    if pa.types.is_floating(kind):
        values = column.to_numpy()
        # NumPy writes numbers as Python does; Arrow writes 12.0 as 12. A null has become NaN.
        return pa.chunked_array([pa.array(values.astype(str), pa.large_string(), mask=np.isnan(values))])
    if pa.types.is_dictionary(kind):
        return _as_text(path, name, column.cast(kind.value_type))
    try:
        texts = column.cast(pa.large_string())
        # Text columns of foreign files may hold bytes that are not UTF-8.
        texts.validate(full=True)
    except pa.ArrowException as error:
        cure = "name a column of texts, numbers or ids"
        raise BadFile(f"{path}: column {name!r} of type {kind} cannot be read as text; {cure}") from error
    return texts
