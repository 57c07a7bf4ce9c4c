"""Train on existing labels: those of a run, of a table, or stated in the task."""

from dataclasses import replace

from al_ray.api.run_reading import Run
from al_ray.api.runs import CLUSTER, run
from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.apps.cross_encoder.pipeline import train_and_evaluate
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.labels import Labelled
from al_ray.core.progress import OnProgress, no_progress
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task
from al_ray.metrics.evaluation import Evaluation
from al_ray.runs.existing_labels import read_existing_labels, write_first_round
from al_ray.runs.place import refuse_inside, refuse_lost
from al_ray.runs.run_folder import opened
from al_ray.storage.uri import StoragePath, storage_path


def train_cross_encoder(
    config: TrainConfig,
    out: str | StoragePath,
    *,
    cluster: ClusterConfig = CLUSTER,
    on_progress: OnProgress = no_progress,
) -> dict[str, Evaluation]:
    """Train a cross-encoder on existing labels, or resume this training in `out`; return the evaluation of each split.

    config.labels: a run folder, a table with columns left_id, right_id and label, or "stated". The splits are those of
    config.evaluation; average precision over all their pairs is estimated from near and random negatives. Works in
    this process, or on Ray (docs/api.md).

    Examples:
        >>> config = al_ray.TrainConfig(
        ...     task=str(folder / "task"), labels=str(folder / "run"), encoder="random-bert", encoder_layers=1,
        ...     max_length=24, evaluation=al_ray.EvaluationConfig(("test",), near_neighbours=2, random_pairs=50),
        ... )
        >>> al_ray.train_cross_encoder(config, folder / "cross-encoder")["test"].total_pairs
        1378

    Raises:
        BadOption: if options do not fit together or the labels are of another task.
        BadFile: if there are no labels, or a table of labels has a bad row; the message names the row.
        WrongFolder: if `out` holds another training.
    """
    path, config = storage_path(str(out)), replace(config, model="concat")
    task, labelled = _read(config, path)
    results = train_and_evaluate(config, task, labelled, path, cluster, None, on_progress)
    return {evaluation.split: evaluation for evaluation, _ in results}


def train_bi_encoder(
    config: TrainConfig,
    out: str | StoragePath,
    *,
    cluster: ClusterConfig = CLUSTER,
    on_progress: OnProgress = no_progress,
) -> Run:
    """Train a bi-encoder on existing labels: a run of one round, whose first batch is the labelled pairs.

    config.labels: as in `train_cross_encoder`. More rounds may follow: call `al_ray.run` on the same folder.

    Examples:
        >>> config = al_ray.TrainConfig(
        ...     task=str(folder / "task"), labels="stated", model="cosine", encoder="random-bert", encoder_layers=1,
        ...     max_length=16, training=al_ray.TrainingConfig(worst_loss=100.0),
        ... )
        >>> run = al_ray.train_bi_encoder(config, folder / "bi-encoder")
        >>> run.rounds, run.labels()["source"].unique().to_pylist()
        (1, ['given'])

    Raises:
        BadOption: if options do not fit together or the labels are of another task.
        BadFile: if there are no labels, or a table of labels has a bad row; the message names the row.
        WrongFolder: if `out` holds other labels or another run.
    """
    path, config = storage_path(str(out)), replace(config, model="cosine")
    task, labelled = _read(config, path)
    with opened(path, task) as folder:
        write_first_round(folder, labelled)
    return run(config.run(len(labelled)), path, cluster=cluster, on_progress=on_progress)


def _read(config: TrainConfig, out: StoragePath) -> tuple[Task, Labelled]:
    """Read the task and the labels, after the checks that can fail before any work."""
    path = storage_path(config.task)
    refuse_lost(out)
    refuse_inside(out, path)
    task = read_task(path)
    for split in config.evaluation.splits:
        task.measurable(split)
    return task, read_existing_labels(config.labels, task)
