"""Tables in memory: anything that has the Arrow C stream, as data frames of pandas and polars do."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.storage.databases.port import TableStream

METHOD = "__arrow_c_stream__"


class ArrowStream(Protocol):
    """What gives its rows as an Arrow C stream: data frames of pandas and polars, Arrow tables, DuckDB relations."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule of the stream."""
        ...


@dataclass(frozen=True)
class FrameTable:
    """A table in memory: what has `__arrow_c_stream__`, such as a data frame, an Arrow table or a DuckDB relation.

    It equals itself alone, and its text is the name of its type: the task that is made of it records no more.
    """

    frame: Any = field(repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrameTable) and other.frame is self.frame

    def __hash__(self) -> int:
        return id(self.frame)

    def __str__(self) -> str:
        kind = type(self.frame)
        return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"

    @property
    def stem(self) -> str:
        """Return a short name."""
        return type(self.frame).__name__


def is_frame(value: object) -> bool:
    """Return whether a value is a table in memory."""
    return hasattr(value, METHOD)


@contextmanager
def open_frame(table: FrameTable) -> Iterator[TableStream]:
    """Open a table in memory for reading once; BadFile if it cannot be read as Arrow."""
    try:
        with pa.RecordBatchReader.from_stream(table.frame) as reader:

            def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
                yield from (batch.select(list(columns)) for batch in reader)

            yield TableStream(reader.schema.names, batches)
    except pa.ArrowException as error:
        reason = str(error).partition("\n")[0]
        fix = "give a data frame whose columns have one type each"
        raise BadFile(f"{table} cannot be read as Arrow ({reason}); {fix}") from error
