"""Connect to a Ray cluster or start a local Ray."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import ray

from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import NoPlacement

logger = logging.getLogger(__name__)
STARTS = 3  # Of a local Ray. Ray 2.60 waits 15 s for its agents, which is too short on a busy machine (issue 65983).


def local() -> bool:
    """Whether a session starts Ray on this machine, because no cluster is named."""
    return "RAY_ADDRESS" not in os.environ


@contextmanager
def ray_session(config: ClusterConfig, trainers: int, runs: int, scorers: int) -> Iterator[None]:
    """Provide Ray until the context ends: see cluster/session.py."""
    # Of calls whose answer nobody needs any more, because another one failed.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    found = ray.is_initialized()
    if not found and not local():
        ray.init(logging_level=logging.WARNING)
    elif not found:
        # By default Ray 2.60 writes a token into the home folder, and later clusters there require it.
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # The handler writes down where a process aborted. Without memory it aborts itself, again and again, and the
        # process does not end.
        os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")
        # Waiting threads that spin block those they wait for when another process computes too: on two shared cores a
        # small encoder was thirty times slower.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        # Where nothing is trained, too, one more for the calls that need no shard.
        wanted = int(runs * (config.shards + max(1, trainers + scorers)) * config.cpus_per_shard) + 1
        _start_local(max(os.cpu_count() or 1, wanted))
    try:
        gpus = ray.cluster_resources().get("GPU", 0)
        # A local Ray gets no more GPUs later, so waiting would be in vain.
        if not found and local() and config.gpus_per_shard * (config.shards + trainers + scorers) > gpus:
            kinds = {"shard": config.shards, "trainer": trainers, "scorer": scorers}
            actors = " and ".join(f"{count} {name}{'s' * (count > 1)}" for name, count in kinds.items() if count)
            raise NoPlacement(
                f"{actors} ask for {config.gpus_per_shard:g} GPUs each, and this machine has {gpus:g}: lower "
                "`gpus_per_shard` or `shards` (of `al_ray.run` also `training.workers`), or give RAY_ADDRESS of a "
                "cluster"
            )
        yield
    finally:
        if not found:
            ray.shutdown()


def _start_local(cpus: int) -> None:
    """Start Ray on this machine with this number of logical CPUs; retry if its node does not start in time."""
    for left in reversed(range(STARTS)):
        with _LateNode(left):
            ray.init(address="local", num_cpus=cpus, include_dashboard=False, logging_level=logging.WARNING)
            return


class _LateNode:
    """Context in which a node that does not start in time is no error, while starts are left."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        # Ray's error has no class of its own.
        late = kind is Exception and "timed out during startup" in str(error) and self.left > 0
        if late:
            logger.warning("Ray did not start in time and is started again: %s", " ".join(str(error).split()))
            while at is not None:
                node: Any = at.tb_frame.f_locals.get("self")
                # Ray has not noted the node yet, and would leave its processes running.
                if hasattr(node, "kill_all_processes"):
                    node.kill_all_processes(check_alive=False, allow_graceful=False)
                at = at.tb_next
        return late
