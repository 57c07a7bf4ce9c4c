"""The options of jobs.prepare: one class for each subcommand."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import tyro

from al_ray.active_learning.config import RunConfig
from al_ray.cli._shared.entry import PathOrUri, parse_options, value_of
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import EvaluationConfig, SearchConfig
from al_ray.core.config.serialization import part
from al_ray.datasets import sources
from al_ray.datasets.question_logs import QuestionLogs
from al_ray.datasets.tables.extension import INHERITED, extension_of
from al_ray.datasets.tables.format_options import FORMAT
from al_ray.datasets.tables.options import OwnTexts


@dataclass(frozen=True, kw_only=True)
class Out:
    """The option of all sources."""

    out: PathOrUri
    """Task folder to write: a path or a URI."""


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

    extend: PathOrUri | None = None
    """Task folder made by prepare pairs: the new task has its texts, splits and labels, and the rows of --left and
    --right. New texts are in train. Options that are not given are those of that task."""


@dataclass(frozen=True, kw_only=True)
class Logs(QuestionLogs, Out):
    """Logs of questions with their answers: questions with the same answer are paraphrases, if they are coherent."""


@dataclass(frozen=True, kw_only=True)
class Evaluation(EncoderConfig):
    """Evaluation sets: near and random negatives of a task's splits, shared by runs with the same options."""

    UNUSED: ClassVar[tuple[str, ...]] = ("cluster.checkpoint_seconds", "evaluation.examples")

    task: PathOrUri
    """Task folder; the sets are written into its folder evaluation/."""
    search: SearchConfig = field(default_factory=SearchConfig)
    evaluation: EvaluationConfig = field(default_factory=lambda: EvaluationConfig(splits=("dev", "test")))
    cluster: tyro.conf.OmitArgPrefixes[ClusterConfig] = field(default_factory=ClusterConfig)

    @property
    def run(self) -> RunConfig:
        """The config of a run that uses these sets."""
        encoding = vars(part(self, EncoderConfig))
        return RunConfig(task=str(self.task), search=self.search, evaluation=self.evaluation, **encoding)


def parse_arguments(arguments: list[str]) -> "Command":
    """Parse a command line; --extend gives the defaults of the options that it leaves out."""
    extended, default = value_of("--extend", arguments), dict[str, Any]()
    if extended and not {"-h", "--help"} & set(arguments):
        tables = (value_of(side, arguments) for side in ("--left", "--right"))
        own = extension_of(extended, *tables)
        default = {name: getattr(own, name) for name in (*INHERITED, *FORMAT)}
    description = "Make a task folder of texts and labelled pairs, or the evaluation sets of a task."
    return parse_options(Command, "prepare", description, arguments, default)


Source = Qqp | Wikiqa | Synthetic | Pairs | Logs
Command = Source | Evaluation
