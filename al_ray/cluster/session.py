"""Ray, started or found; and plain classes deployed as actors, with clear words when they cannot be placed."""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayTaskError

from al_ray.core.config import ClusterConfig
from al_ray.core.errors import BadOption, NoPlace
from al_ray.storage.places import Place

logger = logging.getLogger(__name__)

RESTARTS = 4  # Bounded: with endless restarts an actor that runs out of memory would loop for ever.


@contextmanager
def session(config: ClusterConfig) -> Iterator[None]:
    """Ray for the length of a job: the cluster that RAY_ADDRESS or a session names, or else a local one.

    A local Ray gets logical CPUs enough for the config; real threads are the encoder's option.
    """
    found = ray.is_initialized()
    if not found and "RAY_ADDRESS" in os.environ:
        ray.init(logging_level=logging.WARNING)
    elif not found:
        # Without a word Ray 2.60 writes a token into the home folder, and later clusters there demand it.
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Threads that wait by spinning stand in the way of those they wait for as soon as another process computes too:
        # on two shared cores a small encoder was thirty times slower.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        wanted = int((config.shards + 1) * config.cpus_per_shard) + 1
        ray.init(
            address="local",
            num_cpus=max(os.cpu_count() or 1, wanted), include_dashboard=False, logging_level=logging.WARNING,
        )  # fmt: skip
    try:
        gpus = ray.cluster_resources().get("GPU", 0)
        # A local Ray does not grow: nobody should wait for what will not come.
        if not found and "RAY_ADDRESS" not in os.environ and config.gpus_per_shard * (config.shards + 1) > gpus:
            raise NoPlace(
                f"{config.shards} shards and a trainer ask for {config.gpus_per_shard:g} GPUs each, and this machine "
                f"has {gpus:g}: lower --gpus-per-shard or --shards, or give RAY_ADDRESS of a cluster"
            )
        yield
    finally:
        if not found:
            ray.shutdown()


@contextmanager
def deployed(plain: type, specs: Sequence[Any], config: ClusterConfig) -> Iterator[list[Any]]:
    """One actor of a plain class for each spec, killed at the end; NoPlace when the cluster has no room in time."""
    options = {
        "num_cpus": config.cpus_per_shard,
        "num_gpus": config.gpus_per_shard,
        "max_restarts": RESTARTS,
        "max_task_retries": RESTARTS,
        "scheduling_strategy": "SPREAD",
    }
    actors = [ray.remote(plain).options(**options).remote(spec) for spec in specs]
    try:
        try:
            ray.get([actor.__ray_ready__.remote() for actor in actors], timeout=config.timeout)
        except GetTimeoutError as error:
            raise NoPlace(
                f"{len(actors)} {plain.__name__} actors of {config.cpus_per_shard} CPUs and {config.gpus_per_shard} "
                f"GPUs were not placed in {config.timeout:.0f} s; the cluster has {ray.cluster_resources()}: ask for "
                "fewer --shards, less --cpus-per-shard or --gpus-per-shard, or give a longer --timeout"
            ) from error
        yield actors
    finally:
        release(actors)


def refuse_lost(out: Place) -> None:
    """A submitted job works in Ray's copy of its folder: refuse a relative path there, which would be lost."""
    if "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ and isinstance(out, Path) and not out.is_absolute():
        raise BadOption(f"--out {out} is relative, and a submitted job's folder is thrown away; give an absolute path")


def refuse_unshared(folders: Sequence[Place], config: ClusterConfig) -> None:
    """BadOption for a local folder where several nodes are to read and write it, unless it is declared shared."""
    nodes = sum(node["Alive"] for node in ray.nodes())
    for folder in folders:
        if nodes > 1 and isinstance(folder, Path) and not config.shared_storage:
            raise BadOption(
                f"{folder} is a local folder, and the cluster has {nodes} nodes; give a URI such as s3://bucket/folder "
                "(jobs.prepare --out writes a task there), or --shared-storage if all nodes mount this path"
            )


def release(actors: Iterable[Any]) -> None:
    """End actors and free what they held."""
    for actor in actors:
        ray.kill(actor)


def gathered(refs: Any) -> Any:
    """ray.get, with an actor's own error as it was raised there."""
    try:
        return ray.get(refs)
    except RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from error
        raise


def streamed(stream: Any) -> Iterator[Any]:
    """The values of a streaming call, as they are made."""
    for ref in stream:
        yield gathered(ref)
