"""Options of the command export."""

from dataclasses import dataclass

from al_ray.apps.exporting.options import ExportOptions
from al_ray.cli._shared.entry import PathOrUri


@dataclass(frozen=True, kw_only=True)
class Options(ExportOptions):
    """Export a trained model."""

    model: PathOrUri
    """Run folder, whose last complete round has the model; or the model folder of a round, in its run or copied out of
    it. For a copy the card has no task, labels or figures."""
    out: PathOrUri
    """Folder of the export, new or empty, or an export of the same model and format, which is replaced if something
    changed."""
