"""One active-learning run: python -m jobs.run --task TASK --out RUN --strategy uncertainty --seed 0

Rerun the same command to resume a run. Every option: --help.
"""

import sys

from al_ray.cli._run.options import Options, parse_arguments

OPTIONS = Options


def main() -> None:
    """Parse the options, run and print."""
    options = parse_arguments(sys.argv[1:])
    from al_ray.cli._run.pipeline import run_command

    run_command(options)
