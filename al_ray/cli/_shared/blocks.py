"""Blocks of options that commands are composed of: classes of options of the library, whole or in part."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.oracle import OracleConfig


@dataclass(frozen=True)
class Block:
    """The mark of a field of a command whose type is a class of options.

    heading: of the group of the options; that of the field's name if it is empty.
    without: fields of the class that are no options of the command, with dots for fields of fields; they keep their
        defaults.
    merged: whether the options stand among those of the command itself, as if its class had their fields; otherwise
        they have a group of their own. The field then has no default; `metadata={"defaults": ...}` gives those of
        options by name that are not the class's own.
    """

    heading: str = ""
    without: tuple[str, ...] = ()
    merged: bool = False


Cluster = tyro.conf.OmitArgPrefixes[ClusterConfig]
"""The workers of a command that trains."""
SearchCluster = Annotated[Cluster, Block(without=("checkpoint_seconds",))]
"""The workers of a command that embeds and searches: it trains nothing, so there are no checkpoints of a training."""
TrainingCluster = Annotated[
    Cluster, Block(without=("mapped_above", "keep_vectors", "mixed_hardware", "shared_storage"))
]
"""The workers of a command that trains and holds no pool of texts, whose vectors the other options are about."""
GridCluster = Annotated[Cluster, Block(without=("ray",))]
"""The workers of a run of a grid, which always has Ray."""
OracleCalls = Annotated[tyro.conf.OmitArgPrefixes[OracleConfig], Block("oracle", without=("llm",))]
"""Calls of an oracle. The options of a language model are a group of their own: --llm.model, and not --model."""
