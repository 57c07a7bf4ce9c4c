"""Train a model on existing labels: python -m jobs.train --labels RUN|FILE|stated --model concat --task TASK --out DIR

concat is a cross-encoder, which reads both texts of a pair together; cosine is the bi-encoder of the command run. Rerun
the same command to resume; --dry-run prints what there is to do. Every option: --help.
"""

import sys

from al_ray.cli._train.options import TrainCommand, parse_arguments

OPTIONS = TrainCommand


def main() -> None:
    """Parse the options, train, evaluate and print."""
    options = parse_arguments(sys.argv[1:])
    from al_ray.cli._train.pipeline import run_command

    run_command(options)
