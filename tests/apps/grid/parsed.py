"""The grid that a command line of the command grid defines."""

from collections.abc import Sequence

from al_ray.apps.grid.ray_tune import Grid
from al_ray.cli.grid import job_of, parse_arguments


def parsed_grid(arguments: Sequence[str]) -> Grid:
    return job_of(parse_arguments(list(arguments))).grid
