"""Peak memory of the processes of a run."""

import resource
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError

PATIENCE = 30.0  # Seconds to wait for the answers: an actor that was lost must not hold up the end of a run for long.


def peak_memory() -> int:
    """Return the largest resident memory that this process has had, in bytes; mapped files count."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def peak_of_actors(actors: Sequence[Any]) -> int | None:
    """Return the largest peak of the actors that answer within PATIENCE, in bytes; None if none does."""
    peaks = list[int]()
    # The run is complete: whatever its cluster has come to is no reason to fail.
    with suppress(RayError, RuntimeError, ConnectionError):
        calls = [actor.__ray_call__.remote(lambda _: peak_memory()) for actor in actors]
        for call in ray.wait(calls, num_returns=len(calls), timeout=PATIENCE)[0]:
            with suppress(RayError):
                peaks.append(ray.get(call))
    return max(peaks, default=None)
