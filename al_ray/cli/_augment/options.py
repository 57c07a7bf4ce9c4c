"""Options of the command augment."""

from dataclasses import dataclass, field

from al_ray.apps.papers.augmentation.options import AugmentConfig
from al_ray.cli._shared.blocks import TrainingCluster
from al_ray.cli._shared.option_types import PathOrUri
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.serialization import part


@dataclass(frozen=True, kw_only=True)
class AugmentCommand(AugmentConfig):
    """Train on gold and silver labels; rerun the same command to resume."""

    out: PathOrUri
    """Folder of the models. If it holds this augmentation, it is resumed."""
    dry_run: bool = False
    """Print how many pairs and steps there are to do, and end."""
    cluster: TrainingCluster = field(default_factory=ClusterConfig)

    @property
    def config(self) -> AugmentConfig:
        """The options that decide the results."""
        return part(self, AugmentConfig)
