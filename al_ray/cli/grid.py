"""The command grid: python -m jobs.grid --task TASK --out GRID --strategies uncertainty,static --seeds 0,1,2

Every option of the command run, with strategies, seeds, encoders and budgets as axes. Rerun the same command to resume
interrupted runs and to restart failed ones. Every option: --help.
"""

import sys

from al_ray.cli._grid.options import GridCommand, parse_arguments

OPTIONS = GridCommand


def main() -> None:
    """Parse the options, run and print; exit code 1 if a run is not complete."""
    options = parse_arguments(sys.argv[1:])
    from al_ray.cli._grid.pipeline import run_command

    if not run_command(options):
        sys.exit(1)
