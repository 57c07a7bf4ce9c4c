"""Carry out jobs.prepare evaluation: make the evaluation sets of a task before any run."""

from al_ray.cli._prepare.options import Evaluation
from al_ray.cli._shared.progress import Progress
from al_ray.cluster.measurement import make_evaluation_sets
from al_ray.cluster.session import session
from al_ray.core.text_table import format_columns
from al_ray.datasets.task_folder import read_task


def prepare_evaluation(options: Evaluation) -> None:
    """Make the evaluation sets that do not exist yet, and print the strata of all."""
    task = read_task(options.task)
    splits = options.evaluation.splits
    for name in splits:
        task.measurable(name)
    rows: list[tuple[str, ...]] = [("split", "stratum", "sampled", "of", "each stands for")]
    with session(options.cluster, trainers=0):
        for split, strata in make_evaluation_sets(options.run, options.cluster, task, splits, Progress()):
            rows.append((split.name, "positives", *[f"{len(split.positives):,}"] * 2, "1"))
            for one in strata:
                rows.append((split.name, one.name, f"{one.size:,}", f"{one.population:,}", f"{one.weight:,.5g}"))
    print(format_columns(rows))
    print(f"wrote {options.task / 'evaluation'}")
