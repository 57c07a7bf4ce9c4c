"""One active-learning run: python -m jobs.run --task TASK --out RUN --strategy uncertainty --seed 0

Rerun the same command to resume a run. Every option: --help.
"""

import sys

from al_ray.cli._run.options import parsed


def main() -> None:
    """Read the options, run, and print what came of it."""
    asked = parsed(sys.argv[1:])
    from al_ray.cli._run.pipeline import carry_out

    carry_out(asked)
