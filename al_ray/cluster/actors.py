"""Plain classes as actors of Ray, and the driver's waits for them, with clear words when one has no place or dies.

Ray keeps the places (a placement group): no other job takes that of an actor which is started again, and whether all of
them are there can be asked while every actor is busy.
"""

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import ray
import torch
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError, WorkerCrashedError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from al_ray.cluster.memory import OUT, sparing, sparing_call
from al_ray.core.config import ClusterConfig
from al_ray.core.errors import Lost, NoPlace

logger = logging.getLogger(__name__)

RESTARTS = 4  # Bounded: with endless restarts an actor that runs out of memory would loop for ever.


@dataclass(frozen=True)
class Room:
    """Bundles of a placement group that somebody else keeps, a worker each, by number."""

    group: PlacementGroup
    bundles: tuple[int, ...]


@dataclass(frozen=True)
class Places:
    """Room for so many workers of a kind, which Ray keeps; after a node's death it looks for other room."""

    name: str
    count: int
    config: ClusterConfig
    room: Room

    def await_all(self) -> None:
        """Wait until all are there; NoPlace after the config's timeout."""
        # Ray cuts off what is beyond whole seconds.
        if not self.room.group.wait(math.ceil(self.config.timeout)):
            raise NoPlace(
                f"{self.count} {self.name} workers of {self.config.cpus_per_shard} CPUs and "
                f"{self.config.gpus_per_shard} GPUs were not placed in {self.config.timeout:.0f} s; the cluster has "
                f"{room_of_nodes()}: ask for fewer --shards or --training.workers, less --cpus-per-shard or "
                "--gpus-per-shard, give a longer --timeout, or add nodes; the same command goes on"
            )

    def await_start(self, ready: list[Any]) -> None:
        """Wait until the workers answer for the first time, which is no work; NoPlace after the config's timeout."""
        if len(ray.wait(ready, num_returns=len(ready), timeout=self.config.timeout)[0]) < len(ready):
            raise NoPlace(
                f"{self.count} {self.name} workers have their places and did not start in {self.config.timeout:.0f} s: "
                "give a longer --timeout, or look into the logs of their nodes; the same command goes on"
            )
        gathered(ready)

    def options(self, number: int) -> dict[str, Any]:
        """What Ray is told of the worker `number`."""
        return {
            "num_cpus": self.config.cpus_per_shard,
            "num_gpus": self.config.gpus_per_shard,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(
                self.room.group, placement_group_bundle_index=self.room.bundles[number]
            ),
        }


# What this driver has under way. A wait that gets no answer looks whether all of it still has its place.
_kept: list[Places] = []


def asked_of(config: ClusterConfig) -> dict[str, float]:
    """What one worker asks of Ray: the bundle of a placement group."""
    return {"CPU": config.cpus_per_shard, **({"GPU": config.gpus_per_shard} if config.gpus_per_shard else {})}


@contextmanager
def kept(
    name: str, count: int, config: ClusterConfig, strategy: str = "SPREAD", room: Room | None = None
) -> Iterator[Places]:
    """Places for `count` workers, given back at the end; NoPlace when the cluster has no room in time.

    room: where they are to be, which stays when they go; a placement group of their own when it is not given.
    """
    own = room is None
    room = room or Room(placement_group([asked_of(config)] * count, strategy=strategy), tuple(range(count)))
    places = Places(name, count, config, room)
    try:
        places.await_all()
        _kept.append(places)
        yield places
    finally:
        _kept[:] = [other for other in _kept if other is not places]
        if own:
            remove_placement_group(room.group)


@contextmanager
def deployed(plain: type, specs: Sequence[Any], config: ClusterConfig, room: Room | None = None) -> Iterator[list[Any]]:
    """One actor of a plain class for each spec, killed at the end; NoPlace when the cluster has no room in time."""
    with kept(plain.__name__, len(specs), config, room=room) as places:
        made, bounds = ray.remote(standing(plain)), {"max_restarts": RESTARTS, "max_task_retries": RESTARTS}
        actors = [made.options(**bounds, **places.options(number)).remote(spec) for number, spec in enumerate(specs)]
        try:
            places.await_start([actor.stand.remote(config.device) for actor in actors])
            yield actors
        finally:
            release(actors)


