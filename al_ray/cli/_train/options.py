"""TrainCommand of the command train."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import tyro

from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.cli._shared.entry import parse_options, value_of
from al_ray.cli._shared.option_types import PathOrUri
from al_ray.cli._shared.recipe import recipe_defaults
from al_ray.core.config.bounds import Between, Group
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.recipes import RecipeName, RecipeOptions
from al_ray.core.config.serialization import part
from al_ray.core.errors import BadOption
from al_ray.datasets.tables.format_options import ColumnNames, TableOptions


@dataclass(frozen=True, kw_only=True)
class TrainCommand(TrainConfig, TableOptions):
    """Train a model on existing labels; rerun the same command to resume."""

    # There is one round, whose pairs are given.
    UNUSED: ClassVar[tuple[str, ...]] = ("training.start", "search.ordered_pairs")

    out: PathOrUri
    """Folder of the model. If it holds this training, the training is resumed. With cosine it is a run folder of one
    round."""
    rerank: PathOrUri | None = None
    """Concat: a run folder, whose last model retrieves the --top pairs that the concat model then ranks; average
    precision of both stages over all pairs of every --evaluation.splits."""
    top: Annotated[int, Between(1, 10**9)] = 10_000
    """K: pairs that --rerank retrieves."""
    columns: ColumnNames = "left_id,right_id,label"
    """Columns of a table of labels: the two ids and the label (1/0, yes/no). Two columns: all are matches."""
    recipe: Annotated[RecipeName, Group(RecipeOptions.HEADING)] = "paper"
    """Cosine: defaults of the options of training, each of which can be given beside it (docs/recipes.md). Pairs are
    ranked by the cosine with each recipe. `--recipe tuned --help all` shows the values of tuned."""
    dry_run: bool = False
    """Print how many pairs and steps there are to do, and end."""
    cluster: tyro.conf.OmitArgPrefixes[ClusterConfig] = field(default_factory=ClusterConfig)

    @property
    def config(self) -> TrainConfig:
        """The options that decide the results."""
        return part(self, TrainConfig)


def parse_arguments(arguments: list[str]) -> TrainCommand:
    """Parse a command line; --recipe gives the defaults of the options of training."""
    default = recipe_defaults(arguments, ("training",))
    description = "Train a model on existing labels, and evaluate it over all pairs."
    cross_encoder = value_of("--model", arguments) != "cosine"
    if cross_encoder and value_of("--recipe", arguments) == "tuned" and not {"-h", "--help"} & set(arguments):
        raise BadOption("--recipe tuned is for --model cosine; give that, or leave --recipe out")
    if value_of("--recipe", arguments) == "records":
        raise BadOption("--recipe records trains no encoder; give it to jobs.run, or leave it out")
    options: TrainCommand = parse_options(TrainCommand, "train", description, arguments, default)
    return options
