"""Augmented SBERT: python -m jobs.augment --gold stsb:FOLDER --out DIR --sampler random

Or of a task's own labels: --task TASK --labels RUN|FILE|stated. A cross-encoder learns from gold pairs and labels
silver ones that the sampler finds; a bi-encoder learns from both. The same command goes on where it stopped; --dry-run
says what there is to do. Every option: --help.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated

import tyro

from al_ray.cluster.augment import Desk, augmented
from al_ray.cluster.session import refuse_lost, session
from al_ray.core.augmentation import AugmentConfig, Gold, Line
from al_ray.core.config import ClusterConfig
from al_ray.core.errors import BadOption
from al_ray.data.augment_folder import AugmentFolder
from al_ray.data.given import given
from al_ray.data.gold import gold_of_task
from al_ray.data.sheet import Faults
from al_ray.data.stsb import read_stsb
from al_ray.data.tablefiles import Reading
from al_ray.data.tables import read_task
from al_ray.model.cnn import is_cnn
from al_ray.model.crossencoder import CrossEncoder
from al_ray.model.rewording import Masked
from al_ray.model.student import StudentSpec, StudentTrainer
from al_ray.storage.lock import locked
from al_ray.storage.places import place
from jobs.entry import PathOrUri, aligned, job, options
from jobs.progress import Progress

COLUMNS = ("left_id", "right_id", "label")
"""Of a table of labels."""


@dataclass(frozen=True, kw_only=True)
class Options(AugmentConfig):
    """An augmentation; resumable by the same command."""

    out: PathOrUri
    """Folder: made if it is not there, gone on with if it is."""
    dry_run: bool = False
    """Say how many pairs and steps there are to do, and end."""
    cluster: Annotated[ClusterConfig, tyro.conf.arg(name="")] = field(default_factory=ClusterConfig)

    @property
    def made_by(self) -> AugmentConfig:
        """The options that decide the results."""
        return AugmentConfig(**{f.name: getattr(self, f.name) for f in fields(AugmentConfig)})


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
            lines = augmented(Desk(folder, config, gold, asked.cluster, watch))
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
    task = read_task(place(config.task))
    return gold_of_task(task, given(config.labels, task, COLUMNS, Reading(), Faults("fail")))


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
    return aligned(rows)


if __name__ == "__main__":
    job(main)
