"""Where the workers of a command are: in its own process, on a Ray cluster, or on a Ray that is started here."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from al_ray.cluster.local_workers import Told
from al_ray.cluster.workers import in_this_process, live_nodes, workers_in_this_process
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadOption
from al_ray.storage.uri import StoragePath

# What Ray sets for the processes of a job that was submitted to it, and users for a cluster to connect to.
CLUSTER = ("RAY_ADDRESS", "RAY_JOB_CONFIG_JSON_ENV_VAR")


@contextmanager
def session(config: ClusterConfig, trainers: int = 1, runs: int = 1, scorers: int = 0) -> Iterator[None]:
    """Provide workers until the context ends: in this process if its resources suffice, else by Ray.

    By Ray: an existing session, the cluster of RAY_ADDRESS, or else a local one. That gets enough logical CPUs for
    `runs` runs at a time, each with the config's shards and beside them `trainers`, which exchange gradients, and
    `scorers` of cross-encoders. The number of real threads is an option of the encoder.
    """
    if trainers > 1 and 0 < config.gpus_per_shard < 1:
        raise BadOption(
            f"{trainers} training workers with `gpus_per_shard={config.gpus_per_shard:g}`: NCCL, by which they "
            "exchange gradients, needs a whole GPU for each; give `gpus_per_shard=1`, or one worker "
            "(`RunConfig.training.workers=1`)"
        )
    if _needs_no_ray(config, max(trainers, runs), scorers):
        with Told("the command"), workers_in_this_process():
            yield
        return
    # Not at the top: Ray takes a second to import.
    from al_ray.cluster.ray_session import ray_session

    with workers_in_this_process(False), ray_session(config, trainers, runs, scorers):
        yield


def _needs_no_ray(config: ClusterConfig, most: int, scorers: int) -> bool:
    """Return whether this process can do all the work: on CPUs, and without a request for Ray.

    most: the highest number of trainers and of runs, which must run at the same time. Shards and scorers need not: a
    session in this process has any number of them for those inside it, but none is made for more than one by itself.
    """
    if most > 1 or config.gpus_per_shard or config.ray:
        return False
    if in_this_process():
        return True
    one = config.shards == 1 and scorers <= 1
    return one and not (_is_connected() or any(name in os.environ for name in CLUSTER))


def _is_connected() -> bool:
    """Return whether this process has a session of Ray, without importing it."""
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


def require_shared_folders(folders: Sequence[StoragePath], config: ClusterConfig) -> None:
    """BadOption for a local folder where several nodes are to read and write it, unless it is declared shared."""
    nodes = live_nodes()
    for folder in folders:
        if nodes > 1 and isinstance(folder, Path) and not config.shared_storage:
            raise BadOption(
                f"{folder} is a local folder, and the cluster has {nodes} nodes; give a URI such as s3://bucket/folder "
                "(`al_ray.prepare(..., out=URI)` writes a task there), or `shared_storage=True` if all nodes mount "
                "this path"
            )
