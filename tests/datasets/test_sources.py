"""Sources of tasks: each has its subcommand."""

from typing import get_args

from al_ray.datasets.sources import COMMANDS, TaskSource


def test_each_source_has_a_subcommand():
    assert set(COMMANDS) == set(get_args(TaskSource))
