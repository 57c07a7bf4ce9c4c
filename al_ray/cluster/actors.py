"""Place actors and tasks of Ray and wait for their results, with clear errors when one is not placed or dies.

Actors run in a placement group: Ray reserves its bundles, so that no other job takes the place of an actor that
restarts, and its state can be queried while every actor is busy.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError, WorkerCrashedError
from ray.util.placement_group import PlacementGroup, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from al_ray.cluster.actor_host import ActorHandle, HostSpec, start_actor
from al_ray.cluster.capacity import await_again, describe_capacity, reserve
from al_ray.cluster.fatal_errors import RESTARTS, exit_if_ending, exit_on_fatal_errors, lost_error
from al_ray.cluster.places import BundleSlots, bundle_of
from al_ray.cluster.working_folder import working_here
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import NoPlacement
from al_ray.core.streams import round_robin

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Placement:
    """Reserved bundles for workers, one each; when a node dies, Ray places them on another.

    kinds: name -> number of workers, in the order of the bundles.
    """

    kinds: Mapping[str, int]
    config: ClusterConfig
    all_slots: BundleSlots

    @property
    def workers(self) -> str:
        """Names and numbers of the workers, for messages."""
        return " and ".join(f"{count} {name}" for name, count in self.kinds.items()) + " workers"

    def slots(self, kind: str) -> BundleSlots:
        """Return the bundles of a kind of workers."""
        names = [name for name, count in self.kinds.items() for _ in range(count)]
        numbers = (number for name, number in zip(names, self.all_slots.bundles, strict=False) if name == kind)
        return BundleSlots(self.all_slots.group, tuple(numbers))

    @property
    def bundles(self) -> list[dict[str, float]]:
        """Return the resources of each worker."""
        return [bundle_of(self.config)] * sum(self.kinds.values())

    @property
    def demand(self) -> str:
        """The workers with the resources of each, for messages."""
        return f"{self.workers} of {self.config.cpus_per_shard} CPUs and {self.config.gpus_per_shard} GPUs"

    def await_all(self) -> None:
        """Wait until all bundles are placed; NoPlacement after the config's timeout."""
        if not await_again(self.all_slots.group, self.demand, self.bundles, self.config.timeout):
            raise self.unplaced()

    def unplaced(self) -> NoPlacement:
        """Return the error of bundles that get no places."""
        return NoPlacement(
            f"{self.demand} were not placed in {self.config.timeout:.0f} s; the cluster has "
            f"{describe_capacity(self.bundles)}: ask for fewer `shards`, less `cpus_per_shard` or `gpus_per_shard`, "
            "give a longer `timeout` (to `al_ray.run` also fewer `training.workers`), or add nodes; then rerun "
            "the command"
        )

    def await_start(self, actors: Iterable[ActorHandle]) -> None:
        """Wait until each worker has checked its device; NoPlacement after the config's timeout."""
        ready = [one.actor.check_device.remote(self.config.device) for one in actors]
        if len(ray.wait(ready, num_returns=len(ready), timeout=self.config.timeout)[0]) < len(ready):
            raise NoPlacement(
                f"{self.workers} have their places and did not start in {self.config.timeout:.0f} s: give a longer "
                "`timeout`, or look into the logs of their nodes; then rerun the command"
            )
        get_results(ready)

    def options(self, number: int) -> dict[str, Any]:
        """Return Ray's options for worker `number`."""
        return {
            "num_cpus": self.config.cpus_per_shard,
            "num_gpus": self.config.gpus_per_shard,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(
                self.all_slots.group, placement_group_bundle_index=self.all_slots.bundles[number]
            ),
        }


# Placements of this driver. A wait without an answer checks that all of them are still placed.
_placements: list[Placement] = []


@contextmanager
def placement(
    kinds: Mapping[str, int], config: ClusterConfig, strategy: str = "SPREAD", slots: BundleSlots | None = None
) -> Iterator[Placement]:
    """Reserve resources for all workers, or for none, until the context ends; NoPlacement after the timeout.

    kinds: see Placement. slots: existing bundles to use, which are not released; without it a new placement group is
    made.
    """
    numbers = tuple(range(sum(kinds.values())))
    places = Placement(kinds, config, slots or BundleSlots(PlacementGroup.empty(), numbers))
    group = None
    if slots is None:
        group = reserve(places.demand, places.bundles, strategy, config.timeout)
        if group is None:
            raise places.unplaced()
        places = replace(places, all_slots=BundleSlots(group, numbers))
    else:
        places.await_all()
    _placements.append(places)
    try:
        yield places
    finally:
        _placements[:] = [other for other in _placements if other is not places]
        if group is not None:
            remove_placement_group(group)


