"""Read Parquet files of others within bounds: a file of a few kilobytes can stand for terabytes of values."""

import io
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

LEAST, RATIO = 2**30, 1_000
"""Bytes that values may take in memory: LEAST, or RATIO times the bytes of the file if that is more."""
AT_ONCE, FEW = 2**16, 16  # Rows that are decoded at a time; FEW where each may be as long as all values of the file.
VALUE = 8  # Bytes of a number.
# Arrow creates these functions at import, where type checkers cannot see them.
compute: Any = pyarrow.compute


class _NoValues(io.RawIOBase):
    """A file that ends where it is read, though it says that it has `size` bytes; `reached` when Arrow tried.

    It raises nothing: Arrow keeps an exception of Python for good, and with it the variables of all functions that were
    running (pyarrow 26.0.1).
    """

    def __init__(self, size: int) -> None:
        self.size, self.place, self.reached = size, 0, False

    def readable(self) -> bool:
        """Return True, which Arrow asks before it opens a file."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a place, and return it."""
        self.place = offset + (0, self.place, self.size)[whence]
        return self.place

    def tell(self) -> int:
        """Return the place."""
        return self.place

    def read(self, size: int = -1) -> bytes:
        """Return no byte."""
        self.reached = True
        return b""


class BoundedParquet:
    """An open Parquet file. Every method raises ArrowInvalid for values that take far more memory than the file."""

    def __init__(self, file: Any) -> None:
        """file: open for reading bytes. Page checksums are verified where the file has some."""
        try:
            self.parquet = pq.ParquetFile(file, page_checksum_verification=True)
            self.metadata, self.schema = self.parquet.metadata, self.parquet.schema_arrow
        except UnicodeDecodeError as error:
            raise pa.ArrowInvalid(f"a name in it is not UTF-8 ({error})") from error
        if self.metadata.num_rows < 0:
            raise pa.ArrowInvalid(f"it states {self.metadata.num_rows:,} rows")
        size = file.seek(0, 2)
        self._check_chunks(size)
        self.most = max(LEAST, RATIO * size)
        sizes = [max(VALUE * chunk.num_values, chunk.total_uncompressed_size) for chunk in self._chunks()]
        self._check_size(max(sum(sizes), VALUE * self.metadata.num_rows))
        # A text may be as long as a whole chunk, and each row refer to it.
        texts = [chunk for chunk in self._chunks() if chunk.physical_type == "BYTE_ARRAY"]
        texts = [chunk for chunk in texts if chunk.num_values * chunk.total_uncompressed_size > LEAST]
        self._few = any("DELTA_BYTE_ARRAY" in chunk.encodings for chunk in texts)
        indirect = {chunk.path_in_schema for chunk in texts if any("DICTIONARY" in one for one in chunk.encodings)}
        indirect &= set(self.schema.names)
        if indirect:
            options: Any = {"metadata": self.metadata, "read_dictionary": sorted(indirect)}
            self.parquet = pq.ParquetFile(file, page_checksum_verification=True, **options)

    def _check_chunks(self, size: int) -> None:
        """Raise for metadata of a column chunk for which `_chunks` would end the process.

        RowGroupMetaData.column of pyarrow 26 does not catch what Parquet throws (libparquet.pxd declares ColumnChunk
        without `except +`). A reader catches it, and one without values stops before it would read any.
        """
        file = _NoValues(size)
        reader = pq.ParquetFile(file, metadata=self.metadata).reader
        for group in range(self.metadata.num_row_groups):
            if self.metadata.row_group(group).num_columns != self.metadata.num_columns:
                raise pa.ArrowInvalid(f"row group {group} has other columns than the file")
            for column in range(self.metadata.num_columns):
                file.reached = False
                try:
                    next(reader.iter_batches(1, [group], [column]), None)
                except (OSError, pa.ArrowException):
                    if not file.reached:
                        raise

    def _chunks(self) -> Iterator[Any]:
        """Yield the metadata of each column of each row group."""
        for number in range(self.metadata.num_row_groups):
            group = self.metadata.row_group(number)
            yield from (group.column(column) for column in range(group.num_columns))

    def read(self, columns: Sequence[str] | None = None, group: int | None = None) -> pa.Table:
        """Read columns of the file, or of one row group of it, in the types that the file names."""
        groups = list(range(self.metadata.num_row_groups)) if group is None else [group]
        names = None if columns is None else list(columns)
        if self._few:
            table = self._read_few(groups, names)
        else:
            table = self.parquet.read_row_groups(groups, names, use_threads=group is None)
        self._check_size(sum(map(_expanded, table.columns)))
        for place, field in enumerate(table.schema):
            kind = self.schema.field(place if names is None else self.schema.get_field_index(field.name)).type
            if kind != field.type:
                table = table.set_column(place, field.with_type(kind), _as_type(table.column(place), kind))
        return table

    def _read_few(self, groups: list[int], names: list[str] | None) -> pa.Table:
        batches, taken = list[pa.RecordBatch](), 0
        for batch in self.parquet.iter_batches(FEW, groups, names):
            batches.append(batch)
            taken += batch.nbytes
            self._check_size(taken)
        return pa.Table.from_batches(batches).combine_chunks() if batches else self.parquet.read_row_groups([], names)

    def _check_size(self, taken: int) -> None:
        if taken > self.most:
            raise pa.ArrowInvalid(
                f"its values take {taken:,} bytes of memory, and a file of this size may take {self.most:,}"
            )


def _expanded(column: pa.ChunkedArray) -> int:
    """Return the bytes of a column when it is no dictionary any more."""
    if not pa.types.is_dictionary(column.type) or not _is_text(column.type.value_type):
        return column.nbytes
    lengths = ((chunk.indices, compute.binary_length(chunk.dictionary)) for chunk in column.chunks)
    return sum(compute.sum(of.take(indices)).as_py() or 0 for indices, of in lengths)


def _is_text(kind: pa.DataType) -> bool:
    return any(
        is_kind(kind)
        for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    )


def _as_type(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column of texts without its dictionary; in parts, because Arrow counts bytes in 31 bits."""
    parts = (chunk.slice(start, AT_ONCE) for chunk in column.chunks for start in range(0, len(chunk), AT_ONCE))
    return pa.chunked_array([part.cast(kind) for part in parts], kind)
