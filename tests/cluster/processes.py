"""The processes of actors on this test's Ray, and how processes end."""

import threading
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil


def workers(*names: str) -> list[psutil.Process]:
    """The processes that are actors of these classes, or in these calls (Class.call), by number."""
    found = list[psutil.Process]()
    for process in psutil.Process().children(recursive=True):
        # Others end meanwhile. What has ended and is not yet reaped has no command line.
        with suppress(psutil.Error):
            words = " ".join(process.cmdline())
            if words.startswith("ray::") and any(name in words for name in names):
                found.append(process)
    return sorted(found, key=lambda process: process.pid)


def await_end(*names: str) -> None:
    """Wait until no such process is left of an earlier run, whose actors were killed."""
    deadline = time.monotonic() + 120
    while left := workers(*names):
        assert time.monotonic() < deadline, left
        threading.Event().wait(0.05)


def kill_all(processes: Iterable[psutil.Process]) -> None:
    """Kill processes at once, and wait until they have ended."""
    every = list(processes)
    for process in every:
        with suppress(psutil.Error):
            process.kill()
    deadline = time.monotonic() + 120
    while left := [process for process in every if _lives(process)]:
        assert time.monotonic() < deadline, left
        threading.Event().wait(0.05)


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE
    return False