@contextmanager
def deploy(
    make: Callable[[Any], Any],
    specs: Sequence[Any],
    config: ClusterConfig,
    slots: BundleSlots | None = None,
    groups: Mapping[str, int] | None = None,
) -> Iterator[list[ActorHandle]]:
    """Start one actor for each spec; they end with the context. NoPlacement after the timeout.

    make: see workers.deploy. groups: Ray's concurrency groups of an actor, with their numbers of threads; other calls
    run one after the other.
    """
    with placement({make.__name__: len(specs)}, config, slots=slots) as places:
        bounds = {"max_restarts": RESTARTS, "max_task_retries": RESTARTS}
        host = HostSpec(make)
        actors = [
            start_actor(host, spec, {**bounds, **places.options(number)}, groups) for number, spec in enumerate(specs)
        ]
        try:
            places.await_start(actors)
            yield actors
        finally:
            kill_actors(actors)


def run_in_worker(
    function: Callable[..., Any], *arguments: Any, config: ClusterConfig, slots: BundleSlots | None = None
) -> Any:
    """Call a function in a worker without GPU and return its result, with the waits and retries of an actor."""
    name = function.__name__
    with placement({name: 1}, replace(config, gpus_per_shard=0.0), slots=slots) as places:
        task = ray.remote(exit_on_fatal_errors(working_here(function), name)).options(
            max_retries=RESTARTS, **places.options(0)
        )
        return get_results(task.remote(*arguments))


def stream_from_workers(
    function: Callable[..., Iterator[Any]],
    arguments: Sequence[tuple[Any, ...]],
    config: ClusterConfig,
    slots: BundleSlots | None = None,
) -> Iterator[Any]:
    """Call a generator function in workers without GPU, one for each tuple of arguments, and yield what they yield."""
    name = function.__name__
    with placement({name: len(arguments)}, replace(config, gpus_per_shard=0.0), slots=slots) as places:
        task: Any = ray.remote(exit_on_fatal_errors(working_here(function), name))
        options = {"max_retries": RESTARTS, "num_returns": "streaming"}
        streams = [
            task.options(**options, **places.options(number)).remote(*own) for number, own in enumerate(arguments)
        ]
        yield from round_robin([stream_results(stream) for stream in streams])


def kill_actors(actors: Iterable[ActorHandle]) -> None:
    """Kill actors and free their resources."""
    for one in actors:
        ray.kill(one.actor)


def get_results(refs: Any) -> Any:
    """ray.get that raises an actor's own error, and NoPlacement or ActorLost when no answer will come.

    There is no limit on the time of a call: the wait ends only when a worker has lost its place and gets no other. An
    actor that hangs is ended on its node (cluster/watchdog.py).
    """
    while True:
        try:
            return ray.get(refs, timeout=_wait_seconds())
        except GetTimeoutError:
            _await_placements()
        except RayTaskError as error:
            if isinstance(error.cause, RayError):
                raise lost_error(error.cause) from error
            if isinstance(error.cause, Exception):
                raise error.cause from error
            raise
        except (RayActorError, WorkerCrashedError) as error:
            raise lost_error(error) from error


def wait_for(refs: Any) -> Any:
    """ray.get in an actor with several threads; it ends after a fatal error in another thread."""
    while True:
        try:
            return ray.get(refs, timeout=1.0)
        except GetTimeoutError:
            exit_if_ending()


def stream_results(stream: Any) -> Iterator[Any]:
    """Yield the values of a streaming call as they arrive."""
    while True:
        wait_for_first([stream])
        try:
            ref = next(stream)
        except StopIteration:
            return
        yield get_results(ref)


def wait_for_first(calls: list[Any], seconds: float | None = None) -> Any:
    """Wait for the first of several calls that finishes; None if none does in `seconds`."""
    while True:
        ready, _ = ray.wait(calls, timeout=_wait_seconds() if seconds is None else seconds)
        if ready or seconds is not None:
            return ready[0] if ready else None
        _await_placements()


def _wait_seconds() -> float | None:
    """Return the seconds without an answer after which a wait checks the placements."""
    return min((places.config.timeout for places in _placements), default=None)


def _await_placements() -> None:
    for places in _placements:
        places.await_all()
    logger.info("no answer for %.0f s; every actor is placed, so the wait continues", _wait_seconds() or 0)
