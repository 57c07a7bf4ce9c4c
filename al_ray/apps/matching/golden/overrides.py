"""Values of golden records that people gave: golden.overrides.log of a folder of matches, and what is in effect.

Each override is a line of an append-only log (storage/append_log.py), on disk before its writer continues. It names the
records that were in the cluster when it was made, and follows these: a later override of the same field takes over the
records that it names, and so does taking an override back. So a cluster that grows keeps its override. Two cases are
not decided here but are conflicts, which are named and leave the value to the rule: the records of an override are in
several clusters now, or the records of a cluster have overrides with different values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from al_ray.core.errors import BadOption
from al_ray.storage.append_log import Change, LogReader, LogWriter
from al_ray.storage.uri import StoragePath

LOG = "golden.overrides.log"
FIX = "restore the file from a copy; each of its lines is a value that somebody gave"
ROOM = "make room, and start again"
LONGEST_VALUE = 100_000

RecordId = tuple[str, str]
"""A record: its table (left or right; of one table left), and its id."""
State = Literal["in effect", "split", "conflict", "gone"]


@dataclass(frozen=True)
class Override:
    """A value that a person gave a field of a golden record; None takes earlier ones back. number: of its line.

    records: those of the cluster then. at: the time (ISO, UTC).
    """

    field: str
    value: str | None
    records: tuple[RecordId, ...]
    by: str
    at: str
    number: int

    def __str__(self) -> str:
        """Return who gave the value, and when."""
        return f"override: {self.by}, {self.at}"


@dataclass(frozen=True)
class Standing:
    """An override that was not taken back, and what it does. clusters: numbers of those that have its records now."""

    override: Override
    state: State
    clusters: tuple[int, ...]


def resolve(overrides: Sequence[Override], clusters: Mapping[RecordId, int]) -> list[Standing]:
    """Return what each override does now, in the order in which they were made.

    Those that were replaced or taken back are left out. clusters: the number of the cluster of each record that there
    is; of others it may be left out.
    """
    owners = dict[tuple[str, RecordId], Override]()
    for one in overrides:
        owners |= {(one.field, record): one for record in one.records}
    records = dict[int, list[RecordId]]()
    for (_, record), owner in owners.items():
        if owner.value is not None:
            records.setdefault(owner.number, []).append(record)
    standing = [one for one in overrides if one.number in records]
    places = {
        one.number: tuple(sorted({clusters[record] for record in records[one.number] if record in clusters}))
        for one in standing
    }
    values = dict[tuple[str, int], set[str | None]]()
    for one in standing:
        for cluster in places[one.number]:
            values.setdefault((one.field, cluster), set()).add(one.value)

    def state(one: Override) -> State:
        here = places[one.number]
        if not here:
            return "gone"
        if any(len(values[one.field, cluster]) > 1 for cluster in here):
            return "conflict"
        return "split" if len(here) > 1 else "in effect"

    return [Standing(one, state(one), places[one.number]) for one in standing]


def applied(standing: Iterable[Standing]) -> dict[str, dict[int, Override]]:
    """Return the overrides in effect: field -> number of a cluster -> the last one."""
    found = dict[str, dict[int, Override]]()
    for one in standing:
        if one.state == "in effect":
            found.setdefault(one.override.field, {})[one.clusters[0]] = one.override
    return found


def _is_valid(line: Change) -> bool:
    """Return whether a line is as `append_override` writes it."""
    records, value = line.get("records"), line.get("value")
    return (
        all(isinstance(line.get(name), str) for name in ("field", "by", "at"))
        and "value" in line
        and (value is None or isinstance(value, str))
        and isinstance(records, list)
        and bool(records)
        and all(
            isinstance(one, list) and len(one) == 2 and all(isinstance(word, str) for word in one) for one in records
        )
    )


def _override(line: Change) -> Override:
    records = tuple((table, name) for table, name in line["records"])
    return Override(line["field"], line["value"], records, line["by"], line["at"], line["number"])


def read_overrides(folder: StoragePath) -> list[Override]:
    """Return the overrides of a folder of matches, in the order in which they were made; [] if there are none."""
    if not (folder / LOG).exists():
        return []
    return [_override(line) for line in LogReader(_log_path(folder), FIX, _is_valid).read_new()]


def _log_path(folder: StoragePath) -> Path:
    """Return the log of a folder; BadOption if it is on an object store, where no lines can be appended."""
    if not isinstance(folder, Path):
        raise BadOption(f"{folder} is a URI; golden records are overridden in a folder of matches on a local disk")
    return folder / LOG


class OverrideLog:
    """The overrides of a folder of matches, open for writing. The caller has locked the folder.

    overrides: all that are on disk. requests: ids of the requests that were carried out.
    """

    def __init__(self, folder: StoragePath) -> None:
        path = _log_path(folder)
        reader = LogReader(path, FIX, _is_valid)
        lines = reader.read_new() if path.exists() else []
        self.overrides = [_override(line) for line in lines]
        self.requests = {line["request"] for line in lines if "request" in line}
        self._log = LogWriter(path, ROOM, reader.number, reader.offset)

    def append(self, field: str, value: str | None, records: Iterable[RecordId], by: str, request: str = "") -> None:
        """Write an override; a request counts once. value: None takes earlier ones of these records back."""
        if request and request in self.requests:
            return
        more: dict[str, Any] = {"request": request} if request else {}
        at = datetime.now(UTC).isoformat(timespec="seconds")
        line = self._log.append(field=field, value=value, records=[list(one) for one in records], by=by, at=at, **more)
        self.overrides.append(_override(line))
        self.requests.add(request)

    def close(self) -> None:
        """Close the log."""
        self._log.close()
