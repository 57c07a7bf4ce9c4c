"""Memory that runs out in a worker: its process ends, which frees it all, and Ray starts it again as after a crash.

To Ray an exception is an answer, and is not tried again. A process that exits with a code other than 0 has crashed: the
actor starts anew and repeats the call, RESTARTS times at most (docs.ray.io, "Actor Fault Tolerance").
"""

import errno
import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any

from al_ray.core.errors import AlRayError

OUT = "out of memory in "
# Torch, CUDA's libraries, Faiss, the system and Rust have no class in common, and some have none at all.
WORDS = (
    *("out of memory", "can't allocate memory", "cannot allocate memory", "bad_alloc", "alloc_failed", "cudamalloc"),
    # oneDNN, on the CPU.
    "could not create a primitive",
    "could not create a memory",
)


def sparing(plain: type) -> type:
    """The class, whose public methods end their process when memory runs out in them."""
    methods = {
        name: sparing_call(method, f"{plain.__name__}.{name}")
        for name, method in inspect.getmembers(plain, inspect.isfunction)
        if not name.startswith("_")
    }
    return type(plain.__name__, (plain,), methods)


def sparing_call(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function, or a function that yields, likewise."""

    @wraps(function)
    def answered(*arguments: Any) -> Any:
        with _Sparing(name):
            return function(*arguments)

    @wraps(function)
    def yielded(*arguments: Any) -> Iterator[Any]:
        with _Sparing(name):
            yield from function(*arguments)

    return yielded if inspect.isgeneratorfunction(function) else answered


def ran_out(error: BaseException | None) -> str:
    """The words of an error that memory ran out, or that stands upon such a one; else nothing.

    Our own errors quote names that people give: of them only what they stand upon counts.
    """
    while error is not None:
        words = (str(error).strip() or type(error).__name__).splitlines()[0]
        told = any(word in str(error).lower() for word in WORDS) and not isinstance(error, AlRayError)
        if told or isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return words
        error = error.__cause__
    return ""


class _Sparing:
    """Around a call: an error that memory ran out becomes the end of the process, with its words for Ray to tell."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        words = ran_out(error)
        if words:
            raise SystemExit(f"{OUT}{self.name} ({words})")
