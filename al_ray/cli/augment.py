"""Augmented SBERT: python -m jobs.augment --gold stsb:FOLDER --out DIR --sampler random

Or of a task's own labels: --task TASK --labels RUN|FILE|stated. A cross-encoder learns from gold pairs and labels
silver ones that the sampler finds; a bi-encoder learns from both. The same command goes on where it stopped; --dry-run
says what there is to do. Every option: --help.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from al_ray.apps.augmentation.folder import AugmentFolder
from al_ray.apps.augmentation.gold import gold_of_task
from al_ray.apps.augmentation.options import AugmentConfig, Gold, Line
from al_ray.apps.augmentation.pipeline import AugmentationJob, augmented
from al_ray.apps.augmentation.stsb import read_stsb
from al_ray.apps.augmentation.student import StudentSpec, StudentTrainer
from al_ray.apps.augmentation.word_replacement import Masked
from al_ray.cli._shared.entry import PathOrUri, options
from al_ray.cli._shared.progress import Progress
from al_ray.cluster.session import refuse_lost, session
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.serialization import part
from al_ray.core.errors import BadOption
from al_ray.core.text_table import format_columns
from al_ray.datasets.tables.columns import BadRowLog
from al_ray.datasets.tables.reader import TableFormat
from al_ray.datasets.task_folder import read_task
from al_ray.encoders.cnn import is_cnn
from al_ray.encoders.cross_encoder import CrossEncoder
from al_ray.runs.existing_labels import read_existing_labels
from al_ray.storage.lock import locked
from al_ray.storage.uri import storage_path

COLUMNS = ("left_id", "right_id", "label")
"""Of a table of labels."""


@dataclass(frozen=True, kw_only=True)
class Options(AugmentConfig):
    """An augmentation; resumable by the same command."""

    out: PathOrUri
    """Folder: made if it is not there, gone on with if it is."""
    dry_run: bool = False
    """Say how many pairs and steps there are to do, and end."""
    cluster: tyro.conf.OmitArgPrefixes[ClusterConfig] = field(default_factory=ClusterConfig)

    @property
    def made_by(self) -> AugmentConfig:
        """The options that decide the results."""
        return part(self, AugmentConfig)


def main() -> None:
    """Read the options and the pairs, say what there is to do, and do it."""
    asked: Options = options(Options, "augment", "A bi-encoder of gold pairs and of silver ones by a cross-encoder.")
    augment(asked)


def augment(asked: Options) -> None:
    """Augment, print and write, from wherever the folder is."""
    refuse_lost(asked.out)
    config = asked.made_by
    check_models(config)
    gold = gold_of(config).subset(config.gold_pairs, config.pool == "all", config.seed)
    for line in plan(config, gold):
        print(line, flush=True)
    if asked.dry_run:
        return
    watch = Progress()
    with locked(asked.out):
        folder = AugmentFolder(asked.out)
        folder.bind(config, gold)
        with session(asked.cluster):
            lines = augmented(AugmentationJob(folder, config, gold, asked.cluster, watch))
    watch.close()
    print(table(lines))
    print(f"results: {asked.out}")


def check_models(config: AugmentConfig) -> None:
    """Refuse encoders that are not there, or cannot be what they are to be, before any work."""
    teacher = config.teaching.run(1).encoding
    if is_cnn(config.teacher):
        raise BadOption(f"--teacher {config.teacher} is no transformer, as a cross-encoder must be; give another")
    CrossEncoder.base(teacher, 0)
    if config.words_from == "masked":
        Masked(teacher)
    spec = StudentSpec(config.encoding, config.learning, config.seed, config.fresh_layers, config.words)
    StudentTrainer(spec).untrained(["a word"])


def gold_of(config: AugmentConfig) -> Gold:
    """The gold pairs that the options name."""
    if config.gold is not None:
        kind, _, folder = config.gold.partition(":")
        if kind != "stsb" or not folder:
            raise BadOption(f"--gold is {config.gold!r}; give stsb:FOLDER, or --task and --labels")
        return read_stsb(Path(folder))
    assert config.task is not None
    assert config.labels is not None
    task = read_task(storage_path(config.task))
    return gold_of_task(task, read_existing_labels(config.labels, task, COLUMNS, TableFormat(), BadRowLog("fail")))


def plan(config: AugmentConfig, gold: Gold) -> Iterator[str]:
    """What there is to do."""
    pairs, pool = len(gold.train), gold.pool
    yield f"gold: {pairs:,} pairs of {gold.name}, mean score {gold.train.scores.mean():.3f}"
    measured = ", ".join(f"{len(scored):,} of {split}" for split, scored in gold.measured.items())
    yield f"measured by: {measured}"
    steps = config.teaching.steps(pairs)
    yield f"cross-encoder: {config.teacher}, {config.teacher_epochs} epochs, {steps:,} steps"
    most = config.per_text * len(pool.queries)
    texts = f"{len(pool.queries):,} texts with {len(pool.candidates):,}"
    yield f"silver: at most {most:,} pairs by {config.sampler}, of {texts}"
    yield f"student: {config.encoder}, {config.epochs} epochs"


def table(lines: list[Line]) -> str:
    """A row a model; rho times 100."""
    splits = list(lines[0].spearman)
    rows: list[tuple[str, ...]] = [("model", "gold", "silver", "steps", *(f"{split} rho" for split in splits))]
    for line in lines:
        counts = (f"{count:,}" for count in (line.gold, line.silver, line.steps))
        rows.append((line.model, *counts, *(f"{100 * line.spearman[split]:.2f}" for split in splits)))
    return format_columns(rows)
