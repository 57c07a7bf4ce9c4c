"""The command grid: python -m jobs.grid --task TASK --out GRID --strategies uncertainty,static --seeds 0,1,2

Every option of the command run, with strategies, seeds, encoders and budgets as axes. Rerun the same command to resume
interrupted runs and to restart failed ones. Every option: --help.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import tyro

import al_ray
from al_ray.api.grid_files import read_grid
from al_ray.cli._shared.blocks import Block, GridCluster, OracleCalls
from al_ray.cli._shared.called import as_called
from al_ray.cli._shared.entry import parse_options, value_of
from al_ray.cli._shared.option_types import Numbers, PathOrUri, Words, storage_path
from al_ray.cli._shared.progress import Progress
from al_ray.cli._shared.recipe import recipe_defaults
from al_ray.core.config.bounds import Group
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.config.recipes import RecipeName, RecipeOptions
from al_ray.core.errors import BadOption

NEVER = al_ray.StopConfig()
Scheduling = Annotated[tyro.conf.OmitArgPrefixes[al_ray.GridConfig], Block("grid")]


@dataclass(frozen=True, kw_only=True)
class GridCommand(RecipeOptions):
    """A grid of runs; rerun the same command to resume."""

    # A run of stratified-match draws as many as another run of the grid.
    run: Annotated[al_ray.RunConfig, Block(without=("matched",), merged=True)]
    """The options of each run that no axis varies."""
    out: PathOrUri
    """Grid folder, a path or a URI such as s3://bucket/grid. If it holds this grid, it is resumed."""
    strategies: Words = ()
    """Axis: strategies. Default: --strategy."""
    seeds: Numbers = ()
    """Axis: seeds. Default: --seed."""
    encoders: Words = ()
    """Axis: encoders. Default: --encoder."""
    budgets: Numbers = ()
    """Axis: total labels of a run. --first-batch is then the largest with which all rounds stay within it."""
    cluster: GridCluster = field(default_factory=ClusterConfig)
    oracle_options: OracleCalls = field(default_factory=OracleConfig)
    stop: al_ray.StopConfig = NEVER
    scheduling: Scheduling = field(default_factory=al_ray.GridConfig)
    recipe: Annotated[RecipeName, Group(RecipeOptions.HEADING)] = "paper"
    """Defaults of the options of training and scoring, as those of jobs.run, but none is chosen by the kind of task:
    the runs of a grid are compared with each other, and with the paper's."""
    dry_run: bool = False
    """Print the runs, the labels of each, and how many have room at a time; start no run."""
    file: PathOrUri | None = None
    """A grid file, TOML with [axes] and [options], or an earlier grid.json, whose values become the defaults."""


OPTIONS = GridCommand


def parse_arguments(arguments: list[str]) -> GridCommand:
    """Parse a command line; --file or --recipe gives the defaults of the options that it leaves out."""
    default, path = recipe_defaults(arguments), value_of("--file", arguments)
    if path is not None and default:
        raise BadOption("--file and --recipe both give the defaults of other options; give one of them")
    if path is not None:
        config, axes = read_grid(storage_path(path))
        default = GridCommand(run=config, **axes, out=tyro.MISSING)
    description = "A grid of runs. Rerun the same command to resume interrupted runs and to restart failed ones."
    options: GridCommand = parse_options(GridCommand, "grid", description, arguments, default)
    names = {argument.partition("=")[0] for argument in arguments}
    for one, axis in (("strategy", "strategies"), ("seed", "seeds"), ("encoder", "encoders")):
        if f"--{one}" in names and getattr(options, axis):
            raise BadOption(f"--{one} is given, and so is the axis --{axis}; give --{axis} alone")
    return options


def main() -> None:
    """Parse the options, run and print; exit code 1 if a run is not complete."""
    if not run_command(parse_arguments(sys.argv[1:])):
        sys.exit(1)


def run_command(options: GridCommand) -> bool:
    """Run and print; return whether every run is complete, or with --dry-run whether there is room for one."""
    job = job_of(options)
    if options.dry_run:
        job = job.checked()
        print(job.table())
        count, actors = job.room()
        print(f"there is room for {count} runs at a time, each with {actors} actors")
        return count > 0
    return run_and_print(job)


def job_of(options: GridCommand) -> "al_ray.GridJob":
    """Return the grid that the options define."""
    config = options.run
    strategies, seeds = options.strategies or (config.strategy,), options.seeds or (config.seed,)
    axes = al_ray.Axes(strategies, seeds, options.encoders or (config.encoder,), options.budgets)
    return al_ray.plan_grid(
        config, axes, options.out, cluster=options.cluster, scheduling=options.scheduling,
        oracle_options=options.oracle_options, stop=options.stop,
    )  # fmt: skip


def run_and_print(job: "al_ray.GridJob") -> bool:
    """Run what is not complete, print a line for each round and then the results; return whether every run is."""
    progress = Progress()

    def on_round(cell: Any, line: Mapping[str, Any]) -> None:
        progress.close()
        print(as_called(format_round(cell, line)), flush=True)

    records = job.run(progress, on_round)
    for line in (*job.result_lines(records), f"results: {job.out}"):
        print(as_called(line))
    return not any(record.trouble for record in records)


def format_round(cell: Any, line: Mapping[str, Any]) -> str:
    """Format the metrics of a round of a run."""
    precision = "-" if line["average_precision"] is None else f"{100 * line['average_precision']:.1f}"
    return (
        f"{cell.name}: round {line['round']} of {len(cell.config.batches)}, {line['labels']:,} labels, "
        f"{line['positives']:,} positives, AP {precision}%, {sum(line['seconds'].values()):.0f} s"
    )
