"""The changes of known texts, one for each request, in an append-only log (storage/append_log.py)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from al_ray.storage.append_log import LogReader, LogWriter

FIX = "restore the file from a copy, or make another `store`"


@dataclass(frozen=True)
class Change:
    """What one request changed: texts that were put, as (id, text), and ids that were removed.

    number: 1 for the first change of a store, and 1 more for each next one.
    """

    number: int
    put: tuple[tuple[str, str], ...] = ()
    removed: tuple[str, ...] = ()


def journal_reader(path: Path, number: int = 0, offset: int = 0) -> LogReader:
    """Return a reader of the changes after change `number`, whose end is at byte `offset`."""
    return LogReader(path, FIX, _is_valid, number, offset)


def _is_valid(line: Mapping[str, Any]) -> bool:
    """Return whether a line has texts that were put, and ids that were removed."""
    put, removed = line.get("put"), line.get("removed")
    return (
        isinstance(put, list)
        and all(isinstance(one, list) and len(one) == 2 and all(isinstance(text, str) for text in one) for one in put)
        and isinstance(removed, list)
        and all(isinstance(one, str) for one in removed)
    )


def read_changes(reader: LogReader) -> list[Change]:
    """Return the complete changes since the last call; see LogReader.read_new."""
    return [
        Change(line["number"], tuple((one, text) for one, text in line["put"]), tuple(line["removed"]))
        for line in reader.read_new()
    ]


def open_journal(path: Path, number: int, offset: int) -> LogWriter:
    """Open a journal for writing after change `number`, whose end is at byte `offset`."""
    return LogWriter(path, "make room, or give another `store`", number, offset)


def append_change(journal: LogWriter, put: Sequence[tuple[str, str]], removed: Sequence[str]) -> Change:
    """Write a change and return it when it is on disk."""
    fields: dict[str, Any] = {"put": [*put], "removed": [*removed]}
    return Change(journal.append(**fields)["number"], tuple(put), tuple(removed))
