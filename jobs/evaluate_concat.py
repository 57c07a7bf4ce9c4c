"""What `jobs.evaluate --run FOLDER` measures of a folder that jobs.train --model concat made."""

from dataclasses import replace
from typing import Any

from al_ray.cluster import concat
from al_ray.cluster.concat import Bench
from al_ray.core.config import ClusterConfig, RunConfig
from al_ray.core.errors import BadOption
from al_ray.core.evaluation import Comparison, Evaluation
from al_ray.data.concat_folder import ConcatFolder
from al_ray.data.files import read_json
from al_ray.data.run_folder import RunFolder
from al_ray.data.tables import read_task
from al_ray.storage.places import Place, place
from jobs.evaluate_heuristic import splits_of, summed_up
from jobs.progress import Progress


def bench_of(path: Place, cluster: ClusterConfig, random_pairs: int | None = None) -> Bench:
    """The folder with its model and task, as it was made; random_pairs: instead of as many as then."""
    folder = ConcatFolder(path)
    config = folder.config
    task = read_task(place(config.task))
    if read_json(path / "config.json", ["task_digest"])["task_digest"] != task.digest:
        raise BadOption(f"{path} was made for another task than {config.task} now holds; restore that task")
    if random_pairs is not None:
        config = replace(config, evaluation=replace(config.evaluation, random_pairs=random_pairs))
    bench = Bench(folder, config, task, cluster, Progress())
    bench.model()
    return bench


def over_all_pairs(bench: Bench, split: str) -> Evaluation:
    """Average precision and the rest on a split, estimated."""
    bench.task.measurable(split)
    evalset = concat.evaluation_sets(bench, [split])[split]
    with concat.deployed_scorer(bench) as scorer:
        return concat.measured(bench, scorer, evalset)


def of_stated(bench: Bench, split: str) -> dict[str, Any]:
    """Figures of the stated pairs of a split; its best thresholds are chosen on dev, if the task has some there."""
    bench.task.stating(split)
    with concat.deployed_scorer(bench) as scorer:
        scored = concat.scored_stated(bench, scorer, splits_of(bench.task, split))
    return summed_up(scored, split, bench.task, 0.0)


def less(bench: Bench, run: RunConfig, folder: RunFolder, number: int, split: str) -> Comparison:
    """The AP of the model less that of a round of a run, on the same sampled pairs."""
    if folder.task.digest != bench.task.digest:
        raise BadOption(
            f"{bench.folder.path} and {folder.path} are of different tasks; --against takes a run of the same task"
        )
    bench.task.measurable(split)
    with concat.deployed_scorer(bench) as scorer:
        return concat.difference(bench, scorer, run, folder, number, split)
