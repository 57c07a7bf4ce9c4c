"""Task folders and run folders below a folder: what each holds, without loading what a run computes with."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from al_ray.active_learning.config import RunConfig
from al_ray.core.errors import AlRayError
from al_ray.datasets.task_folder import labels_are_of, read_about
from al_ray.runs.config_file import read_config_file
from al_ray.runs.handover import choose_model
from al_ray.runs.run_state import at_its_end, bound_config, last_round

MOST_FOLDERS, LARGEST = 300, 2**20
"""Entries of a folder that are looked at; bytes of a file of JSON that is read."""
BELOW = ("tasks", "runs")
"""Folders whose own folders are looked at, too."""
UNREADABLE = (AlRayError, OSError, ValueError, KeyError, TypeError, AttributeError)
"""What a folder raises that is none of ours, or is broken: it is left out."""


@dataclass(frozen=True)
class TaskFound:
    """A task folder: its path and digest, and when it was written.

    answered: whether its own labels can answer: every match of train is known, and there is one. fields: whether its
    texts are joined from several columns.
    """

    path: Path
    digest: str
    symmetric: bool
    positives: Mapping[str, int]
    answered: bool
    fields: bool
    written: float


@dataclass(frozen=True)
class RunFound:
    """A run folder: its path, its options, the digest of its task, its last complete round, and when that ended.

    ended: whether it has all its rounds, or a limit stopped it. open: whether pairs are chosen that have no labels yet.
    untrained: whether its figures hand over the untrained encoder, which has no boundary.
    """

    path: Path
    config: RunConfig
    task_digest: str
    last: int
    ended: bool
    open: bool
    written: float
    untrained: bool


def find_folders(folder: Path) -> tuple[list[TaskFound], list[RunFound]]:
    """Return the tasks and runs among a folder, the folders in it, and those in its tasks/ and runs/.

    Their paths are from the folder. What cannot be read is left out.
    """
    tasks, runs = list[TaskFound](), list[RunFound]()
    for path in _folders(folder):
        with suppress(*UNREADABLE):
            if (task := _task(folder, path)) is not None:
                tasks.append(task)
            elif (run := _run(folder, path)) is not None:
                runs.append(run)
    return tasks, runs


def _folders(folder: Path) -> Iterator[Path]:
    """Yield the folder and those below it, as paths from it; of many the first ones."""
    yield Path()
    for parent in (Path(), *map(Path, BELOW)):
        with suppress(OSError):
            names = sorted(path.name for path in islice((folder / parent).iterdir(), MOST_FOLDERS))
            # A name that a terminal would not show as it is could not be pasted.
            yield from (parent / name for name in names if name.isprintable() and not name.startswith((".", "-")))


def _is_small(path: Path) -> bool:
    """Return whether a file is there, and no larger than those of al_ray."""
    return path.is_file() and path.stat().st_size <= LARGEST


def _task(folder: Path, path: Path) -> TaskFound | None:
    """Read a task folder; None if it is none."""
    file = folder / path / "task.json"
    if not _is_small(file):
        return None
    about = read_about(folder / path)
    positives = {name: int(counts["positives"]) for name, counts in about["splits"].items()}
    if "train" not in positives:
        return None
    columns = str(about.get("provenance", {}).get("text_columns", ""))
    answered = labels_are_of(about, folder / path) == "complete" and positives["train"] > 0
    several = len(columns.replace(",", " ").split()) > 1
    digest, symmetric = str(about["digest"]), bool(about["symmetric"])
    return TaskFound(path, digest, symmetric, positives, answered, several, file.stat().st_mtime)


def _run(folder: Path, path: Path) -> RunFound | None:
    """Read a run folder; None if it is none."""
    place = folder / path
    files = [place / name for name in ("config.json", "state.json", "ended.json")]
    if not all(_is_small(file) for file in files if file == files[0] or file.exists()):
        return None
    digest, config, last = str(read_config_file(place)["task_digest"]), bound_config(place), last_round(place)
    rounds = place / f"round-{last + 1:03d}", place / "dev-labels" / f"round-{last:03d}"
    is_open = any((one / "batch.parquet").exists() and not (one / "labels.parquet").exists() for one in rounds)
    written = max(file.stat().st_mtime for file in files if file.exists())
    untrained = last > 0 and not choose_model(place).round
    return RunFound(path, config, digest, last, at_its_end(place, config), is_open, written, untrained)
