"""Options of the command run."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from al_ray.active_learning.config import PAPER, RunConfig
from al_ray.active_learning.stopping import NEVER, StopConfig
from al_ray.apps.annotating.options import PageOptions
from al_ray.cli._shared.entry import PathOrUri, parse_options, value_of
from al_ray.cli._shared.recipe import recipe_defaults, recipe_unless_chosen
from al_ray.core.config.bounds import RARE, Group
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.llm import LlmConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.config.recipes import RecipeOptions
from al_ray.core.config.serialization import part
from al_ray.core.config.trackers import NO_TRACKERS, TrackerOptions
from al_ray.core.errors import BadOption
from al_ray.runs.run_state import bound_config
from al_ray.storage.uri import storage_path


@dataclass(frozen=True, kw_only=True)
class Options(RunConfig, RecipeOptions):
    """One active-learning run; rerun the same command to resume it."""

    # It is a group of its own: --llm.model, and not --model.
    UNUSED: ClassVar[tuple[str, ...]] = ("oracle_options.llm",)

    out: PathOrUri
    """Run folder, a path or a URI such as s3://bucket/run. If it holds a run, the run is resumed."""
    cluster: tyro.conf.OmitArgPrefixes[ClusterConfig] = field(default_factory=ClusterConfig)
    oracle_options: tyro.conf.OmitArgPrefixes[OracleConfig] = field(
        default_factory=OracleConfig, metadata={"heading": "oracle"}
    )
    llm: LlmConfig = field(default_factory=LlmConfig)
    page: PageOptions = field(default_factory=PageOptions)
    stop: StopConfig = NEVER
    match: Annotated[PathOrUri | None, PAPER, RARE] = None
    """For stratified-match: a complete run; this one draws as many positives and negatives as that one labelled."""
    tracking: tyro.conf.OmitArgPrefixes[TrackerOptions] = NO_TRACKERS
    constants: Annotated[Path | None, Group("tracking")] = None
    """File of speeds (made by: python -m jobs.plan --measure --constants FILE) by which the run is planned: at its end
    it prints planned and used seconds and memory. Default: built-in speeds."""
    config: PathOrUri | None = None
    """Folder of an earlier run, or its config.json, whose options become the defaults of this run."""

    @property
    def run(self) -> RunConfig:
        """The options that decide the results."""
        return part(self, RunConfig)


def parse_arguments(arguments: list[str]) -> Options:
    """Parse a command line; --config or --recipe gives the defaults of the options that it leaves out.

    A recipe of "auto" is left to the run, which reads the task.
    """
    default, text = recipe_defaults(arguments), value_of("--config", arguments)
    if text is not None and value_of("--recipe", arguments) is not None:
        raise BadOption("--config and --recipe both give the defaults of other options; give one of them")
    if text is not None:
        path = storage_path(text)
        config = bound_config(path.parent if path.name == "config.json" else path)
        options = {f.name: getattr(config, f.name) for f in fields(RunConfig)}
        default = Options(**options, recipe="paper", out=tyro.MISSING)
    else:
        default = default or recipe_unless_chosen(arguments)
    description = "One active-learning run. Rerun the same command to resume it."
    return parse_options(Options, "run", description, arguments, default)
