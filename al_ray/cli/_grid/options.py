"""The options of jobs.grid."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Annotated, Any

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.stopping import NEVER, StopConfig
from al_ray.apps.grid.spec import GridConfig, read_grid_file
from al_ray.cli._shared.entry import PathOrUri, options
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.config.serialization import from_dict
from al_ray.core.errors import BadFile, BadOption
from al_ray.storage.uri import StoragePath, storage_path


def listed(kind: Callable[[str], Any], name: str) -> Any:
    """An option that takes several values, parted by commas or spaces."""
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar=f"{name}[,{name}...]",
        instance_from_str=lambda words: tuple(kind(one) for one in " ".join(words).replace(",", " ").split()),
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda value: [",".join(map(str, value))],
    )


Words = Annotated[tuple[str, ...], listed(str, "NAME")]
Numbers = Annotated[tuple[int, ...], listed(int, "N")]


@dataclass(frozen=True, kw_only=True)
class Options(RunConfig):
    """A grid of runs, resumable by the same command."""

    out: PathOrUri
    """Grid folder, a path or a URI such as s3://bucket/grid: made if it is not there, gone on with if it is."""
    strategies: Words = ()
    """Axis: strategies; --strategy alone when not given."""
    seeds: Numbers = ()
    """Axis: seeds; --seed alone when not given."""
    encoders: Words = ()
    """Axis: encoders; --encoder alone when not given."""
    budgets: Numbers = ()
    """Axis: total labels of a run. n_1 is the largest first batch with which the rounds do not exceed it."""
    cluster: tyro.conf.OmitArgPrefixes[ClusterConfig] = field(default_factory=ClusterConfig)
    asking: tyro.conf.OmitArgPrefixes[OracleConfig] = field(
        default_factory=OracleConfig, metadata={"heading": "oracle"}
    )
    stop: StopConfig = NEVER
    how: tyro.conf.OmitArgPrefixes[GridConfig] = field(default_factory=GridConfig, metadata={"heading": "grid"})
    dry_run: bool = False
    """Say which runs there would be and what each costs, and whether they have room; start nothing."""
    file: PathOrUri | None = None
    """A grid file, TOML with [axes] and [options], or an earlier grid.json: its values are the defaults of these."""


def parsed(arguments: list[str]) -> Options:
    """The options of a command line; those of --file stand where the line is silent."""
    default = None
    named = [value for option, value in pairwise(arguments) if option == "--file"]
    named += [argument.removeprefix("--file=") for argument in arguments if argument.startswith("--file=")]
    if named:
        kept, axes = grid_file(storage_path(named[-1]))
        options_there = {f.name: getattr(kept, f.name) for f in fields(RunConfig)}
        default = Options(**options_there, **axes, out=tyro.MISSING)
    about = "A grid of runs; the same command goes on where an earlier one stopped, and tries again what failed."
    made = options(Options, "grid", about, arguments, default)
    given = {argument.partition("=")[0] for argument in arguments}
    for one, axis in (("strategy", "strategies"), ("seed", "seeds"), ("encoder", "encoders")):
        if f"--{one}" in given and getattr(made, axis):
            raise BadOption(f"--{one} is given, and so is the axis --{axis}; give --{axis} alone")
    return made


def grid_file(path: StoragePath) -> tuple[RunConfig, dict[str, Any]]:
    """What a grid file holds: options, and values of axes by name; BadFile when they are none."""
    content = read_grid_file(path)
    kinds = {"strategies": str, "seeds": int, "encoders": str, "budgets": int}
    for name, values in content["axes"].items():
        kind = kinds.get(name)
        if kind is None or not isinstance(values, list) or not all(type(value) is kind for value in values):
            raise BadFile(f"{path}: {name} = {values!r} is no axis; [axes] may hold lists {', '.join(kinds)}")
    try:
        config = from_dict(RunConfig, content["options"])
    except BadOption as error:
        raise BadFile(f"{path}: {error}") from error
    return config, {name: tuple(values) for name, values in content["axes"].items()}
