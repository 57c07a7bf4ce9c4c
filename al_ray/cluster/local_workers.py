"""Workers in the process of a command, without Ray: plain objects, whose methods run at once in the caller's thread.

They answer the same calls as handles of Ray's actors. What crosses between caller and worker is as after Ray: objects
are copies, and arrays are read-only; these alone are not copied, so that neither side may change what it has handed
over. A worker computes with the numbers of threads that it would have in a process of its own, and the process has its
own ones back after each call. Nobody ends a call that hangs (cluster/watchdog.py): whoever started the command sees it.
"""

import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

import torch
from threadpoolctl import ThreadpoolController

from al_ray.cluster.fatal_errors import lost_here
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.streams import round_robin
from al_ray.search.faiss_index import set_threads
from al_ray.search.threads import threads_set

# What a pickle refers to.
_here = WeakValueDictionary[int, Any]()
# Of one piece each: they need no copy.
PLAIN = (type(None), bool, int, float, str, bytes)


def _known(number: int) -> Any:
    return _here[number]


class LocalRef:
    """A value that a call has returned, or that was put: what a reference of Ray's object store is."""

    def __init__(self, value: Any) -> None:
        """value: as the other side is to see it."""
        self.value = value
        _here[id(self)] = self

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross as this very object."""
        return _known, (id(self),)


class LocalWorker:
    """The handle of a plain object, as of an actor: `worker.method.remote(...)`, with Ray's options or without."""

    def __init__(self, make: Callable[[Any], Any], spec: Any, cpus: float) -> None:
        """Make the object. cpus: number that an actor would request from Ray."""
        self._name, self._threads = make.__name__, _Threads(cpus)
        with Told(f"{self._name}.__init__"), self._threads:
            self._object: Any = make(received(spec))
        _here[id(self)] = self

    def __getattr__(self, name: str) -> Any:
        """Return what calls a method. `__ray_call__` calls a function with the object."""
        if name == "__ray_call__":
            return _Calls(self)
        return _Method(getattr(self._object, name), f"{self._name}.{name}", self._threads)

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross as this very object."""
        return _known, (id(self),)

    def call_function(self, function: Callable[..., Any], *arguments: Any) -> "LocalRef":
        """Call a function with the object, as a method."""
        name = f"{self._name}.{getattr(function, '__name__', 'call')}"
        return _Method(partial(function, self._object), name, self._threads).remote(*arguments)

    def drop_object(self) -> None:
        """Free the object's memory; there are no more calls."""
        self._object = None


@dataclass(frozen=True)
class _Calls:
    """`worker.__ray_call__`."""

    worker: LocalWorker

    def remote(self, function: Callable[..., Any], *arguments: Any) -> LocalRef:
        """Call a function with the object of the worker."""
        return self.worker.call_function(function, *arguments)


@dataclass(frozen=True)
class _Method:
    """A method of a worker. returns: "streaming" for a generator, else the number of values."""

    method: Callable[..., Any]
    name: str
    threads: "_Threads"
    returns: int | str = 1

    def options(self, num_returns: int | str = 1, concurrency_group: str = "") -> "_Method":
        """Return the method with another number of values. Concurrency groups are for other threads: there are none."""
        return _Method(self.method, self.name, self.threads, num_returns)

    def remote(self, *arguments: Any) -> Any:
        """Call it now; an error is raised here. A stream runs as it is read."""
        given = [one.value if isinstance(one, LocalRef) else received(one) for one in arguments]
        if self.returns == "streaming":
            return _stream(self.method, given, self.name, self.threads)
        with Told(self.name), self.threads:
            answer = received(self.method(*given))
        return LocalRef(answer) if self.returns == 1 else [LocalRef(one) for one in answer]


class _Threads:
    """The numbers of threads of torch, NumPy and Faiss in a worker: those of a context, and after it those before it.

    The last bits of vectors depend on them. Ray gives an actor as many as it has CPUs. A library that is loaded in a
    call has them from the next one on.
    """

    def __init__(self, cpus: float) -> None:
        self.blas = self.torch = max(1, int(cpus))
        self.faiss: int | None = None
        self.before = list[tuple[int, int | None, Any]]()

    def __enter__(self) -> None:
        blas = _libraries(len(sys.modules)).limit(limits=self.blas, user_api="blas")
        self.before.append((torch.get_num_threads(), threads_set(), blas))
        _compute_with(self.torch, self.faiss)

    def __exit__(self, *_: object) -> None:
        self.torch, self.faiss = torch.get_num_threads(), threads_set()
        of_torch, of_faiss, blas = self.before.pop()
        _compute_with(of_torch, of_faiss)
        blas.restore_original_limits()


