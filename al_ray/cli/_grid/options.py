"""Options of the command grid."""

from dataclasses import dataclass, field
from typing import Annotated, Any

import tyro

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.stopping import NEVER, StopConfig
from al_ray.apps.grid.spec import GridConfig, read_grid_file
from al_ray.cli._shared.blocks import Block, GridCluster, OracleCalls
from al_ray.cli._shared.entry import parse_options, value_of
from al_ray.cli._shared.option_types import Numbers, PathOrUri, Words
from al_ray.cli._shared.recipe import recipe_defaults
from al_ray.core.config.bounds import Group
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.config.recipes import RecipeName, RecipeOptions
from al_ray.core.config.serialization import from_dict
from al_ray.core.errors import BadFile, BadOption
from al_ray.storage.uri import StoragePath, storage_path

Scheduling = Annotated[tyro.conf.OmitArgPrefixes[GridConfig], Block("grid")]


@dataclass(frozen=True, kw_only=True)
class GridCommand(RecipeOptions):
    """A grid of runs; rerun the same command to resume."""

    # A run of stratified-match draws as many as another run of the grid.
    run: Annotated[RunConfig, Block(without=("matched",), merged=True)]
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
    stop: StopConfig = NEVER
    scheduling: Scheduling = field(default_factory=GridConfig)
    recipe: Annotated[RecipeName, Group(RecipeOptions.HEADING)] = "paper"
    """Defaults of the options of training and scoring, as those of jobs.run, but none is chosen by the kind of task:
    the runs of a grid are compared with each other, and with the paper's."""
    dry_run: bool = False
    """Print the runs, the labels of each, and how many have room at a time; start no run."""
    file: PathOrUri | None = None
    """A grid file, TOML with [axes] and [options], or an earlier grid.json, whose values become the defaults."""


def parse_arguments(arguments: list[str]) -> GridCommand:
    """Parse a command line; --file or --recipe gives the defaults of the options that it leaves out."""
    default, path = recipe_defaults(arguments), value_of("--file", arguments)
    if path is not None and default:
        raise BadOption("--file and --recipe both give the defaults of other options; give one of them")
    if path is not None:
        config, axes = grid_file(storage_path(path))
        default = GridCommand(run=config, **axes, out=tyro.MISSING)
    description = "A grid of runs. Rerun the same command to resume interrupted runs and to restart failed ones."
    options: GridCommand = parse_options(GridCommand, "grid", description, arguments, default)
    names = {argument.partition("=")[0] for argument in arguments}
    for one, axis in (("strategy", "strategies"), ("seed", "seeds"), ("encoder", "encoders")):
        if f"--{one}" in names and getattr(options, axis):
            raise BadOption(f"--{one} is given, and so is the axis --{axis}; give --{axis} alone")
    return options


def grid_file(path: StoragePath) -> tuple[RunConfig, dict[str, Any]]:
    """Read a grid file: options, and values of axes by name; BadFile for a bad one."""
    content = read_grid_file(path)
    kinds = {"strategies": str, "seeds": int, "encoders": str, "budgets": int}
    for name, values in content["axes"].items():
        kind = kinds.get(name)
        if kind is None or not isinstance(values, list) or not all(type(value) is kind for value in values):
            raise BadFile(f"{path}: {name} = {values!r} is not an axis; [axes] may hold lists {', '.join(kinds)}")
    try:
        config = from_dict(RunConfig, content["options"])
    except BadOption as error:
        raise BadFile(f"{path}: {error}") from error
    return config, {name: tuple(values) for name, values in content["axes"].items()}
