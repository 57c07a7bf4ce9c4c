"""Options of the command train."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import tyro

from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.cli._shared.entry import PathOrUri
from al_ray.core.config.bounds import Between
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.serialization import part
from al_ray.datasets.tables.format_options import ColumnNames, TableOptions


@dataclass(frozen=True, kw_only=True)
class Options(TrainConfig, TableOptions):
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
    dry_run: bool = False
    """Print how many pairs and steps there are to do, and end."""
    cluster: tyro.conf.OmitArgPrefixes[ClusterConfig] = field(default_factory=ClusterConfig)

    @property
    def config(self) -> TrainConfig:
        """The options that decide the results."""
        return part(self, TrainConfig)
