"""Carry out jobs.prepare: write a task folder and print its counts."""

import shlex
from collections.abc import Iterator, Mapping

from al_ray.api.tasks import prepare
from al_ray.cli._prepare.options import Source
from al_ray.cli._shared.entry import as_called
from al_ray.cli._shared.scripts import script_lines
from al_ray.core.task import Task
from al_ray.core.text_table import format_columns
from al_ray.datasets.field_types import field_pairs
from al_ray.datasets.task_folder import counts
from al_ray.storage.uri import StoragePath

BY_PEOPLE = (
    "python -m jobs.run --task {task} --out DIR --recipe records --oracle page --first-batch 60 --rounds 5 "
    "--evaluation.splits"
)
BY_LABELS = (
    "python -m jobs.run --task {task} --out DIR --recipe records --growth 1 --first-batch 60 --rounds 5 "
    "--evaluation.splits "
)
"""Of the next step: people label, and no split is measured; or the task's own labels answer, and the split is named."""


def prepare_task(options: Source) -> None:
    """Read the source, write the task folder, and print its counts."""
    prepared = prepare(options, options.out)
    task = prepared.task
    for line in prepared.report.lines():
        print(as_called(line))
    print(f"{task.name}: {len(task.left):,} texts" + ("" if task.symmetric else f" x {len(task.right):,} texts"))
    print(table({name: counts(split) for name, split in task.splits.items()}))
    print(f"{'wrote' if prepared.written else 'already there, unchanged:'} {options.out} (digest {task.digest[:12]})")
    for line in (*advice(task), *script_lines(task), *next_step(task, options.out)):
        print(line)


def advice(task: Task) -> Iterator[str]:
    """Yield what cannot be measured without more labels."""
    unmeasured = [name for name in ("dev", "test") if not len(task.splits[name].positives)]
    if not any(len(split.positives) + len(split.stated_negatives) for split in task.splits.values()):
        yield "no pair is labelled: pairs can be chosen and labelled; evaluation needs labels of dev pairs or an audit"
        return
    if unmeasured:
        yield f"no match is known in {' or '.join(unmeasured)}: evaluation there needs labels of its pairs or an audit"
    if task.labels_are == "partial" and len(unmeasured) < 2:
        yield "labels are partial: a pair without a label is unknown; if every match is labelled: --labels-are complete"


def next_step(task: Task, out: StoragePath) -> Iterator[str]:
    """Yield the command that runs with a matcher, for a task whose texts have several fields on both sides.

    The task's labels answer if every match of train is known, and measure the first of dev and train that has matches.
    """
    fields = field_pairs(task.left, task.right)
    if len(fields) < 2:
        return
    command = BY_PEOPLE
    if task.labels_are == "complete" and len(task.splits["train"].positives):
        command = BY_LABELS + ("dev" if len(task.splits["dev"].positives) else "train")
    yield f"next, as texts have {len(fields)} columns: {as_called(command.format(task=shlex.quote(str(out))))}"


def table(splits: Mapping[str, Mapping[str, int]]) -> str:
    """Format a line for each split: its counts, and the number of pairs for each positive."""
    columns = ("left", "right", "pairs", "positives", "stated_negatives")
    rows: list[tuple[str, ...]] = [("split", *(column.replace("_", " ") for column in columns), "one positive in")]
    for name, split in splits.items():
        rare = f"{split['pairs'] / split['positives']:,.0f} pairs" if split["positives"] else "-"
        rows.append((name, *(f"{split[column]:,}" for column in columns), rare))
    return format_columns(rows)
