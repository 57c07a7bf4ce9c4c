"""The options of jobs.run."""

from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Annotated

import tyro

from al_ray.active_learning.config import PAPER, RunConfig
from al_ray.active_learning.stopping import NEVER, StopConfig
from al_ray.cli._shared.entry import PathOrUri, options
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.config.serialization import part
from al_ray.storage.uri import storage_path


@dataclass(frozen=True, kw_only=True)
class Output:
    """The option that stands first in --help, before those of RunConfig."""

    out: PathOrUri
    """Run folder, a path or a URI such as s3://bucket/run. If it holds a run, the run is resumed."""


@dataclass(frozen=True, kw_only=True)
class Options(RunConfig, Output):
    """One active-learning run; rerun the same command to resume it."""

    cluster: tyro.conf.OmitArgPrefixes[ClusterConfig] = field(default_factory=ClusterConfig)
    asking: tyro.conf.OmitArgPrefixes[OracleConfig] = field(
        default_factory=OracleConfig, metadata={"heading": "oracle"}
    )
    stop: StopConfig = NEVER
    match: Annotated[PathOrUri | None, PAPER] = None
    """For stratified-match: a complete run; this one draws as many positives and negatives as that one labelled."""
    config: PathOrUri | None = None
    """Folder of an earlier run, or its config.json, whose options become the defaults of this run."""

    @property
    def run(self) -> RunConfig:
        """The options that decide the results."""
        return part(self, RunConfig)


def parsed(arguments: list[str]) -> Options:
    """The options of a command line; those of --config stand where the line is silent."""
    default = None
    # Both spellings that tyro takes; a --config without a path is tyro's to refuse.
    named = [value for option, value in pairwise(arguments) if option == "--config"]
    named += [argument.removeprefix("--config=") for argument in arguments if argument.startswith("--config=")]
    if named:
        from al_ray.runs.run_folder import bound_config

        path = storage_path(named[-1])
        kept = bound_config(path.parent) if path.name == "config.json" else bound_config(path)
        default = Options(**{f.name: getattr(kept, f.name) for f in fields(RunConfig)}, out=tyro.MISSING)
    about = "One active-learning run. Rerun the same command to resume it."
    return options(Options, "run", about, arguments, default)
