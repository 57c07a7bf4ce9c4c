"""The command export: python -m jobs.export --model RUN --format FORMAT --out DIR

As a folder of sentence-transformers or as an ONNX graph, with scorer and model card (docs/export.md)
"""

from dataclasses import dataclass

import al_ray
from al_ray.cli._shared.called import as_called
from al_ray.cli._shared.entry import parse_options
from al_ray.cli._shared.option_types import PathOrUri, RoundName
from al_ray.cli._shared.progress import Progress
from al_ray.core.config.serialization import part


@dataclass(frozen=True, kw_only=True)
class ExportCommand(al_ray.ExportOptions):
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


OPTIONS = ExportCommand


def main() -> None:
    """Parse the options, export and print."""
    options = parse_options(OPTIONS, "export", "A trained model as sentence-transformers or ONNX, with a model card.")
    own = part(options, al_ray.ExportOptions)
    written = al_ray.export_model(options.model, own, options.out, round=options.round, on_progress=Progress())
    print(*map(as_called, written.summary), sep="\n")
    print(f"wrote {written.path}; what the model is and is not: {written.path / 'README.md'}")
