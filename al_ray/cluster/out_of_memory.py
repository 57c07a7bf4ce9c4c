"""When memory runs out in a worker, its process exits, which frees all of it, and Ray restarts it as after a crash.

Ray does not retry a call that raises an exception. A process that exits with a code other than 0 has crashed: Ray
restarts the actor and repeats the call, RESTARTS times at most (docs.ray.io, "Actor Fault Tolerance").
"""

import errno
import inspect
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError

from al_ray.core.errors import AlRayError

OUT = "out of memory in "
SECONDS_TO_END = 20.0  # Until a process ends that Ray does not end.
_ending: list[str] = []  # The message of this process, once memory ran out in one of its threads.
_must_end = threading.Event()
# Messages, because the errors of Torch, CUDA's libraries, Faiss, the system and Rust have no common class.
WORDS = (
    *("out of memory", "can't allocate memory", "cannot allocate memory", "bad_alloc", "alloc_failed", "cudamalloc"),
    # Python, which has no memory for the stack of a thread.
    "can't start new thread",
    # oneDNN, on the CPU.
    "could not create a primitive",
    "could not create a memory",
)


def exiting_when_out_of_memory(plain: type) -> type:
    """Return the class with public methods that end the process when memory runs out in them."""
    methods = {
        name: exit_when_out_of_memory(method, f"{plain.__name__}.{name}")
        for name, method in inspect.getmembers(plain, inspect.isfunction)
        if not name.startswith("_")
    }
    return type(plain.__name__, (plain,), methods)


def exit_when_out_of_memory(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return the function or generator function so that it ends the process when memory runs out in it."""

    @wraps(function)
    def answered(*arguments: Any) -> Any:
        with _ExitWhenOutOfMemory(name):
            return function(*arguments)

    @wraps(function)
    def yielded(*arguments: Any) -> Iterator[Any]:
        with _ExitWhenOutOfMemory(name):
            yield from function(*arguments)

    return yielded if inspect.isgeneratorfunction(function) else answered


def prepare_to_end() -> None:
    """Start the thread that ends this process some seconds after memory ran out in it: then none could be started."""
    threading.Thread(target=_end_when_due, daemon=True).start()


def _end_when_due() -> None:
    _must_end.wait()
    time.sleep(SECONDS_TO_END)
    os._exit(1)


def wait_for(refs: Any) -> Any:
    """ray.get in an actor with several threads; it ends when memory has run out in another thread."""
    while True:
        try:
            return ray.get(refs, timeout=1.0)
        except GetTimeoutError:
            if _ending:
                raise SystemExit(_ending[0]) from None


def out_of_memory_message(error: BaseException | None) -> str:
    """Return the message of an out-of-memory error or of one among its causes; "" for other errors.

    The messages of our own errors may quote such words from user input, so only their causes are checked. Those of Ray
    tell of another process.
    """
    while error is not None and not isinstance(error, RayError):
        words = (str(error).strip() or type(error).__name__).splitlines()[0]
        matches = any(word in str(error).lower() for word in WORDS) and not isinstance(error, AlRayError)
        if matches or isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return words
        error = error.__cause__
    return ""


class _ExitWhenOutOfMemory:
    """Context of a call: exit the process on an out-of-memory error, with its message for Ray to report."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        words = out_of_memory_message(error)
        if words and threading.current_thread() is not threading.main_thread():
            # Ray ends an actor with several threads only when the calls in all of them have ended, and one of these may
            # wait for this call: see `wait_for`.
            _ending.append(f"{OUT}{self.name} ({words})")
            _must_end.set()
        if words:
            raise SystemExit(f"{OUT}{self.name} ({words})")
