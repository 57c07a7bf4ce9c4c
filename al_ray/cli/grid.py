"""A grid of runs: python -m jobs.grid --task TASK --out GRID --strategies uncertainty,static --seeds 0,1,2

Every option of jobs.run, with strategies, seeds, encoders and budgets as axes. The same command goes on where an
earlier one stopped, and tries again what failed. Every option: --help.
"""

import sys

from al_ray.cli._grid.options import parsed


def main() -> None:
    """Read the options, run, and print what came of it; exit code 1 when a run is not complete."""
    asked = parsed(sys.argv[1:])
    from al_ray.cli._grid.pipeline import carry_out

    if not carry_out(asked):
        sys.exit(1)
