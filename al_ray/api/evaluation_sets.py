"""Draw the evaluation sets of a task before any run."""

from collections.abc import Iterator
from dataclasses import dataclass

from al_ray.active_learning.config import RunConfig
from al_ray.api.runs import CLUSTER
from al_ray.cluster.measurement import make_evaluation_sets
from al_ray.cluster.session import session
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.progress import OnProgress, no_progress
from al_ray.core.task import Split
from al_ray.datasets.task_folder import read_task
from al_ray.metrics.average_precision import StratumSummary
from al_ray.storage.uri import storage_path


@dataclass(frozen=True)
class SampledSplit:
    """A split with an evaluation set: its strata of negatives, the near ones first, the random ones last."""

    split: Split
    strata: tuple[StratumSummary, ...]

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield split, stratum, its sampled pairs, all of its pairs, and for how many pairs each stands."""
        yield (self.split.name, "positives", *[f"{len(self.split.positives):,}"] * 2, "1")
        for one in self.strata:
            yield self.split.name, one.name, f"{one.size:,}", f"{one.population:,}", f"{one.weight:,.5g}"


def prepare_evaluation(
    config: RunConfig, *, cluster: ClusterConfig = CLUSTER, on_progress: OnProgress = no_progress
) -> list[SampledSplit]:
    """Draw the evaluation sets of a task before any run: near and random negatives of the splits of config.evaluation.

    They are written into the folder evaluation of the task, unless they are there; runs with the same options of
    evaluation and encoder share them. Works in this process, or on Ray (docs/api.md).

    Examples:
        >>> config = al_ray.RunConfig(
        ...     task=str(folder / "task"), encoder="random-bert", encoder_layers=1, max_length=16,
        ...     evaluation=al_ray.EvaluationConfig(("test",), near_neighbours=2, random_pairs=50),
        ... )
        >>> [(one.split.name, one.strata[-1].size) for one in al_ray.prepare_evaluation(config)]
        [('test', 50)]

    Raises:
        MissingSplit: if the task has no positive pair in a split.
        WrongFolder: if the folder contains no task.
    """
    task, splits = read_task(storage_path(config.task)), config.evaluation.splits
    for name in splits:
        task.measurable(name)
    with session(cluster, trainers=0):
        made = make_evaluation_sets(config, cluster, task, splits, on_progress)
        return [SampledSplit(split, strata) for split, strata in made]
