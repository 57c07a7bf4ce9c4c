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
    for split in splits:
        task.measurable(split)
    rows: list[tuple[str, ...]] = [("split", "stratum", "sampled", "of", "each stands for")]
    with session(options.cluster, trainers=0):
        for sets in make_evaluation_sets(options.run, options.cluster, task, splits, Progress()):
            rows.append((sets.split, "positives", *[f"{len(sets.positives):,}"] * 2, "1"))
            for one in sets.strata:
                rows.append((sets.split, one.name, f"{one.size:,}", f"{one.population:,}", f"{one.weight:,.5g}"))
    print(format_columns(rows))
    print(f"wrote {options.task / 'evaluation'}")
