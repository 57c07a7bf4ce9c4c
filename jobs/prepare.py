"""Make a task folder: python -m jobs.prepare {qqp|wikiqa|synthetic|pairs|logs} --out TASK ...

Or evaluation sets of a task: python -m jobs.prepare evaluation --task TASK
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from al_ray.core.errors import BadOption
from al_ray.core.limits import refuse_beyond
from al_ray.core.task import Task
from al_ray.data.clusters import Shares, check_shares
from al_ray.data.logs import QuestionLogs, read_logs
from al_ray.data.own import read_own
from al_ray.data.own_options import OwnTexts
from al_ray.data.qqp import read_qqp
from al_ray.data.rows import BadRows, Report
from al_ray.data.synthetic import synthetic_task
from al_ray.data.tables import counts, write_task
from al_ray.data.wikiqa import read_wikiqa
from al_ray.storage.places import Uri
from jobs import entry
from jobs.prepare_evaluation import Evaluation, prepare_evaluation

# Of train, dev and test: the share of train is the paper's (QQP).
EVEN_SHARES = "0.5,0.25,0.25"


@dataclass(frozen=True)
class Qqp:
    """Quora Question Pairs: the first release's TSV, or a folder in GLUE's layout."""

    source: Path
    """The TSV file, or a folder that holds it, or one that holds GLUE's train.tsv and dev.tsv."""
    out: entry.PathOrUri
    """Task folder to make: a path or a URI."""
    seed: int = 0
    """Names the draw that splits the questions."""
    split: str = "0.5,0.25,0.25"
    """Shares of the questions that train, dev and test get; components of stated pairs stay whole."""
    held_out_pairs: int | None = None
    """For jobs.paraphrase, instead of --split: dev and test get clusters with about so many positives each (the paper
    on question paraphrase retrieval: 5000), none with more than a tenth of them; train gets all other questions. What
    occurs in train is in no other split."""
    bad_rows: BadRows = "fail"
    """What to do with a malformed row: fail at its line, or skip, count and list it."""

    def read(self) -> tuple[Task, Report]:
        refuse_beyond([(self.held_out_pairs, "--held-out-pairs", 1, 2**40)])
        return read_qqp(self.source, self.bad_rows, self.seed, shares(self.split), self.held_out_pairs)


@dataclass(frozen=True)
class Wikiqa:
    """WikiQA as Microsoft published it: every question against every sentence."""

    source: Path
    """Folder that holds WikiQA-train.tsv, WikiQA-dev.tsv and WikiQA-test.tsv."""
    out: entry.PathOrUri
    """Task folder to make: a path or a URI."""
    bad_rows: BadRows = "fail"
    """What to do with a malformed row: fail at its line, or skip, count and list it."""

    def read(self) -> tuple[Task, Report]:
        return read_wikiqa(self.source, self.bad_rows)


@dataclass(frozen=True)
class Synthetic:
    """Generated questions with paraphrase clusters and near misses."""

    out: entry.PathOrUri
    """Task folder to make: a path or a URI."""
    texts: int = 4000
    """How many questions, up to ten million."""
    seed: int = 0
    """Names every draw of the generator."""

    def read(self) -> tuple[Task, Report]:
        return synthetic_task(self.texts, self.seed), Report()


@dataclass(frozen=True, kw_only=True)
class Pairs(OwnTexts):
    """Your own Parquet, CSV/TSV or JSON lines: texts with labels beside them, or labelled pairs of texts."""

    out: entry.PathOrUri
    """Task folder to make: a path or a URI."""

    def read(self) -> tuple[Task, Report]:
        return read_own(self, shares(self.split if self.split is not None else EVEN_SHARES))


@dataclass(frozen=True, kw_only=True)
class Logs(QuestionLogs):
    """Logs of questions with their answers: questions of one answer are paraphrases, if they are coherent."""

    out: entry.PathOrUri
    """Task folder to make: a path or a URI."""

    def read(self) -> tuple[Task, Report]:
        return read_logs(self, shares(self.split))


def main() -> None:
    """Read the source, write the task folder, say what is in it."""
    options = entry.options(
        Qqp | Wikiqa | Synthetic | Pairs | Logs | Evaluation,
        "prepare",
        "Make a task folder of pairs, with what is known of them; or a task's evaluation sets.",
    )
    if isinstance(options, Evaluation):
        prepare_evaluation(options)
        return
    if getattr(options, "seed", 0) < 0:
        raise BadOption(f"--seed is {options.seed}; give 0 or more")
    task, report = options.read()
    chosen = {name: str(value) if isinstance(value, Path | Uri) else value for name, value in asdict(options).items()}
    fresh = write_task(task, options.out, {"command": f"prepare {type(options).__name__.lower()}", **chosen})
    for line in report.lines():
        print(line)
    print(f"{task.name}: {len(task.left):,} texts" + ("" if task.symmetric else f" x {len(task.right):,} texts"))
    print(table({name: counts(split) for name, split in task.splits.items()}))
    print(f"{'wrote' if fresh else 'already there, unchanged:'} {options.out} (digest {task.digest[:12]})")
    for line in advice(task):
        print(line)


def advice(task: Task) -> Iterator[str]:
    """What cannot be measured for want of labels."""
    unmeasured = [name for name in ("dev", "test") if not len(task.splits[name].positives)]
    if not any(len(split.positives) + len(split.stated_negatives) for split in task.splits.values()):
        yield "no pair is labelled: pairs can be chosen and labelled; evaluation needs labels of dev pairs or an audit"
    elif unmeasured:
        yield f"no match is known in {' or '.join(unmeasured)}: evaluation there needs labels of its pairs or an audit"


def shares(text: str) -> Shares:
    """Three numbers parted by commas."""
    try:
        train, dev, test = map(float, text.split(","))
    except ValueError:
        raise BadOption(f"--split is {text!r}; give three shares of 1, such as 0.5,0.25,0.25") from None
    check_shares((train, dev, test))
    return train, dev, test


def table(splits: Mapping[str, Mapping[str, int]]) -> str:
    """A line a split: its counts, and how rare a positive is."""
    columns = ("left", "right", "pairs", "positives", "stated_negatives")
    rows = [("split", *(column.replace("_", " ") for column in columns), "one positive in")]
    for name, split in splits.items():
        rare = f"{split['pairs'] / split['positives']:,.0f} pairs" if split["positives"] else "-"
        rows.append((name, *(f"{split[column]:,}" for column in columns), rare))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


if __name__ == "__main__":
    entry.job(main)
