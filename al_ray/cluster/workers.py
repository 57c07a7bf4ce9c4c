"""Workers of a command: actors of Ray, or plain objects in this process; callers use both in the same way.

This is the seam between the loop and Ray. `session` (cluster/session.py) chooses. The functions below have two
implementations, cluster/ray_workers.py and cluster/local_workers.py; without the former Ray is not imported.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from al_ray.cluster.local_workers import LocalWorkers
from al_ray.cluster.places import BundleSlots, Places
from al_ray.core.config.cluster import ClusterConfig

if TYPE_CHECKING:
    from al_ray.cluster.ray_workers import RayWorkers

# Whether workers are objects in this process. Without a session there is Ray: its actors have none.
_here = ContextVar("workers are in this process", default=False)


def in_this_process() -> bool:
    """Whether workers are objects in this process."""
    return _here.get()


@contextmanager
def workers_in_this_process(here: bool = True) -> Iterator[None]:
    """Have workers in this process until the context ends, or as actors of Ray."""
    before = _here.set(here)
    try:
        yield
    finally:
        _here.reset(before)


def _workers() -> "LocalWorkers | RayWorkers":
    """Return the implementation of the functions below."""
    if in_this_process():
        return LocalWorkers()
    from al_ray.cluster.ray_workers import RayWorkers

    return RayWorkers()


def placement(
    kinds: Mapping[str, int], config: ClusterConfig, strategy: str = "SPREAD", slots: BundleSlots | None = None
) -> AbstractContextManager[Places]:
    """Reserve places for all workers, or for none, until the context ends; NoPlacement after the timeout.

    kinds: name -> number of workers. strategy: of Ray's placement group. slots: existing bundles to use instead.
    """
    return _workers().placement(kinds, config, strategy, slots)


def deploy(
    make: Callable[[Any], Any],
    specs: Sequence[Any],
    config: ClusterConfig,
    slots: BundleSlots | None = None,
    groups: Mapping[str, int] | None = None,
) -> AbstractContextManager[list[Any]]:
    """Start one worker for each spec, with an object that it makes; they end with the context.

    make: a plain class, or another function of a spec; its name is that of the workers. NoPlacement after the timeout.
    The workers answer `worker.method.remote(...)` with a reference, and with a stream after
    `worker.method.options(num_returns="streaming")`. groups: Ray's concurrency groups, with their numbers of threads.
    """
    return _workers().deploy(make, specs, config, slots, groups)


def run_in_worker(
    function: Callable[..., Any], *arguments: Any, config: ClusterConfig, slots: BundleSlots | None = None
) -> Any:
    """Call a function in a worker without GPU and return its result."""
    return _workers().run_in_worker(function, *arguments, config=config, slots=slots)


def stream_from_workers(
    function: Callable[..., Iterator[Any]],
    arguments: Sequence[tuple[Any, ...]],
    config: ClusterConfig,
    slots: BundleSlots | None = None,
) -> Iterator[Any]:
    """Call a generator function in workers without GPU, one for each tuple of arguments, and yield what they yield."""
    return _workers().stream_from_workers(function, arguments, config, slots)


def put(value: Any) -> Any:
    """Return a reference of a value, for several calls."""
    return _workers().put(value)


def get_results(refs: Any) -> Any:
    """Return the value of a reference, or those of a list; a worker's own error, ActorLost or NoPlacement."""
    return _workers().get_results(refs)


def wait_for(refs: Any) -> Any:
    """As get_results, for a worker that asks others."""
    return _workers().wait_for(refs)


def stream_results(stream: Any) -> Iterator[Any]:
    """Yield the values of a streaming call as they arrive."""
    return _workers().stream_results(stream)


def peak_of_workers(workers: Sequence[Any]) -> int | None:
    """Return the largest peak memory of the processes of workers, in bytes; None if none has one of its own."""
    return _workers().peak_of_workers(workers)


def add_to_counter(counter: str, number: float, tags: Mapping[str, str] | None = None) -> None:
    """Add a number above 0 to one of Ray's counters (cluster/counters.py); in this process nobody reads them."""
    _workers().add_to_counter(counter, number, tags)


def live_nodes() -> int:
    """Return on how many machines there may be workers."""
    return _workers().live_nodes()
