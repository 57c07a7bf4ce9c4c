"""The command reproduce: python -m jobs.reproduce table3 --task TASK --out DIR [--seeds 3]

Runs what is missing as the commands grid and train would, prints the table in the paper's layout beside the published
results, and writes DIR/TABLE.md and DIR/figures. Use one DIR for all tables: they share runs and models. Every option:
--help.
"""

import sys
from dataclasses import dataclass, field
from typing import Annotated

import tyro

import al_ray
from al_ray.api import papers
from al_ray.cli._shared.blocks import Block, Cluster
from al_ray.cli._shared.called import as_called
from al_ray.cli._shared.entry import parse_options
from al_ray.cli._shared.option_types import PathOrUri, Words
from al_ray.cli._shared.progress import Progress
from al_ray.cli.grid import Scheduling, run_and_print
from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.errors import BadOption

DECIDED = ("strategy", "seeding", "matched", "oracle")
"""Options of a run that the table decides."""
SPLIT = "test"
"""The split of the paper's tables."""


@dataclass(frozen=True)
class ConcatOptions(papers.ConcatConfig):
    """Cross-encoders of Tables 2 and 6; other options as in the command train."""

    encoders: Words = ()
    """Encoders to start from. Default: --encoder."""


@dataclass(frozen=True, kw_only=True)
class ReproduceCommand:
    """A table or figure of the paper, of any task; rerun the same command to resume."""

    config: Annotated[al_ray.RunConfig, Block(without=DECIDED, merged=True)] = field(
        metadata={"defaults": {"evaluation": EvaluationConfig(splits=("dev", "test"))}}
    )
    """The options that all runs have in common."""
    target: tyro.conf.Positional[papers.Target]
    """Which: table2 (models of stated pairs), table3 (strategies), table4 (positives found), table5 (stratified),
    table6 (models on the collected labels), figure3 (seed sets, calibration), figure4 (AP and positives by labels)."""
    out: PathOrUri
    """Folder of all tables. Complete runs and models in it are used again."""
    seeds: Annotated[int, Between(1, 1_000)] = 3
    """Number of seeds: --seed and the next ones."""
    concat: ConcatOptions = field(default_factory=ConcatOptions)
    cluster: Cluster = field(default_factory=ClusterConfig)
    scheduling: Scheduling = field(default_factory=al_ray.GridConfig)
    dry_run: bool = False
    """Print which runs and trainings there are to do; start nothing."""

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds."""
        check_bounds(self)


OPTIONS = ReproduceCommand


def main() -> None:
    """Parse the options, run what is missing, print and write; exit code 1 if a run is not complete."""
    if not run_command(parse_options(OPTIONS, "reproduce", "A table or figure of the paper, of any task.")):
        sys.exit(1)


def run_command(options: ReproduceCommand) -> bool:
    """Run what is missing, print and write; return whether every run is complete."""
    if SPLIT not in options.config.evaluation.splits:
        raise BadOption(f"--evaluation.splits lacks {SPLIT}, which the paper's tables are of; add it")
    spec = papers.ReproductionSpec(
        options.target, options.config, options.concat, options.seeds, options.cluster, options.scheduling
    )
    job = papers.open_reproduction(spec, options.out, run_and_print, announce, Progress())
    if options.dry_run:
        print(job.plan())
        return True
    lines, complete = job.run(as_called)
    print(*lines, sep="\n")
    print(f"wrote {options.out / options.target}.md")
    return complete


def announce(name: str) -> None:
    """Print the name of a result that is about to be measured."""
    print(f"measuring {name}", flush=True)
