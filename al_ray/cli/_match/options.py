"""Options of the command match."""

from dataclasses import dataclass, field
from typing import ClassVar

import tyro

from al_ray.apps.matching.options import MatchOptions
from al_ray.cli._shared.entry import PathOrUri
from al_ray.core.config.cluster import ClusterConfig


@dataclass(frozen=True, kw_only=True)
class Options(MatchOptions):
    """Match texts with each other, or two sets of texts, by a trained model."""

    UNUSED: ClassVar[tuple[str, ...]] = ("cluster.checkpoint_seconds",)

    model: PathOrUri
    """Run folder, whose last complete round has the model."""
    out: PathOrUri
    """Folder of the matches. Rerun the same command after a stop."""
    cluster: tyro.conf.OmitArgPrefixes[ClusterConfig] = field(default_factory=ClusterConfig)
