"""The command reproduce: python -m jobs.reproduce table3 --task TASK --out DIR [--seeds 3]

Runs what is missing as the commands grid and train would, prints the table in the paper's layout beside the published
results, and writes DIR/TABLE.md and DIR/figures. Use one DIR for all tables: they share runs and models. Every option:
--help.
"""

import sys

from al_ray.cli._reproduce.options import ReproduceCommand
from al_ray.cli._shared.entry import parse_options

OPTIONS = ReproduceCommand


def main() -> None:
    """Parse the options, run what is missing, print and write; exit code 1 if a run is not complete."""
    options = parse_options(OPTIONS, "reproduce", "A table or figure of the paper, of any task.")
    from al_ray.cli._reproduce.pipeline import run_command

    if not run_command(options):
        sys.exit(1)
