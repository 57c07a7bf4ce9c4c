"""The command prepare: python -m jobs.prepare {qqp|wikiqa|synthetic|pairs|logs} --out TASK ...

Or make the evaluation sets of a task: python -m jobs.prepare evaluation --task TASK
"""

import sys
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

import al_ray
from al_ray.cli._shared.blocks import Block, SearchCluster
from al_ray.cli._shared.entry import as_called, parse_options, value_of
from al_ray.cli._shared.option_types import PathOrUri
from al_ray.cli._shared.progress import Progress
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import EvaluationConfig, SearchConfig
from al_ray.core.config.serialization import part
from al_ray.core.text_table import format_columns


@dataclass(frozen=True, kw_only=True)
class Out:
    """The option of all sources."""

    out: PathOrUri
    """Task folder to write: a path or a URI."""


@dataclass(frozen=True, kw_only=True)
class Qqp(al_ray.Qqp, Out):
    """Quora Question Pairs: the TSV of the first release, or a folder in GLUE's layout."""


@dataclass(frozen=True, kw_only=True)
class Wikiqa(al_ray.Wikiqa, Out):
    """WikiQA as Microsoft published it: every question against every sentence."""


@dataclass(frozen=True, kw_only=True)
class Synthetic(al_ray.Synthetic, Out):
    """Generated questions with paraphrase clusters and near misses."""


@dataclass(frozen=True, kw_only=True)
class Pairs(al_ray.OwnTexts, Out):
    """Your own Parquet, CSV/TSV or JSON lines: texts with labels beside them, or labelled pairs of texts."""


@dataclass(frozen=True, kw_only=True)
class Logs(al_ray.QuestionLogs, Out):
    """Logs of questions with their answers: questions with the same answer are paraphrases, if they are coherent."""


@dataclass(frozen=True, kw_only=True)
class Evaluation(EncoderConfig):
    """Evaluation sets: near and random negatives of a task's splits, shared by runs with the same options."""

    task: PathOrUri
    """Task folder; the sets are written into its folder evaluation/."""
    search: SearchConfig = field(default_factory=SearchConfig)
    # No run is evaluated, of which examples of errors could be kept.
    evaluation: Annotated[EvaluationConfig, Block(without=("examples",))] = field(
        default_factory=lambda: EvaluationConfig(splits=("dev", "test"))
    )
    cluster: SearchCluster = field(default_factory=ClusterConfig)

    @property
    def run(self) -> al_ray.RunConfig:
        """The config of a run that uses these sets."""
        encoding = vars(part(self, EncoderConfig))
        return al_ray.RunConfig(task=str(self.task), search=self.search, evaluation=self.evaluation, **encoding)


OPTIONS = Qqp | Wikiqa | Synthetic | Pairs | Logs | Evaluation


def parse_arguments(arguments: list[str]) -> Any:
    """Parse a command line; --extend gives the defaults of the options that it leaves out."""
    extended, default = value_of("--extend", arguments), dict[str, Any]()
    if extended and not {"-h", "--help"} & set(arguments):
        own = al_ray.extension_of(extended, *(value_of(side, arguments) for side in ("--left", "--right")))
        inherited = [one for one in fields(own) if one.name not in ("left", "right", "extend")]
        default = {it.name: value for it in inherited if (value := getattr(own, it.name)) != it.default}
    description = "Make a task folder of texts and labelled pairs, or the evaluation sets of a task."
    return parse_options(OPTIONS, "prepare", description, arguments, default)


def main() -> None:
    """Make a task folder, or the evaluation sets of a task, and print the counts."""
    options = parse_arguments(sys.argv[1:])
    if isinstance(options, Evaluation):
        prepare_evaluation(options)
        return
    for line in al_ray.prepare(options, options.out).lines():
        print(as_called(line))


def prepare_evaluation(options: Evaluation) -> None:
    """Make the evaluation sets that do not exist yet, and print the strata of all."""
    made = al_ray.prepare_evaluation(options.run, cluster=options.cluster, on_progress=Progress())
    rows: list[tuple[str, ...]] = [("split", "stratum", "sampled", "of", "each stands for")]
    print(format_columns([*rows, *(row for one in made for row in one.rows())]))
    print(f"wrote {options.task / 'evaluation'}")
