"""Several streams of values as one."""

from collections.abc import Iterator
from typing import Any


def round_robin(streams: list[Iterator[Any]]) -> Iterator[Any]:
    """Yield the values of several streams, one of each in turn, until all have ended."""
    while streams:
        for stream in list(streams):
            try:
                yield next(stream)
            except StopIteration:
                streams.remove(stream)
