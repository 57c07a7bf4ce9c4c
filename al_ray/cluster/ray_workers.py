"""The functions of cluster/workers.py with actors of Ray; nobody else imports this, and Ray with it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError

from al_ray.cluster.actors import (
    deploy,
    get_results,
    placement,
    run_in_worker,
    stream_from_workers,
    stream_results,
    wait_for,
)
from al_ray.cluster.counters import COUNTERS
from al_ray.cluster.peak_memory import peak_memory

PATIENCE = 30.0  # Seconds to wait for the answers: an actor that was lost must not hold up the end of a run for long.


class RayWorkers:
    """The functions of cluster/workers.py, most of which are those of cluster/actors.py."""

    placement = staticmethod(placement)
    deploy = staticmethod(deploy)
    run_in_worker = staticmethod(run_in_worker)
    stream_from_workers = staticmethod(stream_from_workers)
    get_results = staticmethod(get_results)
    wait_for = staticmethod(wait_for)
    stream_results = staticmethod(stream_results)

    def put(self, value: Any) -> Any:
        """Put a value into Ray's object store and return its reference."""
        return ray.put(value)

    def peak_of_workers(self, workers: Sequence[Any]) -> int | None:
        """Return the largest peak of the actors that answer within PATIENCE, in bytes; None if none does."""
        peaks = list[int]()
        # The run is complete: whatever its cluster has come to is no reason to fail.
        with suppress(RayError, RuntimeError, ConnectionError):
            calls = [worker.__ray_call__.remote(lambda _: peak_memory()) for worker in workers]
            for call in ray.wait(calls, num_returns=len(calls), timeout=PATIENCE)[0]:
                with suppress(RayError):
                    peaks.append(ray.get(call))
        return max(peaks, default=None)

    def add_to_counter(self, counter: str, number: float, tags: Mapping[str, str] | None) -> None:
        """Add to a counter."""
        COUNTERS[counter].inc(number, dict(tags or {}))

    def live_nodes(self) -> int:
        """Return how many nodes of the cluster are alive."""
        return sum(node["Alive"] for node in ray.nodes())
