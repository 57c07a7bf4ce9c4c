"""The actors of Ray: each holds an object of a plain class and calls its methods on request of a handle.

An object in the process of a command has the same kind of handle (cluster/local_workers.py).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import ray
import torch

from al_ray.cluster import watchdog
from al_ray.cluster.fatal_errors import ExitOnFatalErrors, prepare_to_end
from al_ray.cluster.working_folder import work_in, working_folder
from al_ray.core.errors import NoPlacement
from al_ray.encoders.hardware import device_fault, limit_memory, settle_arithmetic


@dataclass(frozen=True)
class HostSpec:
    """How an actor makes its object, and where and how long it works; the defaults are those of the driver's process.

    make: a plain class, or another function of a spec with a name, which messages call the actor by. patience,
    patience_of_steps: see watchdog.watch.
    """

    make: Callable[[Any], Any]
    home: str = field(default_factory=working_folder)
    patience: float = field(default_factory=lambda: watchdog.PATIENCE)
    patience_of_steps: float = field(default_factory=lambda: watchdog.PATIENCE_OF_STEPS)


class ActorHost:
    """The class of all actors: it exits on a fatal error or when it hangs, and can check its device."""

    def __init__(self, host: HostSpec, spec: Any) -> None:
        """Watch the process and limit its share of a GPU's memory, then make the object of a spec."""
        self._name = host.make.__name__
        work_in(host.home)
        prepare_to_end()
        settle_arithmetic()
        # Here and not in a call of the driver: Ray starts a lost actor again without one.
        limit_memory(ray.get_runtime_context().get_assigned_resources().get("GPU", 0.0))
        watched = f"{self._name} {getattr(spec, 'shard', '')}".strip()
        watchdog.watch(watched, host.patience, host.patience_of_steps)
        self._object = host.make(spec)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the object."""
        with ExitOnFatalErrors(f"{self._name}.{method}"):
            return getattr(self._object, method)(*arguments)

    def stream(self, method: str, *arguments: Any) -> Iterator[Any]:
        """Yield what a generator method of the object yields."""
        with ExitOnFatalErrors(f"{self._name}.{method}"):
            # One by one: Ray sends statistics into the stream, which end here. `yield from` would pass them on.
            for value in getattr(self._object, method)(*arguments):  # noqa: UP028
                yield value

    def apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function with the object."""
        return function(self._object, *arguments)

    def check_device(self, device: str) -> None:
        """NoPlacement when torch cannot compute on the GPU that Ray gave."""
        fault = device_fault(device)
        if fault:
            raise NoPlacement(
                f"Ray gave {self._name} the GPUs {ray.get_gpu_ids()} of a node where torch {torch.__version__} "
                f"{fault}: fix its driver, install a torch built for CUDA, or leave out `gpus_per_shard`"
            )


@lru_cache
def _host_class(name: str, groups: tuple[tuple[str, int], ...]) -> Any:
    """Return Ray's class of the hosts of objects of a class of this name. groups: see start_actor."""

    class Named(ActorHost):
        """The same class under another name: Ray names processes and lost actors by their class."""

    Named.__name__ = Named.__qualname__ = name
    # A type checker does not know the groups.
    remote: Any = ray.remote
    return (remote(concurrency_groups=dict(groups)) if groups else remote)(Named)


def start_actor(
    host: HostSpec, spec: Any, options: Mapping[str, Any], groups: Mapping[str, int] | None = None
) -> "ActorHandle":
    """Start an actor with Ray's options. groups: its concurrency groups, with their numbers of threads."""
    name = host.make.__name__
    actor = _host_class(name, tuple((groups or {}).items())).options(**options).remote(host, spec)
    return ActorHandle(actor, name)


@dataclass(frozen=True)
class ActorHandle:
    """The handle of an actor, by which others call the methods of its object: `handle.method.remote(...)`.

    actor: Ray's handle. name: of the object's class.
    """

    actor: Any
    name: str

    def __getattr__(self, method: str) -> "ActorMethod":
        """Return what calls a method of the object."""
        if method.startswith("_"):
            raise AttributeError(method)
        return ActorMethod(self, method)

    @property
    def __ray_call__(self) -> Any:
        """Return what calls a function with the object."""
        return self.actor.apply


@dataclass(frozen=True)
class ActorMethod:
    """A method of the object of an actor, with Ray's options of a call."""

    handle: ActorHandle
    method: str
    ray_options: Mapping[str, Any] = field(default_factory=dict)

    def options(self, **options: Any) -> "ActorMethod":
        """Return the method with these options of Ray: num_returns ("streaming" for a generator), concurrency_group."""
        return ActorMethod(self.handle, self.method, options)

    def remote(self, *arguments: Any) -> Any:
        """Begin the call, and return its reference or its stream."""
        actor, streams = self.handle.actor, self.ray_options.get("num_returns") == "streaming"
        # Ray names a call, and the process in it, by the method of the actor's class unless it is given another name.
        options = {"name": f"{self.handle.name}.{self.method}", **self.ray_options}
        return (actor.stream if streams else actor.call).options(**options).remote(self.method, *arguments)
