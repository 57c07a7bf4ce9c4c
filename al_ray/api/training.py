"""Train on existing labels: those of a run, of a table, or stated in the task."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from al_ray.active_learning.config import RunConfig
from al_ray.api.run_reading import Run
from al_ray.api.runs import CLUSTER, run
from al_ray.apps.cross_encoder.folder import is_cross_encoder
from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.apps.cross_encoder.pipeline import Retriever, TwoStages, train_and_evaluate
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadOption, WrongFolder
from al_ray.core.labels import Labelled
from al_ray.core.progress import OnProgress, no_progress
from al_ray.core.task import Task
from al_ray.datasets.tables.columns import BadRowLog
from al_ray.datasets.tables.format_options import TableOptions
from al_ray.datasets.tables.options import label_column_names, labels_reading
from al_ray.datasets.task_folder import read_task
from al_ray.datasets.tsv import OR_SKIP, Report
from al_ray.metrics.evaluation import Evaluation
from al_ray.runs.existing_labels import read_existing_labels, write_first_round
from al_ray.runs.place import check_lasting_path, check_outside_task
from al_ray.runs.run_folder import bound_config, opened
from al_ray.storage.uri import StoragePath, storage_path

COLUMNS, TABLE = "left_id,right_id,label", TableOptions()


@dataclass(frozen=True)
class Training:
    """A training on existing labels, checked and not begun: its task and labels, and the rows that were skipped.

    retriever: the run whose `top` pairs a cross-encoder ranks, if any.
    """

    config: TrainConfig
    out: StoragePath
    task: Task
    labelled: Labelled
    report: Report
    retriever: Retriever | None
    top: int

    def lines(self) -> Iterator[str]:
        """Yield what there is to do: labels, steps, and pairs to score."""
        config, count = self.config, len(self.labelled)
        yield from self.report.lines()
        yield f"labels: {count:,} pairs, {self.labelled.positives:,} of them matches"
        steps = f"{config.training.epochs} epochs, {config.steps(count):,} steps"
        yield f"training: {steps}, {config.model} from {config.encoder}"
        for name in config.evaluation.splits if config.model == "concat" else ():
            split, sizes = self.task.split(name), config.evaluation
            near = min(len(split.space.left) * sizes.near_neighbours, split.space.total)
            near = min(near, sizes.most_near_pairs * (len(sizes.bands) + 1))
            most = min(len(split.positives) + near + sizes.random_pairs, split.space.total)
            rerank = f", and {self.top:,} to rank" if self.retriever is not None else ""
            yield f"{name}: at most {most:,} of {split.space.total:,} pairs to score{rerank}"

    def first_round(self) -> RunConfig:
        """Write the labels as the first round of a run, and return the options of the run that trains a bi-encoder."""
        with opened(self.out, self.task) as folder:
            write_first_round(folder, self.labelled)
        return self.config.run(len(self.labelled))

    def evaluations(
        self, cluster: ClusterConfig = CLUSTER, on_progress: OnProgress = no_progress
    ) -> Iterator[tuple[Evaluation, TwoStages | None]]:
        """Train a cross-encoder, and yield the evaluation of each split, and of both stages with a retriever."""
        return train_and_evaluate(self.config, self.task, self.labelled, self.out, cluster, self.retriever, on_progress)


def plan_training(
    config: TrainConfig,
    out: str | StoragePath,
    *,
    columns: str = COLUMNS,
    table: TableOptions = TABLE,
    rerank: str | StoragePath | None = None,
    top: int = 10_000,
) -> Training:
    """Read the labels of a training, and check all that can be wrong before any work.

    columns, table: of a table of labels, as in `import_labels`. rerank: a run, whose last model retrieves the `top`
    pairs that the cross-encoder ranks.

    Examples:
        >>> config = al_ray.TrainConfig(task=str(folder / "task"), labels=str(folder / "run"), model="cosine")
        >>> next(al_ray.plan_training(config, folder / "planned").lines()).split(",")[0]
        'labels: 40 pairs'

    Raises:
        BadOption: if options do not fit together or the labels are of another task.
        BadFile: if there are no labels, or a table of labels has a bad row; the message names the row.
        WrongFolder: if `out` holds a model of another kind, or the task or a run does not exist.
    """
    folder, path = storage_path(str(out)), storage_path(config.task)
    if config.model == "cosine" and is_cross_encoder(folder):
        raise WrongFolder(f"{folder} holds a cross-encoder; give `model='cosine'` another `out`")
    check_lasting_path(folder)
    check_outside_task(folder, path)
    task = read_task(path)
    for split in config.evaluation.splits:
        task.measurable(split)
    faults, names = BadRowLog(table.bad_rows, OR_SKIP), label_column_names("`columns`", columns)
    labelled = read_existing_labels(config.labels, task, names, labels_reading(table), faults)
    if config.like is not None:
        bound_config(storage_path(config.like))
    if top < 1:
        raise BadOption(f"`top` is {top}; give 1 or more")
    retriever = Retriever.open(None if rerank is None else storage_path(str(rerank)), top, task)
    return Training(config, folder, task, labelled, Report(tuple(faults.skipped)), retriever, top)


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
    training = plan_training(replace(config, model="concat"), out)
    return {evaluation.split: evaluation for evaluation, _ in training.evaluations(cluster, on_progress)}


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
    training = plan_training(replace(config, model="cosine"), out)
    return run(training.first_round(), training.out, cluster=cluster, on_progress=on_progress)
