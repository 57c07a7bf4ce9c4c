"""Options of the command mine."""

from dataclasses import dataclass

from al_ray.apps.papers.mining.options import MiningConfig
from al_ray.cli._shared.option_types import PathOrUri


@dataclass(frozen=True, kw_only=True)
class MineCommand(MiningConfig):
    """Mine negatives and report the share of false negatives."""

    out: PathOrUri | None = None
    """Folder for a table of labels of each miner and for the results. Default: nothing is written."""
    run: PathOrUri | None = None
    """Run whose last model the miner `model` uses. Default: --encoder, untrained."""
