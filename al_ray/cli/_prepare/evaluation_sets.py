"""Evaluation sets of a task, made before any run: python -m jobs.prepare evaluation --task TASK"""

from dataclasses import dataclass, field

import tyro

from al_ray.active_learning.config import RunConfig
from al_ray.cli._shared.entry import PathOrUri
from al_ray.cli._shared.progress import Progress
from al_ray.cluster.measurement import make_evaluation_sets
from al_ray.cluster.session import session
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import EvaluationConfig, SearchConfig
from al_ray.core.config.serialization import part
from al_ray.core.text_table import format_columns
from al_ray.datasets.task_folder import read_task


@dataclass(frozen=True, kw_only=True)
class Evaluation(EncoderConfig):
    """Evaluation sets: near and random negatives of a task's splits, which runs with the same options then share."""

    task: PathOrUri
    """Task folder; the sets are kept in it, under evaluation/."""
    search: SearchConfig = field(default_factory=SearchConfig)
    evaluation: EvaluationConfig = field(default_factory=lambda: EvaluationConfig(splits=("dev", "test")))
    cluster: tyro.conf.OmitArgPrefixes[ClusterConfig] = field(default_factory=ClusterConfig)

    @property
    def run(self) -> RunConfig:
        """The config of a run that takes these sets."""
        encoding = vars(part(self, EncoderConfig))
        return RunConfig(task=str(self.task), search=self.search, evaluation=self.evaluation, **encoding)


def prepare_evaluation(asked: Evaluation) -> None:
    """Make the sets that are not there, and print what every one holds."""
    task = read_task(asked.task)
    splits = asked.evaluation.splits
    for split in splits:
        task.measurable(split)
    rows: list[tuple[str, ...]] = [("split", "stratum", "sampled", "of", "each stands for")]
    with session(asked.cluster):
        for made in make_evaluation_sets(asked.run, asked.cluster, task, splits, Progress()):
            rows.append((made.split, "positives", *[f"{len(made.positives):,}"] * 2, "1"))
            for one in made.strata:
                rows.append((made.split, one.name, f"{one.size:,}", f"{one.population:,}", f"{one.weight:,.5g}"))
    print(format_columns(rows))
    print(f"kept in {asked.task / 'evaluation'}")
