"""When memory runs out in a worker, or its GPU fails, its process exits, and Ray restarts it as after a crash.

A new process has all memory again, and a new CUDA context: after an error of CUDA each later call in the old one fails.
Ray does not retry a call that raises an exception. A process that exits with a code other than 0 has crashed: Ray
restarts the actor and repeats the call, RESTARTS times at most (docs.ray.io, "Actor Fault Tolerance").
"""

import errno
import inspect
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any

import torch

from al_ray.core.errors import ActorLost, AlRayError

OUT, FAILED = "out of memory in ", "the GPU failed in "
FIX = (
    "If memory is short: give more `shards`, each of which needs less; machines with more memory; or, to a new "
    "`al_ray.run`, a smaller `search.block`, `encoder_batch` or `training.batch`"
)
GPU_FIX = "Look at the card and the driver of its node (nvidia-smi, dmesg), or leave out `gpus_per_shard`"
RESTARTS = 4  # Bounded: with endless restarts an actor that runs out of memory would loop for ever.
SECONDS_TO_END = 20.0  # Until a process ends that Ray does not end.
_ending: list[str] = []  # The message of this process, after a fatal error in one of its threads.
_must_end = threading.Event()
# Words of CUDA and its libraries where a context is lost; they say the same of memory, which is looked for first.
CUDA_WORDS = ("cuda error", "cublas_status_", "cudnn_status_", "cudnn error")
# Messages, because the errors of Torch, CUDA's libraries, Faiss, the system and Rust have no common class.
WORDS = (
    *("out of memory", "can't allocate memory", "cannot allocate memory", "bad_alloc", "alloc_failed", "cudamalloc"),
    # Python, which has no memory for the stack of a thread.
    "can't start new thread",
    # oneDNN, on the CPU.
    "could not create a primitive",
    "could not create a memory",
)


def exit_on_fatal_errors(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return the function or generator function so that it ends the process on such an error."""

    @wraps(function)
    def answered(*arguments: Any) -> Any:
        with ExitOnFatalErrors(name):
            return function(*arguments)

    @wraps(function)
    def yielded(*arguments: Any) -> Iterator[Any]:
        with ExitOnFatalErrors(name):
            # One by one: Ray sends statistics into the stream, which end here.
            for value in function(*arguments):  # noqa: UP028
                yield value

    return yielded if inspect.isgeneratorfunction(function) else answered


def prepare_to_end() -> None:
    """Start the thread that ends this process seconds after such an error, when no thread could be started."""
    threading.Thread(target=_end_when_due, daemon=True).start()


def _end_when_due() -> None:
    _must_end.wait()
    time.sleep(SECONDS_TO_END)
    os._exit(1)


def exit_if_ending() -> None:
    """SystemExit after a fatal error in another thread of this process."""
    if _ending:
        raise SystemExit(_ending[0]) from None


def out_of_memory_message(error: BaseException | None) -> str:
    """Return the message of an out-of-memory error or of one among its causes; "" for other errors.

    The messages of our own errors may quote such words from user input, so only their causes are checked. Messages of
    Ray are about another process.
    """
    while error is not None and not _is_of_ray(error):
        words = (str(error).strip() or type(error).__name__).splitlines()[0]
        matches = any(word in str(error).lower() for word in WORDS) and not isinstance(error, AlRayError)
        if matches or isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return words
        error = error.__cause__
    return ""


def gpu_failure_message(error: BaseException | None) -> str:
    """Return the message of an error after which CUDA is lost to the process, or of one among its causes; else ""."""
    while error is not None and not _is_of_ray(error):
        words = any(word in str(error).lower() for word in CUDA_WORDS) and not isinstance(error, AlRayError)
        if words or isinstance(error, torch.AcceleratorError):
            return str(error).strip().splitlines()[0]
        error = error.__cause__
    return ""


def _is_of_ray(error: BaseException, name: str = "RayError") -> bool:
    """Return whether an error is of this class of Ray, which need not be loaded."""
    return any(kind.__name__ == name and kind.__module__ == "ray.exceptions" for kind in type(error).__mro__)


def lost_here(error: Exception, name: str) -> ActorLost | None:
    """Return the error of a call in the process of a command in which memory ran out; None for other errors.

    name: what was called.
    """
    # What has been said is not said again.
    words = "" if isinstance(error, ActorLost) else out_of_memory_message(error)
    return ActorLost(f"{OUT}{name} ({words}). {FIX}. Then rerun the same command") if words else None


def lost_error(error: Exception) -> ActorLost:
    """Describe the death of an actor in one line: its class, the reason, and the fix."""
    message = " ".join(str(error).split())
    name = re.search(r"class_name: (\S+)", message) or re.search(rf"(?:{OUT}|{FAILED})(\w+)\.", message)
    kind = max(OUT, FAILED, key=message.rfind)
    reason = kind + message.split(kind)[-1] if kind in message else message.split("Worker exit detail: ")[-1]
    unread = _is_of_ray(error, "RaySystemError") and any(word in message.lower() for word in ("memoryerror", *WORDS))
    if unread or message.endswith("MemoryError"):
        # Raised by Ray itself, where our code cannot end the process.
        reason = f"{OUT}Ray itself, as it read what a call was given"
    return ActorLost(
        f"{name[1] if name else 'a worker'} died, and again each time it was started anew (at most {RESTARTS} times): "
        f"{reason[:300].rstrip('.')}. {GPU_FIX if reason.startswith(FAILED) else FIX}. Then rerun the same command"
    )


class ExitOnFatalErrors:
    """Context of a call: exit the process on a fatal error, with its message for Ray to report."""

    def __init__(self, name: str) -> None:
        """name: what is called."""
        self.name = name

    def __enter__(self) -> None:
        """Nothing is prepared."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Raise SystemExit in place of a fatal error. If the thread is not the main one, the process ends soon, too."""
        memory = out_of_memory_message(error)
        words = memory or gpu_failure_message(error)
        if not words:
            return
        message = f"{OUT if memory else FAILED}{self.name} ({words})"
        if threading.current_thread() is not threading.main_thread():
            # Ray ends an actor with several threads only when the calls in all of them have ended, and one of these may
            # wait for this call: see `wait_for`.
            _ending.append(message)
            _must_end.set()
        raise SystemExit(message)
