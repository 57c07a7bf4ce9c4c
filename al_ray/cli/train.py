"""Train a model on existing labels: python -m jobs.train --labels RUN|FILE|stated --model concat --task TASK --out DIR

concat is a cross-encoder, which reads both texts of a pair together; cosine is the bi-encoder of the command run. Rerun
the same command to resume; --dry-run prints what there is to do. Every option: --help.
"""

from al_ray.cli._shared.entry import parse_options
from al_ray.cli._train.options import Options


def main() -> None:
    """Parse the options, train, evaluate and print."""
    options = parse_options(Options, "train", "Train a model on existing labels, and evaluate it over all pairs.")
    from al_ray.cli._train.pipeline import run_command

    run_command(options)
