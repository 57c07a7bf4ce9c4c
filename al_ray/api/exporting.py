"""Export a trained model: as a folder of sentence-transformers or as an ONNX graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from al_ray.api.run_reading import Run
from al_ray.apps.exporting import pipeline
from al_ray.apps.exporting.options import ExportOptions
from al_ray.apps.matching.model import open_model
from al_ray.core.progress import OnProgress, no_progress
from al_ray.metrics.handover import RoundName
from al_ray.runs.place import check_lasting_path
from al_ray.storage.uri import StoragePath, storage_path


@dataclass(frozen=True)
class ExportFolder:
    """A folder of an export: its files are described in docs/export.md.

    record: the content of export.json. summary: the lines that the command prints.
    """

    path: Path
    record: Mapping[str, Any]
    summary: tuple[str, ...]


def export_model(
    model: Run | str | StoragePath,
    options: ExportOptions,
    out: str | StoragePath,
    *,
    round: RoundName = None,
    on_progress: OnProgress = no_progress,
) -> ExportFolder:
    """Export a model into the folder `out`, with its scorer and a model card.

    model: a run, or its folder: the model that is best by evidence (docs/handover.md), or that of `round`: a number, 0
    for the untrained encoder, or "last"; or the model folder of a round, in its run or copied out of it. The same call
    again changes nothing. An ONNX graph is compared with torch before it is kept, and that of a matcher with its p.

    Examples:
        >>> options = al_ray.ExportOptions(format="sentence-transformers", licence="apache-2.0")
        >>> exported = al_ray.export_model(folder / "run", options, folder / "export")
        >>> exported.record["dimension"], (exported.path / "README.md").exists()
        (32, True)

    Raises:
        BadOption: if the model has no such export, or an ONNX graph differs from torch by more than 0.0001, or a
            package of the extra onnx is missing.
        BadFile: if a file of the model cannot be read, or the folder cannot be written.
        WrongFolder: if `out` holds an export of another model or format, or something else.
    """
    folder = storage_path(str(out))
    check_lasting_path(folder)
    opened = open_model(model.path if isinstance(model, Run) else storage_path(str(model)), round)
    result = pipeline.export(options, opened, folder, on_progress)
    return ExportFolder(result.path, result.record, tuple(result.summary))
