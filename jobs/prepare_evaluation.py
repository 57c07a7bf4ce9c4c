"""Evaluation sets of a task, made before any run: python -m jobs.prepare evaluation --task TASK"""

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from al_ray.cluster.session import session
from al_ray.cluster.world import evaluation_sets
from al_ray.core.config import Arithmetic, ClusterConfig, EvaluationConfig, Precision, RunConfig, SearchConfig
from al_ray.data.tables import read_task
from jobs.entry import PathOrUri, aligned
from jobs.progress import Progress

DEFAULTS = RunConfig(task="TASK")


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Evaluation sets: near and random negatives of a task's splits, which runs with the same options then share."""

    task: PathOrUri
    """Task folder; the sets are kept in it, under evaluation/."""
    encoder: str = DEFAULTS.encoder
    """As in jobs.run: the untrained encoder finds the near negatives."""
    encoder_layers: int | None = DEFAULTS.encoder_layers
    """As in jobs.run."""
    max_length: int = DEFAULTS.max_length
    """As in jobs.run."""
    encoder_batch: int = DEFAULTS.encoder_batch
    """As in jobs.run."""
    threads: int = DEFAULTS.threads
    """As in jobs.run."""
    arithmetic: Arithmetic = DEFAULTS.arithmetic
    """As in jobs.run."""
    vectors: Precision = DEFAULTS.vectors
    """As in jobs.run."""
    search: SearchConfig = field(default_factory=SearchConfig)
    evaluation: EvaluationConfig = field(default_factory=lambda: EvaluationConfig(splits=("dev", "test")))
    cluster: Annotated[ClusterConfig, tyro.conf.arg(name="")] = field(default_factory=ClusterConfig)

    @property
    def run(self) -> RunConfig:
        """The config of a run that takes these sets."""
        return RunConfig(
            task=str(self.task), encoder=self.encoder, encoder_layers=self.encoder_layers, max_length=self.max_length,
            encoder_batch=self.encoder_batch, threads=self.threads, arithmetic=self.arithmetic,
            vectors=self.vectors, search=self.search, evaluation=self.evaluation,
        )  # fmt: skip


def prepare_evaluation(asked: Evaluation) -> None:
    """Make the sets that are not there, and print what every one holds."""
    task = read_task(asked.task)
    splits = asked.evaluation.splits
    for split in splits:
        task.measurable(split)
    rows: list[tuple[str, ...]] = [("split", "stratum", "sampled", "of", "each stands for")]
    with session(asked.cluster):
        for made in evaluation_sets(asked.run, asked.cluster, task, splits, Progress()):
            rows.append((made.split, "positives", *[f"{len(made.positives):,}"] * 2, "1"))
            for one in made.strata:
                rows.append((made.split, one.name, f"{one.size:,}", f"{one.population:,}", f"{one.weight:,.5g}"))
    print(aligned(rows))
    print(f"kept in {asked.task / 'evaluation'}")
