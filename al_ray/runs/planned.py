"""planned.json: what a run was planned to use and what it has used, written at its end.

{"rounds": ..., "speeds": ..., "assumed": [names of speeds], "seconds": {stage: {"planned": ..., "used": ...}},
"memory": {process: {"planned": bytes, "used": bytes or null}}}

The processes are driver, shard and trainer, or one process that was all of them.
"""

from collections.abc import Mapping
from typing import Any

from al_ray.runs.run_folder import RunFolder
from al_ray.runs.stage_seconds import total_seconds
from al_ray.storage.files import check_fields, read_json, write_json

FILE = "planned.json"
WHOLE = "process"  # The process of a command that has no others.


def used_seconds(folder: RunFolder) -> dict[str, float]:
    """Return the seconds of each stage in all processes of a run: of the rounds, and of the work before the first."""
    open_round = total_seconds(folder.round(folder.last + 1), folder.seconds)
    stored = [total_seconds(folder.path, {}), *(line["seconds"] for line in folder.complete_rounds()), open_round]
    stages = dict.fromkeys(stage for seconds in stored for stage in seconds)
    return {stage: sum(seconds.get(stage, 0.0) for seconds in stored) for stage in stages}


def highest_peaks(folder: RunFolder, peaks: Mapping[str, int | None]) -> dict[str, int]:
    """Return the peak memory of each process of a run: the highest of `peaks` and of what the file has."""
    path = folder.path / FILE
    stored = read_json(path, {"memory": dict})["memory"] if path.exists() else {}
    for name, figures in stored.items():
        check_fields(f"the memory of {name} in {path}", figures, {"used": int | None}, "restore it")
    earlier = {name: figures["used"] for name, figures in stored.items()}
    known = {name: [peak for peak in (earlier.get(name), peaks.get(name)) if peak] for name in {**earlier, **peaks}}
    return {name: max(values) for name, values in known.items() if values}


def write_planned(folder: RunFolder, content: Mapping[str, Any]) -> None:
    """Write the file, unless it has this content."""
    path = folder.path / FILE
    if not path.exists() or read_json(path) != content:
        write_json(path, content)
