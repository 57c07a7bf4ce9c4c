"""Options of the command export."""

from dataclasses import dataclass

from al_ray.apps.exporting.options import ExportOptions
from al_ray.cli._shared.entry import PathOrUri
from al_ray.metrics.handover import RoundName


@dataclass(frozen=True, kw_only=True)
class Options(ExportOptions):
    """Export a trained model."""

    model: PathOrUri
    """Run folder, of which the best model is exported (docs/handover.md); or the model folder of a round, in its run or
    copied out of it. For a copy the card has no task, labels or figures."""
    round: RoundName = None
    """Round of the run whose model is exported; 0 is the untrained encoder, last the last one. Default: the best by the
    figures of the run."""
    out: PathOrUri
    """Folder of the export, new or empty, or an export of the same model and format, which is replaced if something
    changed."""
