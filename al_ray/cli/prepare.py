"""Make a task folder: python -m jobs.prepare {qqp|wikiqa|synthetic|pairs|logs} --out TASK ...

Or evaluation sets of a task: python -m jobs.prepare evaluation --task TASK
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from al_ray.cli._prepare.evaluation_sets import Evaluation, prepare_evaluation
from al_ray.cli._shared import entry
from al_ray.core.task import Task
from al_ray.core.text_table import format_columns
from al_ray.datasets import sources
from al_ray.datasets.question_logs import QuestionLogs
from al_ray.datasets.tables.options import OwnTexts
from al_ray.datasets.task_folder import counts


@dataclass(frozen=True, kw_only=True)
class Out:
    """Where a task is written."""

    out: entry.PathOrUri
    """Task folder to make: a path or a URI."""


@dataclass(frozen=True, kw_only=True)
class Qqp(sources.Qqp, Out):
    """Quora Question Pairs: the TSV of the first release, or a folder in GLUE's layout."""


@dataclass(frozen=True, kw_only=True)
class Wikiqa(sources.Wikiqa, Out):
    """WikiQA as Microsoft published it: every question against every sentence."""


@dataclass(frozen=True, kw_only=True)
class Synthetic(sources.Synthetic, Out):
    """Generated questions with paraphrase clusters and near misses."""


@dataclass(frozen=True, kw_only=True)
class Pairs(OwnTexts, Out):
    """Your own Parquet, CSV/TSV or JSON lines: texts with labels beside them, or labelled pairs of texts."""


@dataclass(frozen=True, kw_only=True)
class Logs(QuestionLogs, Out):
    """Logs of questions with their answers: questions of one answer are paraphrases, if they are coherent."""


def main() -> None:
    """Read the source, write the task folder, and print its counts."""
    given = entry.options(
        Qqp | Wikiqa | Synthetic | Pairs | Logs | Evaluation,
        "prepare",
        "Make a task folder of pairs, with what is known of them; or a task's evaluation sets.",
    )
    if isinstance(given, Evaluation):
        prepare_evaluation(given)
        return
    from al_ray.api.tasks import prepare

    made = prepare(given, given.out)
    task = made.task
    for line in made.report.lines():
        print(line)
    print(f"{task.name}: {len(task.left):,} texts" + ("" if task.symmetric else f" x {len(task.right):,} texts"))
    print(table({name: counts(split) for name, split in task.splits.items()}))
    print(f"{'wrote' if made.written else 'already there, unchanged:'} {given.out} (digest {task.digest[:12]})")
    for line in advice(task):
        print(line)


def advice(task: Task) -> Iterator[str]:
    """Say what cannot be measured without more labels."""
    unmeasured = [name for name in ("dev", "test") if not len(task.splits[name].positives)]
    if not any(len(split.positives) + len(split.stated_negatives) for split in task.splits.values()):
        yield "no pair is labelled: pairs can be chosen and labelled; evaluation needs labels of dev pairs or an audit"
    elif unmeasured:
        yield f"no match is known in {' or '.join(unmeasured)}: evaluation there needs labels of its pairs or an audit"


def table(splits: Mapping[str, Mapping[str, int]]) -> str:
    """Format a line a split: its counts, and how rare a positive is."""
    columns = ("left", "right", "pairs", "positives", "stated_negatives")
    rows: list[tuple[str, ...]] = [("split", *(column.replace("_", " ") for column in columns), "one positive in")]
    for name, split in splits.items():
        rare = f"{split['pairs'] / split['positives']:,.0f} pairs" if split["positives"] else "-"
        rows.append((name, *(f"{split[column]:,}" for column in columns), rare))
    return format_columns(rows)
