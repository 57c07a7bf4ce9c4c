"""Prepare and load tasks: texts on two sides, splits, and the labelled pairs that are known."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.task import Task
from al_ray.datasets.sources import TaskSource, command_of, read_source
from al_ray.datasets.tables.options import OwnTexts
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.datasets.tsv import Report
from al_ray.runs.place import refuse_lost
from al_ray.storage.uri import StoragePath, Uri, storage_path


@dataclass(frozen=True)
class Preparation:
    """A prepared task. written: whether the folder is new; report: rows that were skipped or settled."""

    task: Task
    report: Report
    written: bool


def prepare(source: TaskSource, out: str | StoragePath) -> Preparation:
    """Read a source and write it as a task folder, unless the same task is there already.

    source: a value of al_ray.datasets.sources: Synthetic, Qqp, Wikiqa, OwnTexts (your own tables) or QuestionLogs.

    Examples:
        >>> preparation = al_ray.prepare(al_ray.Synthetic(texts=200, seed=1), folder / "task")
        >>> preparation.task.split("train").space.total
        4095

    Raises:
        BadOption: if options do not fit together.
        BadFile: if a file of the source cannot be read; the message names the row.
        WrongFolder: if `out` contains another task.
    """
    folder = storage_path(str(out))
    refuse_lost(folder)
    if isinstance(source, OwnTexts) and source.extend is not None and source.extend.resolve() == folder.resolve():
        raise BadOption(
            f"{option('out', out)} is the task that `extend` names; a task is never changed, so give another `out`"
        )
    task, report = read_source(source)
    options = {name: _as_json(value) for name, value in asdict(source).items()}
    about = {"command": f"prepare {command_of(source)}", **options, "out": str(out)}
    return Preparation(task, report, write_task(task, folder, about))


def _as_json(option: Any) -> Any:
    """Return the value of an option as task.json has it: paths as texts."""
    if isinstance(option, Path | Uri):
        return str(option)
    return [_as_json(one) for one in option] if isinstance(option, list | tuple) else option


def load_task(path: str | StoragePath) -> Task:
    """Load a task folder and check its digest.

    Examples:
        >>> len(al_ray.load_task(folder / "task").left.texts)
        200

    Raises:
        WrongFolder: if the folder contains no task.
        BadFile: if a file is missing or was changed.
    """
    return read_task(storage_path(str(path)))
