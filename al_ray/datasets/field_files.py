"""Files of the fields of a task's texts: a column per field, of lengths; the types are in the metadata of the columns.

A version that does not know types reads the same lengths.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast, get_args

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.core.task import Fields, FieldType
from al_ray.datasets.corpus_file import fix_for
from al_ray.datasets.strings import as_strings
from al_ray.storage.files import read_parquet, write_parquet
from al_ray.storage.uri import StoragePath

TYPE = b"type"


def fields_path(folder: StoragePath, side: str) -> StoragePath:
    """Return the file of the fields of a side; it need not exist."""
    return folder / f"{side}-fields.parquet"


def write_fields(fields: Fields | None, path: StoragePath) -> None:
    """Write fields, if there are any, unless the file has the same."""
    if fields is None:
        return
    types = [{TYPE: kind.encode()} for kind in fields.types] or [None] * len(fields.names)
    columns = [pa.field(name, pa.int64(), metadata=about) for name, about in zip(fields.names, types, strict=True)]
    table = pa.table(list(fields.lengths.astype(np.int64).T), schema=pa.schema(columns))
    if not path.is_file() or not read_parquet(path, fix=fix_for(path)).equals(table, check_metadata=True):
        write_parquet(path, table)


def read_fields(path: StoragePath, texts: Sequence[str]) -> Fields:
    """Read the fields of texts (n,); BadFile if they are not theirs."""
    table = read_parquet(path, fix=fix_for(path))
    try:
        lengths = np.stack([column.to_numpy() for column in table.columns], axis=1).astype(np.int64, casting="safe")
    except (IndexError, TypeError, ValueError) as error:
        # IndexError: words of an empty dictionary.
        raise BadFile(f"{path} holds other columns than lengths; {fix_for(path)}") from error
    fields = Fields(tuple(table.column_names), lengths, _types(path, table.schema))
    if not np.array_equal(fields.text_lengths, as_strings(texts).lengths()) or (lengths < 0).any():
        raise BadFile(f"{path} does not fit the texts of {path.name.replace('-fields', '')}; {fix_for(path)}")
    # None is longer than its text, and Arrow counts the characters of a text in 31 bits.
    return replace(fields, lengths=lengths.astype(np.int32))


def _types(path: StoragePath, schema: pa.Schema) -> tuple[FieldType, ...]:
    """Return the types of all columns, () if they have none: the file is of an earlier version."""
    types = [(column.metadata or {}).get(TYPE, b"").decode("utf-8", "replace") for column in schema]
    if not any(types):
        return ()
    for name, kind in zip(schema.names, types, strict=True):
        if kind not in get_args(FieldType):
            raise BadFile(f"{path}: the type of {name!r} is {kind!r}, which does not exist; {fix_for(path)}")
    return cast(tuple[FieldType, ...], tuple(types))
