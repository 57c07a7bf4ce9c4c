"""Prepare and load tasks: texts on two sides, splits, and the labelled pairs that are known."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from al_ray.core.errors import BadOption
from al_ray.core.naming import Code, call, option, options_of
from al_ray.core.task import Task
from al_ray.core.text_table import format_columns
from al_ray.datasets.field_types import field_pairs
from al_ray.datasets.script_lines import script_lines
from al_ray.datasets.sources import TaskSource, command_of, read_source
from al_ray.datasets.tables.options import OwnTexts
from al_ray.datasets.task_folder import counts, read_task, write_task
from al_ray.datasets.tsv import Report
from al_ray.runs.place import check_lasting_path
from al_ray.storage.uri import StoragePath, Uri, storage_path

RECORDS = {"first_batch": 60, "rounds": 5}
"""Options of the first run of a task with fields."""


@dataclass(frozen=True)
class Preparation:
    """A prepared task and its folder. written: whether that is new; report: rows that were skipped or settled."""

    task: Task
    report: Report
    written: bool
    path: StoragePath

    def lines(self) -> Iterator[str]:
        """Yield the report, the counts of each split, what cannot be measured, and the next call."""
        task, out = self.task, self.path
        yield from self.report.lines()
        yield f"{task.name}: {len(task.left):,} texts" + ("" if task.symmetric else f" x {len(task.right):,} texts")
        yield table_of({name: counts(split) for name, split in task.splits.items()})
        yield f"{'wrote' if self.written else 'already there, unchanged:'} {out} (digest {task.digest[:12]})"
        yield from (*_advice(task), *script_lines(task), *_next_step(task, out))


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
    check_lasting_path(folder)
    if isinstance(source, OwnTexts) and source.extend is not None and source.extend.resolve() == folder.resolve():
        raise BadOption(
            f"{option('out', out)} is the task that `extend` names; a task is never changed, so give another `out`"
        )
    task, report = read_source(source)
    options = {name: _as_json(value) for name, value in asdict(source).items()}
    about = {"command": f"prepare {command_of(source)}", **options, "out": str(out)}
    return Preparation(task, report, write_task(task, folder, about), folder)


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


def _advice(task: Task) -> Iterator[str]:
    """Yield what cannot be measured without more labels."""
    unmeasured = [name for name in ("dev", "test") if not len(task.splits[name].positives)]
    if not any(len(split.positives) + len(split.stated_negatives) for split in task.splits.values()):
        yield "no pair is labelled: pairs can be chosen and labelled; evaluation needs labels of dev pairs or an audit"
        return
    if unmeasured:
        yield f"no match is known in {' or '.join(unmeasured)}: evaluation there needs labels of its pairs or an audit"
    if task.labels_are == "partial" and len(unmeasured) < 2:
        given = option("labels_are", "complete")
        yield f"labels are partial: a pair without a label is unknown; if every match is labelled: {given}"


def _next_step(task: Task, out: StoragePath) -> Iterator[str]:
    """Yield the call that runs with a matcher, for a task whose texts have several fields on both sides.

    The task's labels answer if every match of train is known, and measure the first of dev and train that has matches.
    Without them people label, and no split is measured.
    """
    fields = field_pairs(task.left, task.right)
    if len(fields) < 2:
        return
    splits, chosen = list[str](), {"oracle": "page", **RECORDS}
    if task.labels_are == "complete" and len(task.splits["train"].positives):
        splits, chosen = ["dev" if len(task.splits["dev"].positives) else "train"], {"growth": 1, **RECORDS}
    config = options_of(
        "RunConfig", recipe="records", task=out, **chosen, evaluation=Code(f"al_ray.EvaluationConfig(splits={splits})")
    )
    yield f"next, as texts have {len(fields)} columns: {call('run', config=config, out=Code('DIR'))}"


def table_of(splits: Mapping[str, Mapping[str, int]]) -> str:
    """Format a line for each split: its counts, and the number of pairs for each positive."""
    columns = ("left", "right", "pairs", "positives", "stated_negatives")
    rows: list[tuple[str, ...]] = [("split", *(column.replace("_", " ") for column in columns), "one positive in")]
    for name, split in splits.items():
        rare = f"{split['pairs'] / split['positives']:,.0f} pairs" if split["positives"] else "-"
        rows.append((name, *(f"{split[column]:,}" for column in columns), rare))
    return format_columns(rows)
