"""A run as the command runs it, with its progress and its printed lines."""

from al_ray.cli import run as command
from al_ray.runs.run_folder import RunFolder


def run(*arguments, **options) -> RunFolder:
    """Run to the end, and return the journal of the run."""
    return command.run(*arguments, **options).folder