@lru_cache(1)
def _libraries(modules: int) -> ThreadpoolController:
    """Return the libraries of linear algebra that this process has loaded. modules: number of imported modules."""
    return ThreadpoolController()


def _compute_with(of_torch: int, of_faiss: int | None) -> None:
    if torch.get_num_threads() != of_torch:
        torch.set_num_threads(of_torch)
    if threads_set() != of_faiss:
        set_threads(of_faiss)


class Told:
    """Context of a call: ActorLost when memory runs out in it, with what helps."""

    def __init__(self, name: str) -> None:
        """name: what is called."""
        self.name = name

    def __enter__(self) -> None:
        """Nothing is prepared."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Raise ActorLost in place of an out-of-memory error."""
        lost = lost_here(error, self.name) if isinstance(error, Exception) else None
        if lost is not None:
            raise lost from error


def _stream(method: Callable[..., Any], given: Sequence[Any], name: str, threads: _Threads) -> Iterator[Any]:
    """Yield what a generator yields; it computes while the next value is waited for, and not before."""
    with Told(name):
        coming = method(*given)
        while True:
            with threads:
                try:
                    item = received(next(coming))
                except StopIteration:
                    return
            yield item


def received(value: Any) -> Any:
    """Return a value as Ray hands it over: a copy, whose arrays are read-only and use the memory of those here."""
    if isinstance(value, PLAIN):
        return value
    buffers = list[pickle.PickleBuffer]()
    content = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(content, buffers=[buffer.raw().toreadonly() for buffer in buffers])


@dataclass(frozen=True)
class LocalPlaces:
    """Places in this process, of which there are always enough."""

    config: ClusterConfig

    def slots(self, kind: str) -> None:
        """There are no bundles."""


class LocalWorkers:
    """The functions of cluster/workers.py in this process; arguments about places and nodes have no effect here."""

    @contextmanager
    def placement(self, _: object, config: ClusterConfig, *places: object) -> Iterator[LocalPlaces]:
        """Nobody waits for places."""
        yield LocalPlaces(config)

    @contextmanager
    def deploy(
        self, make: Callable[[Any], Any], specs: Sequence[Any], config: ClusterConfig, *places: object
    ) -> Iterator[list[LocalWorker]]:
        """Make one object for each spec; they are dropped with the context."""
        workers = [LocalWorker(make, spec, config.cpus_per_shard) for spec in specs]
        try:
            yield workers
        finally:
            for worker in workers:
                worker.drop_object()

    def run_in_worker(self, function: Callable[..., Any], *arguments: Any, config: ClusterConfig, slots: object) -> Any:
        """Call a function as a method of a worker."""
        method = _Method(function, function.__name__, _Threads(config.cpus_per_shard))
        return method.remote(*arguments).value

    def stream_from_workers(
        self,
        function: Callable[..., Iterator[Any]],
        arguments: Sequence[tuple[Any, ...]],
        config: ClusterConfig,
        slots: object,
    ) -> Iterator[Any]:
        """Call a generator function as a method of a worker, for each tuple of arguments, and yield in turn."""
        method = _Method(function, function.__name__, _Threads(config.cpus_per_shard), "streaming")
        yield from round_robin([method.remote(*own) for own in arguments])

    def put(self, value: Any) -> LocalRef:
        """Hand a value over once."""
        return LocalRef(received(value))

    def get_results(self, refs: Any) -> Any:
        """Return values, which are there."""
        return [ref.value for ref in refs] if isinstance(refs, list) else refs.value

    def wait_for(self, refs: Any) -> Any:
        """Return values, which are there."""
        return self.get_results(refs)

    def stream_results(self, stream: Iterator[Any]) -> Iterator[Any]:
        """A stream is a generator."""
        return stream

    def peak_of_workers(self, _: object) -> None:
        """Workers have no process of their own."""

    def add_to_counter(self, *_: object) -> None:
        """Nothing is served."""

    def live_nodes(self) -> int:
        """This machine."""
        return 1
