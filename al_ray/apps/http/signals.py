"""Wait for signals to a server."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType

LOOK_SECONDS = 1.0


@contextmanager
def received(*numbers: int) -> Iterator[Callable[[], int]]:
    """Yield a function that waits for the next of these signals since the start of the context and returns its number.

    For the main thread. The system may deliver a signal to any thread, as after SIGSTOP and SIGCONT; Python runs its
    handler in the main thread, but does not wake it. So the wait is a look every LOOK_SECONDS.
    """
    noted = SimpleQueue[int]()

    def note(number: int, frame: FrameType | None) -> None:
        noted.put(number)

    def wait() -> int:
        while True:
            try:
                return noted.get(timeout=LOOK_SECONDS)
            except Empty:
                continue

    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