def done_by_worker(
    function: Callable[..., Any], *arguments: Any, config: ClusterConfig, room: Room | None = None
) -> Any:
    """What a function returns that a worker calls, which needs no GPU; as patient and as careful as an actor."""
    name = function.__name__
    with kept(name, 1, replace(config, gpus_per_shard=0.0), room=room) as places:
        task = ray.remote(sparing_call(function, name)).options(max_retries=RESTARTS, **places.options(0))
        return gathered(task.remote(*arguments))


def release(actors: Iterable[Any]) -> None:
    """End actors and free what they held."""
    for actor in actors:
        ray.kill(actor)


def gathered(refs: Any) -> Any:
    """ray.get, with an actor's own error as it was raised there; NoPlace and Lost when no answer will come.

    Work may take as long as it likes. Only where a worker has lost its place and finds no other is the wait given up.
    """
    while True:
        try:
            return ray.get(refs, timeout=_patience())
        except GetTimeoutError:
            _refuse_unplaced()
        except RayTaskError as error:
            if isinstance(error.cause, RayError):
                raise _worded(error.cause) from error
            if isinstance(error.cause, Exception):
                raise error.cause from error
            raise
        except (RayActorError, WorkerCrashedError) as error:
            raise _worded(error) from error


def streamed(stream: Any) -> Iterator[Any]:
    """The values of a streaming call, as they are made."""
    while True:
        first_of([stream])
        try:
            ref = next(stream)
        except StopIteration:
            return
        yield gathered(ref)


def first_of(calls: list[Any], seconds: float | None = None) -> Any:
    """The first of several calls that has an answer; None when there was none in so many seconds, if they are given."""
    while True:
        ready, _ = ray.wait(calls, timeout=_patience() if seconds is None else seconds)
        if ready or seconds is not None:
            return ready[0] if ready else None
        _refuse_unplaced()


def _patience() -> float | None:
    """Seconds without an answer after which a wait looks about."""
    return min((places.config.timeout for places in _kept), default=None)


def _refuse_unplaced() -> None:
    for places in _kept:
        places.await_all()
    logger.info("no answer for %.0f s; every actor has its place, so the wait goes on", _patience() or 0)


def room_of_nodes() -> str:
    """What the nodes that are alive have, one by one: an actor must fit into one of them."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    held = [", ".join(f"{node.get(name, 0):g} {name}s" for name in ("CPU", "GPU")) for node in nodes]
    return f"{len(nodes)} nodes ({'; '.join(held)})"


def _worded(error: RayError) -> Lost:
    """The end of an actor in one line: who, what it did, and the cure."""
    told = " ".join(str(error).split())
    name = re.search(r"class_name: (\S+)", told)
    reason = OUT + told.split(OUT)[-1] if OUT in told else told.split("Worker exit detail: ")[-1]
    if told.endswith("MemoryError"):
        # Where no code of ours runs that could give its process up.
        reason = f"{OUT}Ray itself, as it read what a call was given"
    return Lost(
        f"{name[1] if name else 'a worker'} died, and again each time it was started anew (at most {RESTARTS} times): "
        f"{reason[:300].rstrip('.')}. If memory is short: more --shards need less each, so does (in a new --out) a "
        "smaller --search.block, --encoder-batch or --training.batch; or machines with more. The same command goes on"
    )


def standing(plain: type) -> type:
    """The class as an actor: it spares its node's memory, and can say whether it stands where it was promised to."""

    def stand(self: Any, device: str) -> None:
        """NoPlace when torch does not see the GPU that Ray gave."""
        if device != "cpu" and not torch.cuda.is_available():
            raise NoPlace(
                f"Ray gave {plain.__name__} the GPUs {ray.get_gpu_ids()} of a node where torch {torch.__version__} "
                "sees no CUDA device: mend its driver, install a torch built for CUDA, or leave out --gpus-per-shard"
            )

    return type(plain.__name__, (sparing(plain),), {"stand": stand})
