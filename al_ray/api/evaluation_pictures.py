"""Plots of an evaluation: reliability of probabilities, and precision by recall."""

from collections.abc import Iterator

from al_ray.apps.reporting.plots.evaluation_plots import precision_recall_plot, reliability_plot
from al_ray.metrics.calibration import Reliability
from al_ray.metrics.evaluation import Evaluation
from al_ray.storage.files import write_pictures
from al_ray.storage.uri import StoragePath


def write_plots(
    reliability: Reliability, evaluation: Evaluation, folder: StoragePath, end: str = ""
) -> Iterator[tuple[StoragePath, tuple[str, ...]]]:
    """Write each plot into a folder, and yield its path without an extension, and its extensions such as svg.

    end: of their names, after the split.
    """
    pictures = {
        "reliability": reliability_plot(reliability.table()),
        "precision-recall": precision_recall_plot({evaluation.split: evaluation.curve}),
    }
    for name, files in pictures.items():
        path = folder / f"{name}-{evaluation.split}{end}"
        write_pictures(path, files)
        yield path, tuple(files)
