"""The labels of a run: python -m jobs.labels {status,export,import,correct,close} --run RUN

status counts the labels of each round. export writes them as pairs of texts. import adds labels bought elsewhere as a
round of the run. correct changes labels; the next training uses the corrected ones. close ends a round that
lacks labels. Every option: --help.
"""

from al_ray.cli._labels.options import Command
from al_ray.cli._shared.entry import parse_options

OPTIONS = Command


def main() -> None:
    """Run one of the subcommands."""
    options: Command = parse_options(OPTIONS, "labels", "Count, export, import or correct the labels of a run.")
    from al_ray.cli._labels.pipeline import run_command

    run_command(options)
