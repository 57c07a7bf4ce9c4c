"""Where the workers of a test are: in its own process, or on the Ray that tests share."""

from collections.abc import Collection

import pytest

# Parameters of tests and of fixtures that have workers of either kind.
WAYS = HERE, ON_RAY = "in this process", "on Ray"


def has_workers_here(fixtures: Collection[str], parameters: Collection[object], ray_is_up: bool) -> bool:
    """Return whether the workers of a test, and of what is made for it, are in this process whatever it asks for.

    fixtures: the names of those that it uses. They are here if it asks for that, and if it does not ask for Ray, but
    Ray is up for others: a command would take that Ray, and the test would be another one after a file that needs Ray.
    Else they are where `session` puts them. A parameter decides for the fixtures, too.
    """
    ways = [value for value in parameters if isinstance(value, str) and value in WAYS]
    if ways:
        return ways == [HERE]
    if "in_process" in fixtures and "local_ray" in fixtures:
        raise pytest.UsageError("a test asks for workers in this process (in_process) and on Ray (local_ray)")
    return "in_process" in fixtures or (ray_is_up and "local_ray" not in fixtures)
