"""Strings in Arrow buffers, block by block: a text takes its bytes and 8 more until it is read as a Python string."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import index as whole_number
from typing import Any, TypeAlias, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute

from al_ray.core.pairs import Rows

Block: TypeAlias = pa.LargeStringArray
# Arrow creates these functions at import, where type checkers cannot see them.
compute: Any = pyarrow.compute
# Strings that are Python objects at a time, and those of a block that is packed here.
AT_ONCE = 2**14
# Strings whose lengths stand before their letters in a digest. Another number would change the digests of all tasks.
PER_DIGEST = 1_000_000
# Strings between two lines of progress.
PER_LINE = 10_000_000

log = logging.getLogger(__name__)


class Strings(Sequence[str]):
    """An immutable sequence of strings, which lie in blocks of Arrow memory or are loaded block by block.

    Equal to a tuple of the same strings. To look up many of them use `take`: one by one, each may load a block again.
    """

    def __init__(self, sizes: Iterable[int], load: Callable[[int], Block]) -> None:
        """sizes: of the blocks; load: number of a block -> its strings, without nulls."""
        self._ends = np.cumsum([0, *sizes], dtype=np.int64)
        self._load = load

    @staticmethod
    def of(blocks: Iterable[Block]) -> "Strings":
        """Return the strings of blocks in memory."""
        there = list(blocks)
        return Strings(map(len, there), there.__getitem__)

    @staticmethod
    def pack(strings: Iterable[str]) -> "Strings":
        """Copy strings into blocks in memory; those of an iterator exist as Python objects only AT_ONCE at a time."""
        rest = iter(strings)
        parts = iter(lambda: list(islice(rest, AT_ONCE)), [])
        return Strings.of(pa.array(part, pa.large_string()) for part in parts)

    def __reduce__(self) -> tuple[Any, ...]:
        # In memory, because another machine may lack the file that the blocks are loaded from.
        return Strings.of, (list(self.blocks()),)

    def __len__(self) -> int:
        return int(self._ends[-1])

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> "Strings": ...
    def __getitem__(self, place: int | slice) -> "str | Strings":
        if isinstance(place, slice):
            rows = range(len(self))[place]
            return Strings.of(self.blocks(rows.start, rows.stop)) if rows.step == 1 else self._packed(rows)
        row = range(len(self))[whole_number(place)]
        block = int(np.searchsorted(self._ends, row, side="right")) - 1
        return self._load(block)[row - int(self._ends[block])].as_py()

    def _packed(self, rows: range) -> "Strings":
        return Strings.pack(self.take(np.arange(rows.start, rows.stop, rows.step)))

    def __iter__(self) -> Iterator[str]:
        for block in self.blocks():
            for start in range(0, len(block), AT_ONCE):
                yield from block.slice(start, AT_ONCE).to_pylist()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Strings | tuple):
            return NotImplemented
        return self is other or (len(self) == len(other) and all(map(str.__eq__, self, other)))

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __contains__(self, value: object) -> bool:
        try:
            return isinstance(value, str) and self.index(value) >= 0
        except ValueError:
            return False

    def index(self, value: str, start: int = 0, stop: int | None = None) -> int:
        """Return the first place of a string in [start, stop); ValueError if it is not there."""
        rows = range(len(self))[start:stop]
        place, sought = rows.start, pa.scalar(value, pa.large_string())
        for block in self.blocks(rows.start, rows.stop):
            within = compute.index(block, sought).as_py()
            if within >= 0:
                return place + within
            place += len(block)
        raise ValueError(f"{value!r} is not in the sequence")

    def take(self, rows: Rows) -> list[str]:
        """Return the strings (n,) of (n,) rows, in their order; each block with any of them is loaded once."""
        distinct, places = np.unique(rows, return_inverse=True)
        if len(distinct) and not 0 <= distinct[0] <= distinct[-1] < len(self):
            raise IndexError(f"rows are from 0 to {len(self) - 1}, not from {distinct[0]} to {distinct[-1]}")
        strings = np.empty(len(distinct), dtype=object)
        for block in np.unique(np.searchsorted(self._ends, distinct, side="right") - 1).tolist():
            own = slice(*np.searchsorted(distinct, self._ends[block : block + 2]))
            taken = self._load(block).take(pa.array(distinct[own] - self._ends[block]))
            strings[own] = taken.to_numpy(zero_copy_only=False)
        return strings[places].tolist()

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """Yield the strings of [start, stop) block by block; the first and the last one are slices."""
        stop = len(self) if stop is None else stop
        while start < stop:
            block = int(np.searchsorted(self._ends, start, side="right")) - 1
            first, end = self._ends[block : block + 2].tolist()
            yield self._load(block).slice(start - first, min(stop, end) - start)
            start = end

    def in_memory(self) -> "Strings":
        """Return the same strings in memory."""
        return Strings.of(self.blocks())

    def lengths(self) -> Rows:
        """Return the characters (n,) of each string."""
        lengths = [np.zeros(0, dtype=np.int64), *map(_lengths, self.blocks())]
        return np.concatenate(lengths)


def as_strings(strings: Sequence[str]) -> Strings:
    """Return strings in Arrow buffers: themselves, or a copy of those of a tuple or a list."""
    return strings if isinstance(strings, Strings) else Strings.pack(strings)


def as_array(strings: Sequence[str]) -> Block:
    """Return all strings as one array in memory."""
    blocks = list(as_strings(strings).blocks()) or [pa.array([], pa.large_string())]
    return blocks[0] if len(blocks) == 1 else pa.concat_arrays(blocks)


def reordered(strings: Sequence[str], rows: Rows) -> Strings:
    """Return the strings (n,) of (n,) rows, in their order, as one block in memory."""
    return Strings.of([as_array(strings).take(pa.array(rows))])


def add_strings(digest: Any, strings: Sequence[str]) -> None:
    """Add strings to a hash: their lengths, then their letters, so that different lists have different digests.

    Blocks are loaded twice, so that PER_DIGEST strings need not stay in memory. The digest does not depend on
    blocks.
    """
    packed = as_strings(strings)
    for start in range(0, len(packed), PER_DIGEST):
        stop = min(start + PER_DIGEST, len(packed))
        for block in packed.blocks(start, stop):
            digest.update(_lengths(block).astype("<i8", copy=False))
        for block in packed.blocks(start, stop):
            digest.update(letters(block))
        log_progress("digest", start, stop, len(packed))


def log_progress(stage: str, start: int, stop: int, total: int) -> None:
    """Log how many strings are done, whenever another PER_LINE are; the last step was from `start` to `stop`."""
    if start // PER_LINE < stop // PER_LINE:
        log.info("%s: %s of %s", stage, f"{stop:,}", f"{total:,}")


def _lengths(block: Block) -> Rows:
    return compute.utf8_length(block).to_numpy().astype(np.int64)


def letters(block: Block) -> memoryview:
    """Return the UTF-8 bytes of all strings of a block, one after the other."""
    _, offsets, content = block.buffers()
    if not len(block) or content is None:
        return memoryview(b"")
    places = np.frombuffer(offsets, dtype=np.int64)[block.offset : block.offset + len(block) + 1]
    return memoryview(content)[int(places[0]) : int(places[-1])]
