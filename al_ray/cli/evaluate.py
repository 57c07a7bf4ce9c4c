"""The command evaluate: python -m jobs.evaluate --run RUN --split test [--exact]

Compared with another run of the task: python -m jobs.evaluate --run RUN --against OTHER --split test
Of scores from another program: python -m jobs.evaluate --scores FILE.parquet --total-pairs N
Of stated pairs alone: python -m jobs.evaluate --run RUN --heuristic, or --scores FILE.parquet --heuristic
"""

from al_ray.cli._evaluate.options import EvaluateCommand
from al_ray.cli._shared.entry import parse_options

OPTIONS = EvaluateCommand


def main() -> None:
    """Parse the options, evaluate, print and write."""
    options = parse_options(OPTIONS, "evaluate", "Average precision over all pairs, of a run or of your own scores.")
    if options.scores is not None and options.run is None:
        # The work on scores of others loads no model.
        from al_ray.cli._evaluate.scores import run_command
    else:
        from al_ray.cli._evaluate.pipeline import run_command

    run_command(options)
