"""The texts to match, as a task without labels: read as the tables of the model's own task were."""

from collections.abc import Mapping
from typing import Any

from al_ray.apps.matching.model import MatchingModel
from al_ray.apps.matching.options import MatchOptions
from al_ray.core.errors import BadOption
from al_ray.core.task import Task
from al_ray.datasets.tables.format_options import FORMAT, TableOptions, inherited_format
from al_ray.datasets.tables.options import OwnTexts
from al_ray.datasets.tables.to_task import read_own
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.datasets.tsv import Report
from al_ray.storage.uri import StoragePath

# Of the task's own tables: which columns are read, and which pairs can match.
MAPPING = ("text_columns", "id_column", "right_text_columns", "right_id_column", "same", "different")


def read_texts(options: MatchOptions, model: MatchingModel) -> tuple[Task, Report]:
    """Return the task of the texts to match, and a report of the rows that were read; a task folder is taken as it is.

    BadOption for options that go with a table, given a task folder, or the other way round.
    """
    if _is_task(options):
        if options.right is not None:
            raise BadOption(f"--left {options.left} is a task folder, which has both sides; leave out --right")
        return read_task(options.left), Report()
    if options.split is not None:
        raise BadOption(f"--split goes with a task folder, and --left {options.left} is none; leave it out")
    # Without dev and test: all texts are matched.
    return read_own(table_source(options, model.table_options, model.config.max_length), (1.0, 0.0, 0.0))


def task_folder(options: MatchOptions, task: Task, out: StoragePath) -> StoragePath:
    """Return the folder of the task; that of tables is written into `out`, under a name of its own."""
    if _is_task(options):
        return options.left
    folder = out / f"task-{task.digest[:12]}"
    write_task(task, folder, {"command": "match", "left": str(options.left), "right": str(options.right)})
    return folder


def _is_task(options: MatchOptions) -> bool:
    return (options.left / "task.json").is_file()


def table_source(options: MatchOptions, mapping: Mapping[str, Any], max_length: int) -> OwnTexts:
    """Return the tables to match as a source; what the options leave out is read as for the model's task.

    mapping: options by which the tables of the task were read, {} if there are none. max_length: of the encoder.
    """
    chosen: dict[str, Any] = {name: getattr(options, name, None) for name in MAPPING}
    for name in ("text_columns", "id_column"):
        # Columns of --left that are given hold for --right too, unless those of --right are.
        if chosen[name] is None:
            chosen[f"right_{name}"] = chosen[f"right_{name}"] or mapping.get(f"right_{name}")
    chosen = {
        name: mapping.get(name) if value is None and "right" not in name else value for name, value in chosen.items()
    }
    plain, before = TableOptions(), inherited_format(mapping, [options.left])
    for name in FORMAT:
        value = getattr(options, name)
        chosen[name] = before.get(name, getattr(plain, name)) if value is None else value
    if chosen["text_columns"] is None:
        raise BadOption(
            "the model's task was not made of tables of texts, so give the columns of the texts: --text-columns"
        )
    if options.right is None:
        chosen = {name: value for name, value in chosen.items() if not name.startswith("right_")}
    return OwnTexts(
        left=options.left,
        right=options.right,
        max_length=max_length,
        bad_rows=options.bad_rows,
        **chosen,
    )
