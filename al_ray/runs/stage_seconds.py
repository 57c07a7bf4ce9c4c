"""round-NNN/seconds.json: the seconds of each stage of a round before the process that worked on it ended.

A round waits for people between two processes, or is interrupted; record.json then counts the time of all of them.
"""

from collections.abc import Mapping
from contextlib import suppress

from al_ray.core.errors import BadFile
from al_ray.storage.files import read_json, write_json
from al_ray.storage.uri import StoragePath

FILE = "seconds.json"


def total_seconds(folder: StoragePath, seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each stage of a round: those of this process and those in the file, if there is one."""
    path = folder / FILE
    earlier: dict[str, float] = read_json(path) if path.exists() else {}
    stages = dict.fromkeys([*earlier, *seconds])
    return {stage: round(earlier.get(stage, 0.0) + seconds.get(stage, 0.0), 3) for stage in stages}


def write_seconds(folder: StoragePath, seconds: Mapping[str, float]) -> None:
    """Add the seconds of this process to those in the file, unless it cannot be written, read or added to."""
    # A process often ends because the disk is full: its own error is the one to see.
    with suppress(BadFile, AttributeError, TypeError):
        write_json(folder / FILE, total_seconds(folder, seconds))
