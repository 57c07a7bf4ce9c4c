"""Make a task folder: python -m jobs.prepare {qqp|wikiqa|synthetic|pairs|logs} --out TASK ...

Or make the evaluation sets of a task: python -m jobs.prepare evaluation --task TASK
"""

import sys

from al_ray.cli._prepare.options import Command, Evaluation, parse_arguments

OPTIONS = Command


def main() -> None:
    """Make a task folder, or the evaluation sets of a task, and print the counts."""
    options = parse_arguments(sys.argv[1:])
    if isinstance(options, Evaluation):
        from al_ray.cli._prepare.evaluation_sets import prepare_evaluation

        prepare_evaluation(options)
    else:
        from al_ray.cli._prepare.pipeline import prepare_task

        prepare_task(options)
