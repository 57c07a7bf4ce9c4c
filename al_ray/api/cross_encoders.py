"""Evaluate a trained cross-encoder: over all pairs, on stated pairs, and compared with a run."""

from dataclasses import dataclass
from typing import Any

from al_ray.api.evaluation import trained_round
from al_ray.api.run_reading import Run
from al_ray.apps.cross_encoder import evaluation
from al_ray.apps.cross_encoder.evaluation import open_job
from al_ray.apps.cross_encoder.folder import is_cross_encoder
from al_ray.apps.cross_encoder.sharded_scorer import CrossEncoderJob
from al_ray.cluster.session import session
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.progress import OnProgress
from al_ray.metrics.evaluation import Comparison, Evaluation
from al_ray.storage.uri import StoragePath

__all__ = ["CrossEncoder", "is_cross_encoder", "open_cross_encoder"]


@dataclass(frozen=True)
class CrossEncoder:
    """A trained cross-encoder and a split on which it is evaluated."""

    job: CrossEncoderJob
    cluster: ClusterConfig
    split: str

    def evaluate(self) -> Evaluation:
        """Evaluate over all pairs of the split, which is estimated from near and random negatives."""
        with session(self.cluster, trainers=0):
            return evaluation.evaluate_over_all_pairs(self.job, self.split)

    def evaluate_stated(self) -> dict[str, Any]:
        """Evaluate on the stated pairs of the split alone; return the metrics by name."""
        with session(self.cluster, trainers=0):
            return evaluation.evaluate_on_labelled_pairs(self.job, self.split)

    def compare(self, run: Run) -> Comparison:
        """Return its average precision minus that of the last round of a run of the same task, on the same pairs.

        Raises:
            BadOption: if the run is of another task.
        """
        with session(self.cluster, trainers=0):
            return evaluation.compare_with_run(self.job, run.config, run.folder, trained_round(run, None), self.split)


def open_cross_encoder(
    path: StoragePath, split: str, random_pairs: int | None, cluster: ClusterConfig, on_progress: OnProgress
) -> CrossEncoder:
    """Open the folder of a cross-encoder (`al_ray.train_cross_encoder`), to evaluate it on a split.

    random_pairs: size of the random stratum; None for that of its training.

    Raises:
        BadFile: if the folder cannot be read.
        MissingSplit: if its task lacks the split.
    """
    job = open_job(path, cluster, on_progress, random_pairs)
    job.task.split(split)
    return CrossEncoder(job, cluster, split)
