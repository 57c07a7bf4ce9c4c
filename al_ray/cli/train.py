"""A model of labels that are there already: python -m jobs.train --labels RUN|FILE|stated --model concat --task TASK
--out DIR

concat looks at both texts at once; cosine is the bi-encoder of jobs.run. The same command goes on where it stopped;
--dry-run says what there is to do. Every option: --help.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import tyro

from al_ray.apps.cross_encoder.folder import is_cross_encoder
from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.apps.cross_encoder.pipeline import Retriever, train_and_evaluate
from al_ray.cli._evaluate import printout
from al_ray.cli._run.pipeline import run, table
from al_ray.cli._shared.entry import PathOrUri, options
from al_ray.cli._shared.progress import Progress
from al_ray.cluster.session import refuse_lost
from al_ray.core.config.bounds import Between
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.serialization import part
from al_ray.core.errors import BadOption, WrongFolder
from al_ray.core.labels import Batch, Labelled, make_answers
from al_ray.core.task import Task
from al_ray.datasets.tables.columns import BadRowLog
from al_ray.datasets.tables.format_options import TableOptions
from al_ray.datasets.tables.options import column_names
from al_ray.datasets.task_folder import read_task
from al_ray.datasets.tsv import Report
from al_ray.runs.existing_labels import GIVEN, read_existing_labels
from al_ray.runs.ledger import Ledger
from al_ray.runs.run_folder import bound_config, opened, refuse_inside
from al_ray.storage.uri import StoragePath, storage_path


@dataclass(frozen=True, kw_only=True)
class Options(TrainConfig, TableOptions):
    """A model of labels that are there already; resumable by the same command."""

    out: PathOrUri
    """Folder: made if it is not there, gone on with if it is. With cosine it is a run folder of one round."""
    rerank: PathOrUri | None = None
    """Concat: a run folder, whose last model retrieves the --top pairs that the concat model then puts in order;
    average precision of both stages over all pairs of every --evaluation.splits."""
    top: Annotated[int, Between(1, 10**9)] = 10_000
    """K: pairs that --rerank retrieves."""
    columns: str = "left_id,right_id,label"
    """Columns of a table of labels: the two ids and the label (1/0, yes/no). Two columns: all are matches."""
    dry_run: bool = False
    """Say how many pairs and steps there are to do, and end."""
    cluster: tyro.conf.OmitArgPrefixes[ClusterConfig] = field(default_factory=ClusterConfig)

    @property
    def made_by(self) -> TrainConfig:
        """The options that decide the results."""
        return part(self, TrainConfig)


def main() -> None:
    """Read the options and the labels, say what there is to do, and do it."""
    asked: Options = options(Options, "train", "A model of labels that are there already, measured over all pairs.")
    train(asked)


def train(asked: Options) -> None:
    """Train, measure, print and write, from wherever the folder is."""
    refuse_mixed(asked)
    texts = storage_path(asked.task)
    refuse_inside(asked.out, texts)
    task = read_task(texts)
    for split in asked.evaluation.splits:
        task.measurable(split)
    faults = BadRowLog(asked.bad_rows)
    labelled = read_existing_labels(asked.labels, task, columns_of(asked.columns), asked.reading, faults)
    if asked.like is not None:
        bound_config(storage_path(asked.like))
    retriever = Retriever.open(asked.rerank, asked.top, task)
    for line in (*Report(tuple(faults.skipped)).lines(), *plan(asked, task, labelled)):
        print(line, flush=True)
    if asked.dry_run:
        return
    if asked.model == "cosine":
        cosine(asked, task, labelled)
    else:
        cross_encoder(asked, task, labelled, retriever)
    print(f"results: {asked.out}")


def refuse_mixed(asked: Options) -> None:
    """Options that do not go together, before anything is read."""
    refuse_lost(asked.out)
    if asked.model == "cosine" and (asked.rerank is not None or asked.like is not None):
        raise BadOption("--rerank and --like are for --model concat; leave them out with cosine")
    if asked.rerank is not None and not asked.evaluation.splits:
        raise BadOption("--rerank measures on --evaluation.splits, and none is named; name one")
    if asked.model == "cosine" and is_cross_encoder(asked.out):
        raise WrongFolder(f"{asked.out} holds a cross-encoder; give --model cosine another --out")


def columns_of(words: str) -> tuple[str, ...]:
    """The columns of a table of labels."""
    names = column_names("--columns", words)
    if len(names) not in (2, 3):
        raise BadOption(f"--columns is {words}; give three, such as left_id,right_id,label, or two ids")
    return names


def plan(asked: Options, task: Task, labelled: Labelled) -> Iterator[str]:
    """What there is to do."""
    steps = asked.steps(len(labelled))
    yield f"labels: {len(labelled):,} pairs, {labelled.positives:,} of them matches"
    yield f"training: {asked.training.epochs} epochs, {steps:,} steps, {asked.model} from {asked.encoder}"
    if asked.model == "concat":
        for name in asked.evaluation.splits:
            split, measure = task.split(name), asked.evaluation
            near = min(len(split.space.left) * measure.near_neighbours, split.space.total)
            near = near if measure.near_pairs is None else min(near, measure.near_pairs * (len(measure.bands) + 1))
            most = min(len(split.positives) + near + measure.random_pairs, split.space.total)
            more = f", and {asked.top:,} to put in order" if asked.rerank is not None else ""
            yield f"{name}: at most {most:,} of {split.space.total:,} pairs to score{more}"


def cross_encoder(asked: Options, task: Task, labelled: Labelled, retriever: Retriever | None) -> None:
    """Train a cross-encoder, and print the evaluation of each split as it is done."""
    watch = Progress()
    for evaluation, stages in train_and_evaluate(
        asked.made_by, task, labelled, asked.out, asked.cluster, retriever, watch
    ):
        watch.close()
        printout.tell(evaluation)
        if stages is not None:
            run = stages.retriever
            print(f"the {run.top:,} highest of {run.folder.path}, in the order of {asked.out}:")
            printout.tell(stages.both)
            if stages.difference is not None:
                printout.tell_difference(stages.difference)


def cosine(asked: Options, task: Task, labelled: Labelled) -> None:
    """A bi-encoder: a run of one round, whose seed set are the labels."""
    with opened(asked.out, task) as folder:
        keep(folder.ledger, labelled, asked.out)
    done = run(asked.made_by.run(len(labelled)), asked.cluster, asked.out)
    print(table(done.metrics()))


def keep(ledger: Ledger, labelled: Labelled, out: StoragePath) -> None:
    """Put the labels into the ledger as its first round, unless they are there."""
    batch = ledger.batch(1)
    if batch is None:
        ledger.add_batch(1, Batch(labelled.pairs, np.full(len(labelled), np.nan), GIVEN))
    elif not np.array_equal(batch.pairs, labelled.pairs):
        raise WrongFolder(f"{out} holds other labels; give another --out")
    if not ledger.sealed(1):
        ledger.add_answers(1, make_answers(np.arange(len(labelled)), labelled.labels, GIVEN))
        ledger.seal(1)
    if not np.array_equal(ledger.first_labels(1), labelled.labels):
        raise WrongFolder(f"{out} holds the same pairs with other labels; give another --out")
