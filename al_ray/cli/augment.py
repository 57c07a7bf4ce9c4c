"""The command augment: python -m jobs.augment --gold stsb:FOLDER --out DIR

Or on a task's own labels: --task TASK --labels RUN|FILE|stated. A cross-encoder is trained on gold pairs and labels
silver pairs that --sampler chooses; a bi-encoder is trained on both. Rerun the same command to resume; --dry-run prints
what there is to do. Every option: --help.
"""

from al_ray.cli._augment.options import AugmentCommand
from al_ray.cli._shared.entry import parse_options

OPTIONS = AugmentCommand


def main() -> None:
    """Parse the options, augment and print."""
    options = parse_options(
        OPTIONS, "augment", "Train a bi-encoder on gold labels and on silver labels by a cross-encoder."
    )
    from al_ray.cli._augment.pipeline import run_command

    run_command(options)
