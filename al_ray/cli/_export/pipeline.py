"""Export a model; print what was checked and where it is."""

from al_ray.api.exporting import export_model
from al_ray.apps.exporting.options import ExportOptions
from al_ray.cli._export.options import Options
from al_ray.cli._shared.called import as_called
from al_ray.cli._shared.progress import Progress
from al_ray.core.config.serialization import part


def run_command(options: Options) -> None:
    """Export and print."""
    own = part(options, ExportOptions)
    written = export_model(options.model, own, options.out, round=options.round, on_progress=Progress())
    print(*map(as_called, written.summary), sep="\n")
    print(f"wrote {written.path}; what the model is and is not: {written.path / 'README.md'}")
