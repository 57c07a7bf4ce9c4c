"""Train on existing labels, evaluate and print."""

from collections.abc import Iterator
from dataclasses import replace

from al_ray.apps.cross_encoder.folder import is_cross_encoder
from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.apps.cross_encoder.pipeline import Retriever, train_and_evaluate
from al_ray.cli._evaluate.printout import print_difference, print_evaluation
from al_ray.cli._shared.entry import as_called
from al_ray.cli._shared.progress import Progress
from al_ray.cli._train.options import TrainCommand
from al_ray.cli.run import run
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadOption, WrongFolder
from al_ray.core.labels import Labelled
from al_ray.core.task import Task
from al_ray.datasets.tables.columns import BadRowLog
from al_ray.datasets.tables.options import label_column_names
from al_ray.datasets.task_folder import read_task
from al_ray.datasets.tsv import OR_SKIP, Report
from al_ray.runs.existing_labels import read_existing_labels, write_first_round
from al_ray.runs.place import refuse_inside
from al_ray.runs.run_folder import bound_config, opened
from al_ray.storage.uri import storage_path


def run_command(options: TrainCommand) -> None:
    """Train, evaluate, print and write, continuing from the folder."""
    check_options(options)
    path = storage_path(options.task)
    refuse_inside(options.out, path)
    task = read_task(path)
    for split in options.evaluation.splits:
        task.measurable(split)
    bad_rows = BadRowLog(options.bad_rows, OR_SKIP)
    columns = label_column_names("--columns", options.columns)
    reading = replace(options.reading, naming="; name its columns with --columns")
    labelled = read_existing_labels(options.labels, task, columns, reading, bad_rows)
    if options.like is not None:
        bound_config(storage_path(options.like))
    retriever = Retriever.open(options.rerank, options.top, task)
    for line in (*Report(tuple(bad_rows.skipped)).lines(), *plan(options, task, labelled)):
        print(line, flush=True)
    if options.dry_run:
        return
    if options.model == "cosine":
        train_bi_encoder(options, task, labelled)
    else:
        train_cross_encoder(options, task, labelled, retriever)
        print(f"results: {options.out}")


def check_options(options: TrainCommand) -> None:
    """Raise BadOption for options that do not go together, before anything is read."""
    if options.model == "cosine" and (options.rerank is not None or options.like is not None):
        raise BadOption("--rerank and --like are for --model concat; leave them out with cosine")
    _refuse_unused(options)
    if options.rerank is not None and not options.evaluation.splits:
        raise BadOption("--rerank evaluates --evaluation.splits, and none is given; give one")
    if options.model == "cosine" and is_cross_encoder(options.out):
        raise WrongFolder(f"{options.out} holds a cross-encoder; give --model cosine another --out")


def _refuse_unused(options: TrainCommand) -> None:
    """Raise BadOption for an option other than its default that the kind of model does not use."""
    if options.model == "cosine":
        if (options.concat_batch, options.slice_pairs) != (TrainConfig.concat_batch, TrainConfig.slice_pairs):
            raise BadOption("--concat-batch and --slice-pairs are for --model concat; leave them out with cosine")
        return
    if options.training.batch != TrainingConfig.batch:
        raise BadOption("--training.batch is for --model cosine; give --concat-batch")
    for name in ("head_rate", "initial_weight", "initial_bias", "worst_loss", "tries"):
        if getattr(options.training, name) != getattr(TrainingConfig, name):
            raise BadOption(f"--training.{name.replace('_', '-')} is for --model cosine; leave it out")


def plan(options: TrainCommand, task: Task, labelled: Labelled) -> Iterator[str]:
    """Yield lines about what there is to do."""
    steps = options.steps(len(labelled))
    yield f"labels: {len(labelled):,} pairs, {labelled.positives:,} of them matches"
    yield f"training: {options.training.epochs} epochs, {steps:,} steps, {options.model} from {options.encoder}"
    if options.model == "concat":
        for name in options.evaluation.splits:
            split, sizes = task.split(name), options.evaluation
            near = min(len(split.space.left) * sizes.near_neighbours, split.space.total)
            near = min(near, sizes.most_near_pairs * (len(sizes.bands) + 1))
            most = min(len(split.positives) + near + sizes.random_pairs, split.space.total)
            rerank = f", and {options.top:,} to rank" if options.rerank is not None else ""
            yield f"{name}: at most {most:,} of {split.space.total:,} pairs to score{rerank}"


def train_cross_encoder(options: TrainCommand, task: Task, labelled: Labelled, retriever: Retriever | None) -> None:
    """Train a cross-encoder, and print the evaluation of each split as soon as it is done."""
    progress = Progress()
    for evaluation, stages in train_and_evaluate(
        options.config, task, labelled, options.out, options.cluster, retriever, progress
    ):
        progress.close()
        print_evaluation(evaluation)
        if stages is not None:
            first = stages.retriever
            print(f"the {first.top:,} highest of {first.folder.path}, ranked by {options.out}:")
            print_evaluation(stages.both)
            if stages.difference is not None:
                print_difference(stages.difference, "both stages", str(first.folder.path))


def train_bi_encoder(options: TrainCommand, task: Task, labelled: Labelled) -> None:
    """Train a bi-encoder: a run of one round, whose seed set is the labelled pairs."""
    with opened(options.out, task) as folder:
        write_first_round(folder, labelled)
    for line in run(options.config.run(len(labelled)), options.cluster, options.out).in_words():
        print(as_called(line))
