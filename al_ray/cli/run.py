"""The command run: python -m jobs.run --task TASK --out RUN --strategy uncertainty --seed 0

Rerun the same command to resume a run. Every option: --help.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

import al_ray
from al_ray.cli._shared.blocks import Block, Cluster, OracleCalls
from al_ray.cli._shared.entry import as_called, parse_options, value_of
from al_ray.cli._shared.option_types import PathOrUri, StoragePath, storage_path
from al_ray.cli._shared.progress import Progress
from al_ray.cli._shared.recipe import recipe_defaults, recipe_unless_chosen
from al_ray.core.config.bounds import RARE, Group
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.llm import LlmConfig
from al_ray.core.config.oracle import OracleConfig, oracle_kind
from al_ray.core.config.recipes import RecipeOptions
from al_ray.core.config.trackers import NO_TRACKERS, TrackerOptions
from al_ray.core.errors import BadOption

PACE = 20
"""Seconds that a person takes for a pair, for an idea of the time; each kind of text has its own."""
ORACLE, NEVER = OracleConfig(), al_ray.StopConfig()


@dataclass(frozen=True, kw_only=True)
class RunCommand(RecipeOptions):
    """One active-learning run; rerun the same command to resume it."""

    run: Annotated[al_ray.RunConfig, Block(merged=True)]
    """The options that decide the results."""
    out: PathOrUri
    """Run folder, a path or a URI such as s3://bucket/run. If it holds a run, the run is resumed."""
    cluster: Cluster = field(default_factory=ClusterConfig)
    oracle_options: OracleCalls = ORACLE
    llm: LlmConfig = field(default_factory=LlmConfig)
    page: al_ray.PageOptions = field(default_factory=al_ray.PageOptions)
    stop: al_ray.StopConfig = NEVER
    match: Annotated[PathOrUri | None, Group("experiments"), RARE] = None
    """For stratified-match: a complete run; this one draws as many positives and negatives as that one labelled."""
    tracking: tyro.conf.OmitArgPrefixes[TrackerOptions] = NO_TRACKERS
    constants: Annotated[Path | None, Group("tracking")] = None
    """File of speeds (made by: python -m jobs.plan --measure --constants FILE) by which the run is planned: at its end
    it prints planned and used seconds and memory. Default: built-in speeds."""
    config: PathOrUri | None = None
    """Folder of an earlier run, or its config.json, whose options become the defaults of this run."""


OPTIONS = RunCommand


def parse_arguments(arguments: list[str]) -> RunCommand:
    """Parse a command line; --config or --recipe gives the defaults of the options that it leaves out.

    A recipe of "auto" is left to the run, which reads the task.
    """
    default, text = recipe_defaults(arguments), value_of("--config", arguments)
    if text is not None and value_of("--recipe", arguments) is not None:
        raise BadOption("--config and --recipe both give the defaults of other options; give one of them")
    if text is not None:
        path = storage_path(text)
        run = al_ray.load_run(path.parent if path.name == "config.json" else path)
        default = RunCommand(run=run.config, recipe="paper", out=tyro.MISSING)
    else:
        default = default or recipe_unless_chosen(arguments)
    description = "One active-learning run. Rerun the same command to resume it."
    return parse_options(RunCommand, "run", description, arguments, default)


def main() -> None:
    """Run to the end, and print a table of all rounds."""
    options = parse_arguments(sys.argv[1:])
    config = options.run
    if options.match is not None:
        config = replace(config, matched=al_ray.load_run(options.match).outcomes())
    job = al_ray.RunJob(
        config, options.cluster, replace(options.oracle_options, llm=options.llm), options.stop, options.recipe,
        options.tracking, options.page, True, options.constants,
    )  # fmt: skip
    for line in run_watched(job, options.out).in_words():
        print(as_called(line))


def run_watched(job: "al_ray.RunJob", out: StoragePath) -> "al_ray.Run":
    """Run to the end, continuing from the folder, with progress and a line for each round."""
    progress, plan = Progress(), list(labelling_plan(job.config, job.oracle_options))

    def on_progress(stage: str, done: int, total: int) -> None:
        # The first stage: the options are valid, and the first pair of a new run is not chosen yet.
        if plan and not (out / "round-001").exists():
            print("\n".join(plan), flush=True)
        plan.clear()
        progress(stage, done, total)

    def on_round(line: dict[str, Any]) -> None:
        progress.close()
        print(as_called(al_ray.format_round(line)), flush=True)
        if not oracle_kind(job.config.oracle).free:
            print(*map(as_called, al_ray.load_run(out).outlook()), sep="\n", flush=True)

    def on_page(address: str) -> None:
        print(f"label at {address} (every answer is stored as it is given)", flush=True)

    run = al_ray.run_job(job, out, on_round=on_round, on_progress=on_progress, on_page=on_page, called=as_called)
    if run.stopped is not None:
        print(as_called(run.stopped))
    return run


def labelling_plan(config: al_ray.RunConfig, oracle_options: OracleConfig) -> Iterator[str]:
    """Yield the plan of a run whose labels people or a function give; nothing if they are free."""
    sizes, kind = config.batches, oracle_kind(config.oracle)
    if kind.free:
        return
    rounds = f"{len(sizes)} round{'s' * (len(sizes) > 1)} of {', '.join(f'{size:,}' for size in sizes[:6])}"
    every, dev = sum(sizes) + len(sizes) * config.dev_labels, ""
    if config.dev_labels:
        dev = f", and {config.dev_labels:,} of dev after each"
    yield f"plan: {rounds}{', ...' * (len(sizes) > 6)} pairs{dev}, {every:,} labels in all"
    if kind.people:
        yield f"at {PACE} seconds a pair that is {every * PACE / 3600:,.1f} hours of labelling"
    elif (price := oracle_options.cost_per_pair) is not None:
        yield f"at --cost-per-pair {price:,.6g} they cost {every * price:,.6g}"
    yield f"--rounds, --first-batch{', --dev-labels' * bool(config.dev_labels)} and --growth change it, also later"


def run(
    config: al_ray.RunConfig,
    cluster: ClusterConfig,
    out: StoragePath,
    oracle_options: OracleConfig = ORACLE,
    stop: al_ray.StopConfig = NEVER,
) -> "al_ray.Run":
    """Run to the end as `run_watched` does."""
    return run_watched(al_ray.RunJob(config, cluster, oracle_options, stop), out)
