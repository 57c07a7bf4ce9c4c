"""Sources of tasks: each is a value that says where texts and labelled pairs come from, and reads them as a task."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.errors import BadOption
from al_ray.core.task import Task
from al_ray.datasets.field_types import describe_types, with_types
from al_ray.datasets.qqp import read_qqp
from al_ray.datasets.question_logs import QuestionLogs, read_logs
from al_ray.datasets.splitting import Shares, check_shares
from al_ray.datasets.synthetic import synthetic_task
from al_ray.datasets.tables.extension import read_extension
from al_ray.datasets.tables.options import OwnTexts
from al_ray.datasets.tables.to_task import read_own
from al_ray.datasets.tsv import BadRows, Report
from al_ray.datasets.wikiqa import read_wikiqa

# Of train, dev and test: the share of train is the paper's (QQP).
EVEN_SHARES = "0.5,0.25,0.25"


@dataclass(frozen=True)
class Qqp:
    """Quora Question Pairs: the TSV of the first release, or a folder in GLUE's layout."""

    source: Path
    """The TSV file, or a folder that contains it, or one that contains GLUE's train.tsv and dev.tsv."""
    seed: int = 0
    """Random seed of the split of the questions."""
    split: str = EVEN_SHARES
    """Shares of the questions in train, dev and test; connected components of labelled pairs are not divided."""
    held_out_pairs: Annotated[int | None, Between(1, 2**40)] = None
    """For paraphrase retrieval, instead of --split: dev and test get clusters with about this many positives each (the
    paper on question paraphrase retrieval: 5000), none with more than a tenth of them; train gets all other questions.
    No question of train is in another split."""
    bad_rows: BadRows = "fail"
    """Malformed rows: fail at the first one, or skip, count and list them."""

    def read(self) -> tuple[Task, Report]:
        """Read the data set and split it."""
        check_bounds(self)
        return read_qqp(self.source, self.bad_rows, self.seed, shares(self.split), self.held_out_pairs)


@dataclass(frozen=True)
class Wikiqa:
    """WikiQA as Microsoft published it: every question against every sentence."""

    source: Path
    """Folder that contains WikiQA-train.tsv, WikiQA-dev.tsv and WikiQA-test.tsv."""
    bad_rows: BadRows = "fail"
    """Malformed rows: fail at the first one, or skip, count and list them."""

    def read(self) -> tuple[Task, Report]:
        """Read the data set in its own splits."""
        return read_wikiqa(self.source, self.bad_rows)


@dataclass(frozen=True)
class Synthetic:
    """Generated questions with paraphrase clusters and near misses."""

    texts: int = 4000
    """Number of questions, at most a hundred million."""
    seed: int = 0
    """Random seed."""

    def read(self) -> tuple[Task, Report]:
        """Generate the task."""
        return synthetic_task(self.texts, self.seed), Report()


TaskSource = Qqp | Wikiqa | Synthetic | OwnTexts | QuestionLogs
# The command that task.json records.
COMMANDS = {Qqp: "qqp", Wikiqa: "wikiqa", Synthetic: "synthetic", OwnTexts: "pairs", QuestionLogs: "logs"}


def command_of(source: TaskSource) -> str:
    """Return the subcommand of `prepare` that reads a source."""
    return next(name for kind, name in COMMANDS.items() if isinstance(source, kind))


def read_source(source: TaskSource) -> tuple[Task, Report]:
    """Read a task and a report of skipped rows; BadFile or BadOption if the source cannot be read."""
    if not isinstance(source, Wikiqa) and source.seed < 0:
        raise BadOption(f"`seed` is {source.seed}; give 0 or more")
    if isinstance(source, OwnTexts) and source.extend is not None:
        task, report = read_extension(source)
    elif isinstance(source, OwnTexts):
        task, report = read_own(source, shares(source.split if source.split is not None else EVEN_SHARES))
    elif isinstance(source, QuestionLogs):
        task, report = read_logs(source, shares(source.split))
    else:
        return source.read()
    task = replace(task, labels_are=source.labels_are)
    if isinstance(source, QuestionLogs):
        return task, report
    left, right = with_types(task.left, task.right, source.given_types())
    report = replace(report, read=(*report.read, *describe_types(left, right)))
    return replace(task, left=left, right=right), report


def shares(text: str) -> Shares:
    """Parse three comma-separated shares of 1."""
    try:
        train, dev, test = map(float, text.split(","))
    except (ValueError, AttributeError):
        raise BadOption(f"`split` is {text!r}; give three shares of 1, such as 0.5,0.25,0.25") from None
    check_shares((train, dev, test))
    return train, dev, test
