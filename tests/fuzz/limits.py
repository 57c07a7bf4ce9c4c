"""Bounds of an input: seconds of the processor, seconds of the clock, and bytes of memory."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

CPU_SECONDS, CLOCK_SECONDS = 15.0, 240.0
MEMORY = 512 * 2**20
"""Bytes by which the resident memory of the process may grow while an input is read."""
STATUS = Path("/proc/self/status")


class TooLong(BaseException):
    """An input that takes longer than the limit. No `except Exception` of a reader may swallow it."""


class TooLarge(BaseException):
    """An input that takes more memory than the limit."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise TooLong(f"longer than {CPU_SECONDS:g} s of the processor or {CLOCK_SECONDS:g} s of the clock")


def _resident(name: str) -> int:
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


@contextmanager
def limits() -> Iterator[None]:
    """Raise TooLong or TooLarge for what exceeds the limits. Memory is measured on Linux alone."""
    before = 0
    if STATUS.exists():
        # Sets the peak to what is resident now.
        Path("/proc/self/clear_refs").write_text("5")
        before = _resident("VmRSS")
    for one in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(one, _stop)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, CLOCK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    if STATUS.exists() and (grown := _resident("VmHWM") - before) > MEMORY:
        raise TooLarge(f"{grown / 2**20:,.0f} MiB more memory, and {MEMORY / 2**20:,.0f} are allowed")


def cap_address_space(more: int) -> None:
    """Let allocations fail that take the process `more` bytes beyond what it has: for a process of its own."""
    most = _resident("VmSize") + more
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
