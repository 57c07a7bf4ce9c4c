"""Average precision over all pairs: python -m jobs.evaluate --run RUN --split test [--exact]

Against another run of the task: python -m jobs.evaluate --run RUN --against OTHER --split test
Or of scores made elsewhere: python -m jobs.evaluate --scores FILE.parquet --total-pairs N
Or of stated pairs alone: python -m jobs.evaluate --run RUN --heuristic, or --scores FILE.parquet --heuristic
"""

from al_ray.cli._evaluate.options import Options
from al_ray.cli._shared.entry import options


def main() -> None:
    """Measure, print, write."""
    asked: Options = options(
        Options, "evaluate", "Average precision over all pairs, of a run or of scores made elsewhere."
    )
    from al_ray.cli._evaluate.pipeline import carry_out

    carry_out(asked)
